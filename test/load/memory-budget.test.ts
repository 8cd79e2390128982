import { execFileSync } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync, rmdirSync } from 'node:fs';
import { connect, type Socket } from 'node:net';
import { expect, onTestFinished, test } from 'vitest';
import { Callers, descriptorsOf, residentBytes } from '../support/callers.ts';
import { type MemoryGroup, makeMemoryGroup } from '../support/cgroup.ts';
import { ANSWER_BOUND_MS, is_linux, SLACK_MS } from '../support/fault.ts';
import { freePort } from '../support/ports.ts';
import { isRunning } from '../support/processes.ts';
import { leastPrivilegePlace } from '../support/rights.ts';
import { kinds, type Service, startService, until } from '../support/service.ts';

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

async function start(env: Record<string, string>, group?: MemoryGroup): Promise<Service> {
  const place = await leastPrivilegePlace();
  const OPS_PORT = String(await freePort());
  group?.take(process.pid);
  const service = await startService(place, { OPS_PORT, LOG_LEVEL: 'info', ...env });
  group?.give(process.pid);
  onTestFinished(async () => {
    service.kill('SIGKILL');
    await service.exit;
    place.remove();
    await until(() => !isRunning(service.pid), 'the end of the service');
    if (group !== undefined) rmdirSync(group.folder);
  });
  return service;
}

/** The most that the process had in memory since it started. */
function peakBytes(pid: number): number {
  const status = readFileSync(`/proc/${pid}/status`, 'utf8');
  return 1_024 * Number(/^VmHWM:\s+(\d+) kB$/m.exec(status)![1]);
}

async function metric(service: Service, name: string): Promise<number> {
  const text = await (await fetch(`${service.ops_url}/metrics`)).text();
  return Number(new RegExp(`^${name} (\\S+)$`, 'm').exec(text)![1]);
}

