import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, onTestFinished, test } from 'vitest';
import { kekCommand } from '../../src/kek/command.ts';
import { folderOfEachTest } from '../support/folder.ts';
import { KEK, problemOf } from '../support/kek.ts';
import { actsOn, ownPlace } from '../support/own.ts';
import { childrenOf, freePort, isRunning } from '../support/processes.ts';
import { newBlankPlace, runCli, startService, until } from '../support/service.ts';

const HEX = KEK.toString('hex');
const inFolder = folderOfEachTest('kek');

const problemWith = (command: string, timeoutMs?: number) =>
  problemOf(kekCommand(command, undefined, timeoutMs));

test('a command may print hex digits through a pipe of the shell, or 32 bytes that are no text', async () => {
  expect(await kekCommand(`echo secret >&2; echo ${HEX} | cat`).read()).toEqual(KEK);
  const bytes = Buffer.from([...Array(31).keys(), 10]);
  writeFileSync(inFolder('raw'), bytes);
  expect(await kekCommand(`cat ${inFolder('raw')}`).read()).toEqual(bytes);
});

describe('a command that gives no key is an error that names what happened, not what it printed', () => {
  test.each([
    ['exit 3', 'ended with exit code 3'],
    [`echo ${HEX}; exit 1`, 'ended with exit code 1'],
    ['no-such-program-anywhere', 'ended with exit code 127'],
    ['kill -9 $$', 'ended with SIGKILL'],
    ['true', 'it printed 0 bytes'],
    [`echo ${HEX}0`, 'it printed 66 bytes'],
    ['echo hunter2', 'it printed 8 bytes'],
    ['head -c 4096 /dev/zero', 'it printed 4096 bytes'],
    ['yes hunter2', 'printed more than 4096 bytes'],
    ['echo hunter2 >&2; exit 1', 'ended with exit code 1'],
  ])('%s', async (command, expected) => {
    const problem = await problemWith(command);
    expect(problem).toMatch(/^KEK_COMMAND /);
    expect(problem).toContain(expected);
    expect(problem).not.toContain('no-such-program');
    expect(problem).not.toContain(HEX.slice(0, 8));
  });

  test('one that does not end is ended, with all that it started', async () => {
    const pidFile = inFolder('pid');
    const command = `sleep 600 & echo $! > ${pidFile}; wait`;
    expect(await problemWith(command, 3_000)).toMatch(/within 3 s\. Run the command yourself/);
    const pid = Number(readFileSync(pidFile, 'utf8'));
    await until(() => !isRunning(pid), 'the end of what the command started');
  });

  test('one that leaves its process group and keeps the pipe is not waited for', async () => {
    const pidFile = inFolder('pid');
    const command = `setsid sh -c 'echo $$ > ${pidFile}; exec sleep 600' & sleep 600`;
    const pipes = () =>
      process.getActiveResourcesInfo().filter((name) => name === 'PipeWrap').length;
    const before = pipes();
    expect(await problemWith(command, 3_000)).toContain('did not end within 3 s');
    // An open one would keep the program from ending.
    await until(() => pipes() <= before, 'the end of its pipe here');
    await until(() => existsSync(pidFile) && readFileSync(pidFile).length > 0, 'its pid');
    process.kill(Number(readFileSync(pidFile, 'utf8')), 'SIGKILL');
  });
});

describe('the program with KEK_COMMAND', () => {
  test('makes a vault and opens it again, asks once a start, and doctor names the source', async () => {
    const place = await ownPlace('embedded');
    writeFileSync(inFolder('kek'), HEX);
    const count = inFolder('count');
    // It gets what a source of the KEK needs, and no secret of another part.
    const others = 'test -z "$OPS_TOKEN$ADMIN_TOKEN$REDIS_URL" && test -n "$VAULT_TOKEN$PATH"';
    const env = {
      KEK_COMMAND: `${others} && echo x >> ${count}; cat ${inFolder('kek')}; echo 1secret >&2`,
      ...{ OPS_TOKEN: 'o'.repeat(16), ADMIN_TOKEN: `a:${'b'.repeat(32)}`, VAULT_TOKEN: 'hvs.x' },
      ...{ REDIS_URL: 'redis://:secret@127.0.0.1:1', OPS_PORT: String(await freePort()) },
    };
    const service = await startService(place, env);
    expect(readFileSync(count, 'utf8')).toBe('x\n');
    expect(existsSync(join(place.env.DATA_DIR!, 'kek'))).toBe(false);
    const pids = [service.pid, ...childrenOf(service.pid)];
    expect(pids).toHaveLength(2);
    expect(pids.filter((pid) => showsToOthers(pid, HEX))).toEqual([]);
    await service.stop();
    expect(service.output()).not.toContain('1secret');
    const { run } = actsOn(place);
    expect((await run('keyring status', env)).code).toBe(0);
    expect(readFileSync(count, 'utf8')).toBe('x\nx\n');
    const { stdout } = await run('doctor', env);
    expect(stdout).toMatch(
      /^ok +key-encryption key: the output of KEK_COMMAND \([0-9a-f]{16}\) opens all 4 keys$/m,
    );
  });

  test('that fails ends the start before anything is written', async () => {
    const place = await newBlankPlace();
    onTestFinished(place.remove);
    const env = { KEK_COMMAND: 'echo hunter2; exit 4', PORT: '0', OPS_PORT: '0' };
    const { code, stdout, stderr } = await runCli(['serve'], place, env);
    expect({ code, stdout }).toEqual({ code: 1, stdout: '' });
    expect(stderr).toBe(
      'standin: KEK_COMMAND ended with exit code 4. Run the command yourself, as the user of the service, to see why.\n',
    );
    expect(existsSync(place.env.DATA_DIR!)).toBe(false);
  });
});

/** Whether the arguments or the environment of a process have a text in them. */
function showsToOthers(pid: number, text: string): boolean {
  return ['cmdline', 'environ'].some((file) => {
    const path = `/proc/${pid}/${file}`;
    return existsSync(path) && readFileSync(path).includes(text);
  });
}
