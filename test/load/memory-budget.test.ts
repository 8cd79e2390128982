import { execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync, rmdirSync } from 'node:fs';
import { connect, type Socket } from 'node:net';
import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import {
  Callers,
  descriptorsOf,
  type MemoryGroup,
  makeMemoryGroup,
  residentBytes,
  startLeast,
} from '../support/callers.ts';
import { ANSWER_BOUND_MS, headOf, isLinux, SLACK_MS } from '../support/fault.ts';
import { loop } from '../support/loop.ts';
import { endsWithTest } from '../support/own.ts';
import { freePort } from '../support/processes.ts';
import { kinds, leastPrivilegePlace, type Service, until } from '../support/service.ts';
import { metric } from '../support/vault.ts';

const MIB = 1_048_576;
const LIMIT_BYTES = 512 * MIB;
const AT_ONCE = 60;
const LONG_BYTES = 60_000;
const LONG_VALUES = 250;
const HALF_LONG_BYTES = 8_192;
const HALF_LONG_VALUES = 3_550;

/** What a control group of 512 MiB makes of a process, where none can be made. */
const LIKE_LIMITED = {
  MEMORY_BUDGET: String(LIMIT_BYTES / 8),
  NODE_OPTIONS: `--max-old-space-size=${LIMIT_BYTES / 2 / MIB}`,
};

/** A group that is empty and removed with the test. */
function newGroup(): MemoryGroup | undefined {
  const group = makeMemoryGroup(LIMIT_BYTES);
  const isEmpty = () => readFileSync(join(group!.folder, 'cgroup.procs'), 'utf8') === '';
  onTestFinished(async () => {
    if (group === undefined) return;
    await until(isEmpty, 'an empty group');
    rmdirSync(group.folder);
  });
  return group;
}

/** In a group, or with the settings that a group would make. */
async function startLimited(limited: Record<string, string> = {}, group?: MemoryGroup) {
  const OPS_PORT = String(await freePort());
  const env = group === undefined ? limited : {};
  const place = await endsWithTest(leastPrivilegePlace());
  // What this process takes meanwhile counts in the group, too: no longer than it must.
  group?.take(process.pid);
  const service = await startLeast({ OPS_PORT, LOG_LEVEL: 'info', ...env }, place);
  group?.give(process.pid);
  return service;
}

/** Whether this machine allows control groups. */
const makesGroups = (() => {
  const group = makeMemoryGroup(LIMIT_BYTES);
  if (group !== undefined) rmdirSync(group.folder);
  return group !== undefined;
})();

async function tokensOf(callers: Callers, values: readonly string[], aBody: number) {
  const tokens: string[] = [];
  for (let from = 0; from < values.length; from += aBody) {
    const reply = await callers.call('tokenize', { v: values.slice(from, from + aBody) });
    expect(reply?.status).toBe(200);
    tokens.push(...reply!.body.data.v);
  }
  return tokens;
}

function numbered(count: number, bytes: number): string[] {
  return Array.from({ length: count }, (_, i) => `${bytes} ${i} `.padEnd(bytes, 'x'));
}

function open(service: Service): Socket {
  const { hostname, port } = new URL(service.url);
  const socket = connect(Number(port), hostname);
  socket.on('error', () => {});
  onTestFinished(() => void socket.destroy());
  return socket;
}

/** Sends requests whose answers nobody reads; each is begun or refused when it resolves. */
async function leaveUnread(service: Service, body: string): Promise<Socket[]> {
  const sockets = Array.from({ length: AT_ONCE }, () => open(service));
  await Promise.all(
    sockets.map(async (socket) => {
      socket.write(headOf(service, 'detokenize', body.length) + body);
      await Promise.race([once(socket, 'readable'), once(socket, 'close')]);
    }),
  );
  return sockets;
}