async function tokensOf(callers: Callers, values: readonly string[], a_body: number) {
  const tokens: string[] = [];
  for (let from = 0; from < values.length; from += a_body) {
    const reply = await callers.call('tokenize', { v: values.slice(from, from + a_body) });
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

function head({ api_key }: Service, operation: string, length: number): string {
  const headers = [
    `POST /api/v1/${operation} HTTP/1.1`,
    'Host: a',
    `Authorization: Bearer ${api_key}`,
    'Content-Type: application/json',
    `Content-Length: ${length}`,
  ];
  return `${headers.join('\r\n')}\r\n\r\n`;
}

/** Sends requests whose answers nobody reads; each is begun or refused when it resolves. */
async function leaveUnread(service: Service, body: string): Promise<Socket[]> {
  const sockets = Array.from({ length: AT_ONCE }, () => open(service));
  await Promise.all(
    sockets.map(async (socket) => {
      socket.write(head(service, 'detokenize', body.length) + body);
      await Promise.race([once(socket, 'readable'), once(socket, 'close')]);
    }),
  );
  return sockets;
}

/** A caller of few short values and a look at /health/live, again and again until it is stopped. */
function ordinaryCaller(service: Service, token: string) {
  const callers = new Callers(service, 1);
  const lives: number[] = [];
  let slowest_ms = 0;
  let is_over = false;
  const loops = [
    (async () => {
      for (let n = 0; !is_over; n++) {
        await callers.call('tokenize', { a: `ordinary ${n}`, b: `caller ${n}` });
        const reply = await callers.call('detokenize', { a: token });
        if (reply?.status === 200) expect(reply.body.data).toEqual({ a: 'ordinary' });
      }
    })(),
    (async () => {
      while (!is_over) {
        const began_ms = performance.now();
        lives.push((await fetch(`${service.url}/health/live`)).status);
        slowest_ms = Math.max(slowest_ms, performance.now() - began_ms);
      }
    })(),
  ];
  return {
    callers,
    lives,
    slowest_ms: () => slowest_ms,
    async stop() {
      is_over = true;
      await Promise.all(loops);
      callers.close();
    },
  };
}

test.skipIf(!is_linux || !kinds().includes('server'))(
  'L18: sixty large detokenize requests at once, unread ones too, in 512 MiB: it goes on for all',
  async () => {
    const group = makeMemoryGroup(LIMIT_BYTES);
    const service = await start(group === undefined ? LIKE_LIMITED : {}, group);
    const callers = new Callers(service, AT_ONCE);
    const [ordinary, nul] = await tokensOf(callers, ['ordinary', '\0'.repeat(65_536)], 2);
    const long = await tokensOf(callers, numbered(LONG_VALUES, LONG_BYTES), 17);
    const others = await tokensOf(callers, numbered(HALF_LONG_VALUES, HALF_LONG_BYTES), 120);
    const caller = ordinaryCaller(service, ordinary!);
    const ask = async (tokens: readonly string[]) => {
      const asked = Array.from({ length: AT_ONCE }, () =>
        callers.call('detokenize', { v: tokens }),
      );
      return new Set((await Promise.all(asked)).map((reply) => reply?.status));
    };
    const statuses = [
      ...(await ask(Array(256).fill(nul!))),
      ...(await ask([...long, ...others])),
      ...(await ask(Array(42).fill(nul!))),
      ...(await ask(long)),
    ];
    expect(statuses).toContain(400);
    expect(statuses.filter((status) => ![200, 400, 503].includes(status!))).toEqual([]);
    for (const tokens of [Array(42).fill(nul), long]) {
      const sockets = await leaveUnread(service, JSON.stringify({ data: { v: tokens } }));
      const before = caller.callers.answered;
      await until(() => caller.callers.answered >= before + 20, 'ordinary answers');
      for (const socket of sockets) socket.destroy();
    }
    await caller.stop();
    console.log(
      [...caller.callers.counts],
      caller.lives.length,
      caller.slowest_ms(),
      peakBytes(service.pid) / MIB,
      statuses,
    );
    expect(new Set(caller.lives)).toEqual(new Set([200]));
    expect(caller.slowest_ms()).toBeLessThan(ANSWER_BOUND_MS + SLACK_MS);
    expect(new Set(caller.callers.counts.keys())).toEqual(new Set([200]));
    expect(peakBytes(service.pid)).toBeLessThan(LIMIT_BYTES);
    if (group !== undefined) expect(group.kills()).toBe(0);
    callers.close();
    await until(async () => (await metric(service, 'standin_held_bytes')) === 0, 'nothing held');
  },
);

test.skipIf(!is_linux)(
  'L19: six hundred unfinished bodies of 1 MiB cost ordinary callers nothing, and little memory',
  async () => {
    const service = await start({});
    const callers = new Callers(service, 1);
    const [ordinary] = await tokensOf(callers, ['ordinary'], 1);
    const before_bytes = residentBytes(service.pid);
    const caller = ordinaryCaller(service, ordinary!);
    const body = Buffer.alloc(MIB - 1, 'x');
    const sockets = Array.from({ length: 600 }, () => open(service));
    for (const socket of sockets) {
      socket.write(head(service, 'tokenize', MIB));
      socket.write(body);
    }
    let most_bytes = 0;
    const before = caller.callers.answered;
    await until(async () => {
      most_bytes = Math.max(most_bytes, residentBytes(service.pid));
      return caller.callers.answered >= before + 300;
    }, 'ordinary answers');
    await caller.stop();
    console.log([...caller.callers.counts], caller.slowest_ms(), (most_bytes - before_bytes) / MIB);
    expect(new Set(caller.callers.counts.keys())).toEqual(new Set([200]));
    expect(new Set(caller.lives)).toEqual(new Set([200]));
    expect(most_bytes - before_bytes).toBeLessThan(300 * MIB);
    for (const socket of sockets) socket.destroy();
    callers.close();
    await until(async () => (await metric(service, 'standin_held_bytes')) === 0, 'nothing held');
  },
);

test.skipIf(!is_linux)(
  'L21: idle connections take no descriptor that the process needs, and none of those that are there',
  async () => {
    const service = await start({});
    const callers = new Callers(service, 4);
    const [ordinary] = await tokensOf(callers, ['ordinary'], 1);
    const files = 400;
    execFileSync('prlimit', ['--pid', `${service.pid}`, `--nofile=${files}:${files}`]);
    const refused = () => metric(service, 'standin_connections_refused_total');
    const caller = ordinaryCaller(service, ordinary!);
    const answers = (count: number) => {
      const goal = caller.callers.answered + count;
      return until(() => caller.callers.answered >= goal, 'ordinary answers');
    };
    await answers(1);
    const idle: Socket[] = [];
    await until(async () => {
      idle.push(...Array.from({ length: 50 }, () => open(service)));
      return (await refused()) > 100;
    }, 'refused connections');
    await answers(200);
    expect(descriptorsOf(service.pid)).toBeLessThan(files - 50);
    for (const socket of idle) socket.destroy();
    await answers(20);
    await caller.stop();
    expect(new Set(caller.callers.counts.keys())).toEqual(new Set([200]));
    await until(async () => (await fetch(`${service.url}/health`)).status === 200, 'a new caller');
    callers.close();
  },
);
