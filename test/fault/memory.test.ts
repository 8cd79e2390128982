import { execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { readdirSync, readFileSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, onTestFinished, test } from 'vitest';
import { isLinux, start as startNode } from '../support/fault.ts';
import { ownPlace } from '../support/own.ts';
import { childrenOf, freePort, isRunning, linkOf } from '../support/processes.ts';
import { findKey, findText } from '../support/secrecy.ts';
import { call, type Kind, kinds, type Place, type Service, until } from '../support/service.ts';
import { allKeys } from '../support/vault.ts';

/** What a process has in its memory stays there, whatever signal it is sent. */
const VALUE = 'zqjxkvbwq canary value';

let place: Place;
let service: Service;

/** A service that has just had the value in each of its processes, which it returns. */
async function start(kind: Kind, env: Record<string, string> = {}): Promise<number[]> {
  place = await ownPlace(kind);
  service = await startNode(place, env);
  for (let i = 0; i < 8; i++) {
    const { body } = await call(service, 'tokenize', { a: [VALUE, `${VALUE} ${i}`] });
    expect((await call(service, 'detokenize', body.data)).status).toBe(200);
  }
  const pids = [service.pid, ...childrenOf(service.pid)];
  expect(pids).toHaveLength(kind === 'embedded' ? 2 : 1);
  return pids;
}

/** A plain program that has the value in memory: what the service would be without care. */
async function startControl(flags: readonly string[] = []): Promise<number> {
  const script = `globalThis.kept = '${VALUE}'; setInterval(() => {}, 1000); console.log('ready')`;
  const child = spawn(process.execPath, [...flags, '-e', script], {
    cwd: place.folder,
    stdio: ['ignore', 'pipe', 'ignore'],
  });
  onTestFinished(() => void child.kill('SIGKILL'));
  await once(child.stdout, 'data');
  return child.pid!;
}

async function reportOf(pid: number): Promise<Buffer> {
  let report = Buffer.alloc(0);
  await until(() => {
    const name = readdirSync(place.folder).find((one) => one.includes(`.${pid}.`));
    if (name !== undefined) report = readFileSync(join(place.folder, name));
    // It is being written until its last brace.
    return report.toString().trimEnd().endsWith('\n}');
  }, 'a report');
  expect(JSON.parse(report.toString()).header.processId).toBe(pid);
  return report;
}

/** False where cores go to a program, or to a folder of the system. */
function coresAreFiles(): boolean {
  const pattern = '/proc/sys/kernel/core_pattern';
  return isLinux && /^core\b[^/|]*$/.test(readFileSync(pattern, 'utf8').trim());
}

/** For the processes that this one starts. */
const allowCores = () =>
  execFileSync('prlimit', ['--core=unlimited', '--pid', String(process.pid)]);

/** Ends the process with SIGABRT, and reads its core file; undefined when there is none. */
async function coreOf(pid: number): Promise<Buffer | undefined> {
  process.kill(pid, 'SIGABRT');
  await until(() => !isRunning(pid), 'the end of the process');
  const name = readdirSync(place.folder).find((one) => one.startsWith('core'));
  if (name === undefined) return undefined;
  const file = join(place.folder, name);
  const core = readFileSync(file);
  rmSync(file);
  return core;
}

/** Ports on which a process listens. */
function portsOf(pid: number): number[] {
  const links = readdirSync(`/proc/${pid}/fd`).map((fd) => linkOf(`/proc/${pid}/fd/${fd}`));
  const inodes = new Set(links.map((link) => /^socket:\[(\d+)\]$/.exec(link)?.[1]));
  return ['tcp', 'tcp6'].flatMap((table) =>
    readFileSync(`/proc/${pid}/net/${table}`, 'utf8')
      .split('\n')
      .map((line) => line.trim().split(/\s+/))
      .filter((cells) => cells[3] === '0A' && inodes.has(cells[9]!))
      .map((cells) => Number.parseInt(cells[1]!.split(':')[1]!, 16)),
  );
}

describe.runIf(isLinux).each(kinds())('a node on a database that is %s', (kind) => {
  test('C22: no key is in the environment, the arguments or a report of Node', async () => {
    const NODE_OPTIONS = '--report-on-signal --report-directory=.';
    const pids = await start(kind, { NODE_OPTIONS });
    const contents = new Map<string, Buffer>();
    for (const pid of pids) {
      process.kill(pid, 'SIGUSR2');
      for (const file of ['environ', 'cmdline'])
        contents.set(`${pid} ${file}`, readFileSync(`/proc/${pid}/${file}`));
      contents.set(`${pid} report`, await reportOf(pid));
    }
    contents.set('ps', execFileSync('ps', ['-ww', '-o', 'args=', '-p', pids.join(',')]));
    expect(contents.size).toBe(3 * pids.length + 1);
    // It is looked for where it would be: the path of the KEK file, or of its folder, is there.
    expect(findText(place.env.DATA_DIR!, contents).length).toBeGreaterThan(pids.length);
    for (const key of await allKeys(place)) expect(findKey(key, contents)).toEqual([]);
    for (const text of [VALUE, service.api_key]) expect(findText(text, contents)).toEqual([]);
  });

  test('C23: SIGUSR1 opens no debugger port', async () => {
    const NODE_OPTIONS = `--inspect-port=${await freePort()}`;
    const pids = await start(kind, { NODE_OPTIONS });
    const before = pids.map(portsOf);
    for (const pid of pids) process.kill(pid, 'SIGUSR1');
    const control = await startControl(['--inspect-port=0']);
    process.kill(control, 'SIGUSR1');
    await until(() => portsOf(control).length > 0, 'the port that Node opens by default');
    expect(pids.map(portsOf)).toEqual(before);
    expect((await call(service, 'tokenize', { a: 'still here' })).status).toBe(200);
    expect(service.output()).not.toMatch(/debugger|inspector/i);
  });

  test.runIf(coresAreFiles())('C24: there is no core file', async () => {
    allowCores();
    const pids = await start(kind);
    for (const pid of pids)
      expect(readFileSync(`/proc/${pid}/limits`, 'utf8')).toMatch(/^Max core file size +0 +0 /m);
    // The child first: an embedded database follows its parent.
    for (const pid of pids.toReversed()) expect(await coreOf(pid)).toBeUndefined();
  });

  test.runIf(coresAreFiles())(
    'C24: there is no memory in a core file where there is no prlimit',
    async () => {
      allowCores();
      const pids = await start(kind, { PATH: '/nowhere' });
      const controlled = await coreOf(await startControl());
      expect(findText(VALUE, new Map([['control', controlled!]]))).not.toEqual([]);
      // Registers and the like; all of its memory would be a hundred times as much.
      for (const pid of pids.toReversed())
        expect((await coreOf(pid))!.length).toBeLessThan(controlled!.length / 10);
    },
  );
});