/** A process of its own: the one of the tests is busy with its hostile callers. */
const PROBE = `
  let looks = 0, slowestMs = 0;
  const statuses = new Set();
  process.on('SIGTERM', () => {
    console.log(JSON.stringify({ looks, statuses: [...statuses], slowestMs }));
    process.exit();
  });
  for (;;) {
    const beganMs = performance.now();
    statuses.add(await fetch(process.argv[1] + '/health/live').then((answer) => answer.status, () => 0));
    slowestMs = Math.max(slowestMs, performance.now() - beganMs);
    looks++;
  }`;

/** Looks at /health/live again and again; resolves to what it saw when it is stopped. */
function probe(service: Service) {
  const args = ['--input-type=module', '--eval', PROBE, service.url];
  const child = spawn(process.execPath, args, { stdio: ['ignore', 'pipe', 'inherit'] });
  onTestFinished(() => void child.kill('SIGKILL'));
  return async (): Promise<{ looks: number; statuses: number[]; slowestMs: number }> => {
    child.kill('SIGTERM');
    return JSON.parse(Buffer.concat(await child.stdout!.toArray()).toString());
  };
}

/** A caller of few short values, again and again until it is stopped. */
function ordinaryCaller(service: Service, token: string) {
  const callers = new Callers(service, 1);
  const running = loop(async (n) => {
    await callers.call('tokenize', { a: `ordinary ${n}`, b: `caller ${n}` });
    const reply = await callers.call('detokenize', { a: token });
    if (reply?.status === 200) expect(reply.body.data).toEqual({ a: 'ordinary' });
  });
  return {
    /** Resolves when so many more are answered. */
    progress(count: number): Promise<void> {
      const goal = callers.answered + count;
      return until(() => callers.answered >= goal, `${count} ordinary answers`);
    },
    /** The statuses of all answers. */
    async stop(): Promise<(number | 'cut')[]> {
      await running.stop();
      return [...callers.counts.keys()];
    },
  };
}

/** All requests that were under way are over, and none of their bytes is counted. */
function nothingHeld(service: Service): Promise<void> {
  return until(async () => (await metric(service, 'standin_held_bytes')) === 0, 'nothing held');
}

test.skipIf(!isLinux || !kinds().includes('server'))(
  'L18: sixty large detokenize requests at once, unread ones too, in 512 MiB: it goes on for all',
  async () => {
    const group = newGroup();
    const service = await startLimited(LIKE_LIMITED, group);
    const callers = new Callers(service, AT_ONCE);
    const [ordinary, nul] = await tokensOf(callers, ['ordinary', '\0'.repeat(65_536)], 2);
    const long = await tokensOf(callers, numbered(LONG_VALUES, LONG_BYTES), 17);
    const others = await tokensOf(callers, numbered(HALF_LONG_VALUES, HALF_LONG_BYTES), 120);
    const caller = ordinaryCaller(service, ordinary!);
    const probed = probe(service);
    const ask = async (tokens: readonly string[]) => {
      const asked = Array.from({ length: AT_ONCE }, () =>
        callers.call('detokenize', { v: tokens }),
      );
      return (await Promise.all(asked)).map((reply) => reply?.status);
    };
    // More than an answer may have: by what JSON makes of a value, and by the values themselves.
    expect(await ask(Array(256).fill(nul!))).toContain(400);
    expect(await ask([...long, ...others])).toContain(400);
    // As much as an answer may have.
    expect(await ask(Array(42).fill(nul!))).toContain(200);
    expect(await ask(long)).toContain(200);
    for (const tokens of [Array(42).fill(nul), long]) {
      const sockets = await leaveUnread(service, JSON.stringify({ data: { v: tokens } }));
      await caller.progress(20);
      for (const socket of sockets) socket.destroy();
    }
    expect(await caller.stop()).toEqual([200]);
    const { statuses, slowestMs } = await probed();
    expect(statuses).toEqual([200]);
    expect(slowestMs).toBeLessThan(ANSWER_BOUND_MS + SLACK_MS);
    expect(residentBytes(service.pid, 'VmHWM')).toBeLessThan(LIMIT_BYTES);
    if (group !== undefined) expect(group.kills()).toBe(0);
    await nothingHeld(service);
  },
);

