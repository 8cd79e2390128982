import { once } from 'node:events';
import { type AddressInfo, createServer, type Server, type Socket } from 'node:net';
import { afterAll, afterEach, beforeAll, describe, expect, onTestFinished, test } from 'vitest';
import { type Retry, Standin, StandinError, type StandinOptions, TimeoutError } from '#client';
import { Front } from '../support/balancer.ts';
import { FaultProxy } from '../support/fault-proxy.ts';
import { freePort, PostgresCluster, postgresBin } from '../support/postgres.ts';
import { usualService } from '../support/served.ts';
import { createClient, newPlace, startService, until, usualPlace } from '../support/service.ts';

const values = (count: number) => Array.from({ length: count }, (_, i) => `Value no ${i}`);
/** Of a failure that is waited out: far beyond what it takes on a busy machine. */
const PATIENT = { timeoutMs: 100_000 };

const service = usualService();
let front: Front;
beforeAll(async () => {
  front = await Front.start(service.url, '/standin');
});
afterEach(() => {
  front.troubles.length = 0;
  front.bodies.length = 0;
});
afterAll(() => front?.stop());

/** Its requests go through a proxy, at an address with a path. */
const standin = (options: Partial<StandinOptions> = {}) =>
  new Standin({ url: `${front.url}/standin/`, apiKey: service.api_key, ...options });

test('many of the longest values fit the bodies that the service takes, at most four at once', async () => {
  const longest = Array.from({ length: 60 }, (_, i) => `🙂 no ${i}`.padEnd(65_534, '"'));
  const tokens = await standin().tokenizeValues(longest, PATIENT);
  expect(front.bodies.length).toBeGreaterThan(4);
  expect(front.mostOpen).toBeLessThanOrEqual(4);
  expect(await standin().detokenizeValues(tokens, PATIENT)).toEqual(longest);
});

test('random mode: a value has one token in a call, and another in the next', async () => {
  const { api_key: apiKey } = await createClient(service.place, '--token-mode', 'random');
  const client = standin({ apiKey, maxValues: 2 });
  const names = ['Ann Lee', 'Bo Ray', 'Cy Day', 'Ann Lee'];
  const first = await client.tokenizeValues(names);
  const second = await client.tokenizeValues(names);
  expect(first[0]).toBe(first[3]);
  expect(first[0]).not.toBe(second[0]);
  expect(await client.detokenizeValues([...first, ...second])).toEqual([...names, ...names]);
});

test('the older interface: its answers are understood', async () => {
  const { url, stop } = await startService(service.place, { INTERFACE_VERSION: '1.0.4' });
  onTestFinished(stop);
  const client = standin({ url });
  expect((await client.health()).version).toBe('1.0.4');
  expect(await client.detokenize(await client.tokenize({ a: 'Ann' }))).toEqual({ a: 'Ann' });
});

test('onRetry is told of each pause', async () => {
  front.troubles.push('reset', { status: 503, body: '{"error":"overloaded","retry_after":1}' });
  const told: Retry[] = [];
  await standin({ onRetry: (one) => told.push(one) }).tokenize({ name: 'Ann Lee' }, PATIENT);
  expect(told.map(({ error }) => [error.code, error.attempts])).toEqual([
    ['network_error', 1],
    ['overloaded', 2],
  ]);
  expect(told[0]!.error.detail).toMatch(/^\w+$/);
  expect(told[1]!.pauseMs).toBeGreaterThanOrEqual(1_000);
});

test('a call of many requests outlives connections that break again and again', async () => {
  const proxy = await FaultProxy.start(Number(new URL(service.url).port));
  onTestFinished(() => proxy.stop());
  const client = standin({ url: proxy.through(service.url) });
  let resets = 0;
  const resetting = setInterval(() => {
    if (proxy.connections === 0 || resets === 5) return;
    resets++;
    proxy.reset();
  }, 10);
  onTestFinished(() => clearInterval(resetting));
  const tokens = await client.tokenizeValues(values(50_000), PATIENT);
  expect(resets).toBeGreaterThan(0);
  expect(new Set(tokens).size).toBe(50_000);
  expect(await client.detokenizeValues(tokens, PATIENT)).toEqual(values(50_000));
});