test.skipIf(!isLinux)(
  'L19: six hundred unfinished bodies of 1 MiB cost ordinary callers nothing, and little memory',
  async () => {
    const service = await startLimited();
    const callers = new Callers(service, 1);
    const [ordinary] = await tokensOf(callers, ['ordinary'], 1);
    const beforeBytes = residentBytes(service.pid);
    const caller = ordinaryCaller(service, ordinary!);
    const probed = probe(service);
    const body = Buffer.alloc(MIB - 1, 'x');
    const sockets = Array.from({ length: 600 }, () => open(service));
    for (const socket of sockets) {
      socket.write(headOf(service, 'tokenize', MIB));
      socket.write(body);
    }
    await caller.progress(300);
    expect(await caller.stop()).toEqual([200]);
    expect((await probed()).statuses).toEqual([200]);
    expect(residentBytes(service.pid, 'VmHWM') - beforeBytes).toBeLessThan(300 * MIB);
    for (const socket of sockets) socket.destroy();
    await nothingHeld(service);
  },
);

test.skipIf(!isLinux)(
  'L21: idle connections take no descriptor that the process needs, and none of those that are there',
  async () => {
    const service = await startLimited();
    const callers = new Callers(service, 4);
    const [ordinary] = await tokensOf(callers, ['ordinary'], 1);
    const files = 400;
    const idle = Array.from({ length: 250 }, () => open(service));
    execFileSync('prlimit', ['--pid', `${service.pid}`, `--nofile=${files}:${files}`]);
    const refused = () => metric(service, 'standin_connections_refused_total');
    const caller = ordinaryCaller(service, ordinary!);
    await caller.progress(1);
    // The process reads its limit every second: not so many at once that none is left to read it with.
    await until(async () => {
      idle.push(open(service));
      return (await refused()) > 100;
    }, 'refused connections');
    await caller.progress(200);
    expect(descriptorsOf(service.pid)).toBeLessThan(files - 50);
    for (const socket of idle) socket.destroy();
    await caller.progress(20);
    expect(await caller.stop()).toEqual([200]);
    await until(async () => (await fetch(`${service.url}/health`)).status === 200, 'a new caller');
  },
);

test.skipIf(!makesGroups)(
  'L11: sixteen bodies of ten thousand values at once, in 512 MiB: each is answered, nothing is killed',
  async () => {
    const [group, limited] = [newGroup()!, newGroup()!];
    const service = await startLeast();
    group.take(service.pid);
    const callers = new Callers(service, 16);
    for (let round = 0; round < 3; round++) {
      const sent = Array.from({ length: 16 }, (_, body) => {
        const values = Array.from({ length: 10_000 }, (__, i) => `${round} ${body} field ${i}`);
        return callers.call('tokenize', { values });
      });
      const statuses = (await Promise.all(sent)).map((reply) => reply?.status);
      expect(statuses.filter((status) => status !== 200 && status !== 503)).toEqual([]);
      expect(statuses).toContain(200);
    }
    expect(group.kills()).toBe(0);
    const members = readFileSync(join(group.folder, 'cgroup.procs'), 'utf8').trim().split('\n');
    expect(members).toEqual([String(service.pid)]);
    // The limit is one: what asks for more is killed.
    const script = `echo $$ > ${limited.folder}/cgroup.procs; exec ${process.execPath} -e 'const kept = []; for (;;) kept.push(Buffer.alloc(1e7, 1))'`;
    expect(() => execFileSync('sh', ['-c', script], { stdio: 'ignore' })).toThrow();
    expect(limited.kills()).toBe(1);
  },
);