test('after a machine that is gone, the next attempt finds another', async () => {
  front.troubles.push('silence');
  const tokens = await standin().tokenize({ name: 'Ann Lee' });
  expect(front.bodies).toHaveLength(2);
  expect(await standin().detokenize(tokens)).toEqual({ name: 'Ann Lee' });
});

test('no attempt follows one that cannot succeed: the port is one that fetch refuses', async () => {
  const client = standin({ url: 'http://127.0.0.1:6000' });
  await expect(client.tokenizeValues(['Ann Lee'])).rejects.toThrow('(bad port)');
});

describe('where nobody answers', () => {
  const sockets = new Set<Socket>();
  let server: Server;
  let client: Standin;
  beforeAll(async () => {
    server = createServer((socket) => {
      sockets.add(socket.on('error', () => {}));
      socket.once('close', () => sockets.delete(socket)).resume();
    }).listen(0, '127.0.0.1');
    await once(server, 'listening');
    const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
    client = standin({ url, maxValues: 1, concurrency: 15 });
  });
  afterAll(() => {
    server.close();
    for (const socket of sockets) socket.destroy();
  });

  test('a call ends at its deadline, and leaves no connection', async () => {
    const error = await client.tokenizeValues(values(20), { timeoutMs: 300 }).catch((one) => one);
    expect(error).toBeInstanceOf(TimeoutError);
    expect(error.message).toBe('tokenize: no answer within 300 ms');
    await expect(client.health({ timeoutMs: 100 })).rejects.toThrow(TimeoutError);
    await until(() => sockets.size === 0, 'connections are closed');
  });

  test('one signal ends many calls with its reason, and the runtime sees no leak', async () => {
    const warnings: Error[] = [];
    const warn = (warning: Error) => warnings.push(warning);
    process.on('warning', warn);
    const controller = new AbortController();
    const calls = Array.from({ length: 15 }, () =>
      client.tokenizeValues(values(20), { signal: controller.signal }),
    );
    await until(() => sockets.size >= 15, 'connections');
    controller.abort('shutdown');
    for (const { status, reason } of (await Promise.allSettled(calls)) as any[])
      expect([status, reason]).toEqual(['rejected', 'shutdown']);
    await until(() => sockets.size === 0, 'connections are closed');
    process.off('warning', warn);
    expect(warnings).toEqual([]);
  });
});

test.each([
  ['killed', 'SIGKILL'],
  ['drained', 'SIGTERM'],
] as const)('a call goes on when the service is %s and started again', async (_, signal) => {
  const ownPlace = await usualPlace();
  const env = { PORT: String(await freePort()), DRAIN_DELAY_MS: '0' };
  let own = await startService(ownPlace, env);
  onTestFinished(async () => {
    own.kill('SIGINT');
    await own.exit;
    ownPlace.remove();
  });
  const client = standin({ url: own.url, apiKey: own.api_key, maxValues: 100 });
  let isOver = false;
  const pending = client.tokenizeValues(values(30_000), PATIENT).finally(() => {
    isOver = true;
  });
  await until(() => own.output().includes('"status":200'), 'a first answer');
  own.kill(signal);
  await own.exit;
  expect(isOver).toBe(false);
  own = await startService(ownPlace, env);
  expect(await client.detokenizeValues(await pending)).toEqual(values(30_000));
});

test.skipIf(postgresBin === undefined)('a database that is away for a while', async () => {
  const cluster = await PostgresCluster.start();
  const own = await startService(await newPlace('server', cluster.url('postgres')));
  onTestFinished(async () => {
    await own.stop();
    own.place.remove();
    cluster.stop();
  });
  const client = standin({ url: own.url, apiKey: own.api_key });
  expect(await client.health()).toMatchObject({ status: 'ok', postgres: 'ok', version: '1.0.5' });
  await cluster.crash();
  const short = client.tokenize({ name: 'Ann Lee' }, { timeoutMs: 10 });
  await expect(short).rejects.toThrow(StandinError);
  const pending = client.tokenize({ name: 'Ann Lee' }, PATIENT);
  await until(() => own.output().includes('"status":500'), 'a first failure');
  expect(await client.health()).toMatchObject({ status: 'error', postgres: 'error' });
  cluster.startAgain();
  expect(await client.detokenize(await pending, PATIENT)).toEqual({ name: 'Ann Lee' });
});
