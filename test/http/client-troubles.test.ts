import { once } from 'node:events';
import { type AddressInfo, createServer, type Socket } from 'node:net';
import { inspect } from 'node:util';
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest';
import { type Retry, Standin, StandinError, TimeoutError, UnavailableError } from '#client';
import { Front, type Trouble } from '../support/balancer.ts';
import { FaultProxy } from '../support/fault-proxy.ts';
import { freePort, PostgresCluster, postgresBin } from '../support/postgres.ts';
import {
  leastPrivilegePlace,
  newPlace,
  type Place,
  type Service,
  startService,
  until,
  usualKinds,
} from '../support/service.ts';

const values = (count: number) => Array.from({ length: count }, (_, i) => `Value no ${i}`);
/** Of a failure that is waited out: far beyond what it takes on a busy machine. */
const PATIENT = { timeoutMs: 100_000 };

let place: Place;
let service: Service;
let front: Front;
beforeAll(async () => {
  place = await leastPrivilegePlace();
  service = await startService(place);
  front = await Front.start(service.url);
});
afterEach(() => {
  front.troubles.length = 0;
  front.bodies.length = 0;
});
afterAll(async () => {
  front.stop();
  await service.stop();
  place.remove();
});

const standin = () => new Standin({ url: front.url, apiKey: service.api_key });

describe('what passes is tried again', () => {
  test.each<[string, Trouble]>([
    ['a connection that is reset', 'reset'],
    ['an answer that ends in the middle', 'cut'],
    ['408', { status: 408, body: '{"error":"request_timeout"}' }],
    ['429', { status: 429, body: '{"error":"user_limit","retry_after":1}' }],
    ['502 of a proxy', { status: 502, body: '<html>Ann Lee</html>' }],
    ['503', { status: 503, body: '{"error":"overloaded","retry_after":1}' }],
    ['503 with a header', { status: 503, headers: { 'retry-after': '1' }, body: '' }],
    ['503 until a date', { status: 503, headers: { 'retry-after': 'Sat, 01 Jan 2050' }, body: '' }],
    ['504', { status: 504, body: '' }],
    ['500', { status: 500, body: '{"error":"internal_error","message":"database unavailable"}' }],
  ])('%s', async (_, trouble) => {
    front.troubles.push(trouble, trouble);
    const tokens = await standin().tokenize({ name: 'Ann Lee' }, PATIENT);
    expect(front.bodies).toEqual(Array(3).fill('{"data":{"values":["Ann Lee"]}}'));
    expect(await standin().detokenize(tokens)).toEqual({ name: 'Ann Lee' });
  });

  test('onRetry is told of each pause', async () => {
    front.troubles.push('reset', { status: 503, body: '{"error":"overloaded","retry_after":1}' });
    const told: Retry[] = [];
    const onRetry = (one: Retry) => told.push(one);
    const client = new Standin({ url: front.url, apiKey: service.api_key, onRetry });
    await client.tokenize({ name: 'Ann Lee' }, PATIENT);
    expect(told.map(({ error }) => [error.code, error.attempts])).toEqual([
      ['network_error', 1],
      ['overloaded', 2],
    ]);
    expect(told[0]!.error.detail).toMatch(/^\w+$/);
    expect(told[1]!.pauseMs).toBeGreaterThanOrEqual(1_000);
  });

  test('a base address with a path is kept', async () => {
    const gateway = await Front.start(service.url, '/standin');
    const client = new Standin({ url: `${gateway.url}/standin/`, apiKey: service.api_key });
    const tokens = await client.tokenize({ name: 'Ann Lee' });
    expect(await client.detokenize(tokens)).toEqual({ name: 'Ann Lee' });
    expect(await client.health()).toMatchObject({ status: 'ok' });
    gateway.stop();
  });

  test('retry_after is honoured', async () => {
    front.troubles.push({ status: 429, body: '{"error":"user_limit","retry_after":2}' });
    const startedMs = performance.now();
    await standin().tokenize({ name: 'Ann Lee' }, PATIENT);
    // Timers may be a little early.
    expect(performance.now() - startedMs).toBeGreaterThan(1_990);
  });

  test('connections to the service that break again and again', async () => {
    const proxy = await FaultProxy.start(Number(new URL(service.url).port));
    try {
      const client = new Standin({ url: proxy.through(service.url), apiKey: service.api_key });
      let resets = 0;
      const resetting = setInterval(() => {
        if (proxy.connections === 0 || resets === 5) return;
        resets++;
        proxy.reset();
      }, 10);
      const tokens = await client.tokenizeValues(values(50_000), PATIENT);
      clearInterval(resetting);
      expect(resets).toBeGreaterThan(0);
      expect(await client.detokenizeValues(tokens, PATIENT)).toEqual(values(50_000));
    } finally {
      await proxy.stop();
    }
  });
});

describe('what does not pass is an error at once', () => {
  test.each<[string, Trouble, object]>([
    [
      'an expired license',
      { status: 500, body: '{"error":"internal_error","message":"license expired"}' },
      { constructor: UnavailableError, code: 'internal_error', status: 500 },
    ],
    ['404', { status: 404, body: '{"error":"not_found"}' }, { code: 'not_found', status: 404 }],
    [
      'a 403 in other words than those of the service',
      { status: 403, body: '{"error":"forbidden","message":"this client may not see Ann Lee"}' },
      { code: 'forbidden', status: 403, detail: undefined },
    ],
    [
      'a redirect',
      { status: 302, headers: { location: 'http://127.0.0.1:1/' }, body: '' },
      { constructor: StandinError, code: 'bad_answer', status: 302 },
    ],
    ['a page', { status: 200, body: '<p>Ann Lee</p>' }, { code: 'bad_answer', status: 200 }],
    ['null', { status: 200, body: 'null' }, { code: 'bad_answer' }],
    ['no data', { status: 200, body: '{}' }, { code: 'bad_answer' }],
    ['other data', { status: 200, body: '{"data":{"name":["Ann Lee"]}}' }, { code: 'bad_answer' }],
    ['texts', { status: 200, body: '{"data":"Ann Lee"}' }, { code: 'bad_answer' }],
    ['an error of others', { status: 400, body: '{"error":"Ann Lee"}' }, { code: 'bad_answer' }],
  ])('%s', async (_, trouble, expected) => {
    front.troubles.push(trouble);
    const error = await standin()
      .tokenize({ name: 'Ann Lee' })
      .catch((one) => one);
    expect(error).toMatchObject({ attempts: 1, ...expected });
    expect(front.bodies).toHaveLength(1);
    expect(inspect(error)).not.toContain('Ann Lee');
    expect(inspect(error)).not.toContain(service.api_key);
  });

  test.each([
    'null',
    '{"data":null}',
    '{"data":{"values":"ab"}}',
    '{"data":{"values":["Ann Lee"]}}',
    '{"data":{"values":["Ann Lee",5]}}',
  ])('a list that is answered with %s', async (body) => {
    front.troubles.push({ status: 200, body });
    const error = await standin()
      .tokenizeValues(['a', 'b'])
      .catch((one) => one);
    expect(error).toMatchObject({ constructor: StandinError, code: 'bad_answer', status: 200 });
    expect(inspect(error)).not.toContain('Ann Lee');
  });

  test('a port that fetch refuses', async () => {
    const client = new Standin({ url: 'http://127.0.0.1:6000', apiKey: service.api_key });
    await expect(client.tokenizeValues(['Ann Lee'])).rejects.toThrow('(bad port)');
  });
});

describe('the end of a call', () => {
  /** Takes connections and never says a word. */
  async function blackHole() {
    const sockets = new Set<Socket>();
    const server = createServer((socket) => {
      sockets.add(socket.on('error', () => {}));
      socket.once('close', () => sockets.delete(socket)).resume();
    });
    server.listen(0, '127.0.0.1');
    await once(server, 'listening');
    const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
    const stop = () => {
      server.close();
      for (const socket of sockets) socket.destroy();
    };
    return { url, client: new Standin({ url, apiKey: service.api_key }), sockets, stop };
  }

  test('the deadline, where nobody answers; nothing is left open', async () => {
    const { client, sockets, stop } = await blackHole();
    const pending = client.tokenizeValues(values(9_000), { timeoutMs: 300 });
    const error = await pending.catch((one) => one);
    expect(error).toBeInstanceOf(TimeoutError);
    expect(error).toMatchObject({ code: 'timeout', attempts: 1, status: undefined });
    expect(error.message).toBe('tokenize: no answer within 300 ms');
    await expect(client.health({ timeoutMs: 100 })).rejects.toThrow(TimeoutError);
    await until(() => sockets.size === 0, 'connections are closed');
    stop();
  });

  test('the deadline, after a failure that was to pass: the message has both', async () => {
    front.troubles.push({ status: 503, body: '{"error":"overloaded","retry_after":1}' }, 'silence');
    const error = await standin()
      .tokenize({ name: 'Ann Lee' }, { timeoutMs: 3_000 })
      .catch((one) => one);
    expect(error).toMatchObject({ name: 'TimeoutError', attempts: 2 });
    expect(error.message).toMatch(
      /^tokenize: no answer within 3000 ms; last failure: tokenize: 503 /,
    );
  });

  test('the deadline, where nobody listens: what was tried, and why it failed', async () => {
    const url = `http://127.0.0.1:${await freePort()}`;
    const client = new Standin({ url, apiKey: service.api_key, timeoutMs: 1_000 });
    const error = await client.detokenizeValues(['a_tok']).catch((one) => one);
    expect(error).toBeInstanceOf(StandinError);
    expect(error.message).toContain('ECONNREFUSED');
    expect(error.attempts).toBeGreaterThan(1);
    await expect(client.health()).rejects.toMatchObject({ code: 'network_error', attempts: 1 });
  });

  test('a machine that is gone: the next attempt finds another', async () => {
    front.troubles.push('silence');
    const tokens = await standin().tokenize({ name: 'Ann Lee' });
    expect(front.bodies).toHaveLength(2);
    expect(await standin().detokenize(tokens)).toEqual({ name: 'Ann Lee' });
  });

  test('a signal that is aborted ends it with its reason, while it waits for an answer', async () => {
    const { client, sockets, stop } = await blackHole();
    const controller = new AbortController();
    const pending = client.tokenizeValues(values(9_000), { signal: controller.signal });
    await until(() => sockets.size > 0, 'a connection');
    const reason = new Error('the user has gone');
    controller.abort(reason);
    await expect(pending).rejects.toBe(reason);
    await until(() => sockets.size === 0, 'connections are closed');
    stop();
  });

  test('one signal ends many calls of many requests, and the runtime sees no leak', async () => {
    const { url, sockets, stop } = await blackHole();
    const warnings: Error[] = [];
    const warn = (warning: Error) => warnings.push(warning);
    process.on('warning', warn);
    const client = new Standin({ url, apiKey: service.api_key, maxValues: 1, concurrency: 15 });
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
    stop();
  });

  test('a signal that is aborted ends it while it waits for the next attempt, and before the first', async () => {
    const controller = new AbortController();
    const { signal } = controller;
    front.troubles.push({ status: 429, body: '{"error":"user_limit","retry_after":90}' });
    const pending = standin().tokenize({ a: 'b' }, { signal, timeoutMs: 600_000 });
    await until(() => front.bodies.length === 1, 'an attempt');
    controller.abort();
    await expect(pending).rejects.toBe(signal.reason);
    await expect(standin().tokenize({ a: 'b' }, { signal })).rejects.toBe(signal.reason);
    expect(front.bodies).toHaveLength(1);
  });

  test('a request of many that fails ends the others', async () => {
    front.troubles.push({ status: 404, body: '{"error":"not_found"}' }, 'silence', 'silence');
    const client = standin();
    await expect(client.tokenizeValues(values(50_000))).rejects.toMatchObject({ status: 404 });
    await until(() => front.open === 0, 'no request is under way');
    expect(front.bodies.length).toBeLessThanOrEqual(4);
  });
});

describe.each(usualKinds())('a service on the %s database', (kind) => {
  /** Tokenizes while the service is ended and started again. */
  async function survive(env: Record<string, string>, end: (service: Service) => void) {
    const ownPlace = await newPlace(kind);
    const portEnv = { PORT: String(await freePort()), ...env };
    let own = await startService(ownPlace, portEnv);
    const { url, api_key: apiKey } = own;
    try {
      const client = new Standin({ url, apiKey, maxValues: 100 });
      let isOver = false;
      const pending = client.tokenizeValues(values(30_000), PATIENT).finally(() => {
        isOver = true;
      });
      await until(() => own.output().includes('"status":200'), 'a first answer');
      end(own);
      await own.exit;
      expect(isOver).toBe(false);
      own = await startService(ownPlace, portEnv);
      expect(await client.detokenizeValues(await pending)).toEqual(values(30_000));
    } finally {
      own.kill('SIGINT');
      await own.exit;
      ownPlace.remove();
    }
  }

  test('killed and started again in the middle of a call: it goes on', () =>
    survive({}, (own) => own.kill('SIGKILL')));

  test('drained and started again in the middle of a call: it goes on', () =>
    survive({ DRAIN_DELAY_MS: '0' }, (own) => own.kill('SIGTERM')));
});

test('draining: health says so', async () => {
  const own = await startService(place, { DRAIN_DELAY_MS: '10000' });
  const client = new Standin({ url: own.url, apiKey: service.api_key });
  expect(await client.health()).toMatchObject({ status: 'ok', postgres: 'ok', version: '1.0.5' });
  own.kill('SIGTERM');
  await until(async () => (await client.health()).status === 'error', 'draining');
  expect(await client.health()).toMatchObject({ status: 'error', postgres: 'ok' });
  own.kill('SIGKILL');
  await own.exit;
});

test.skipIf(postgresBin === undefined)('a database that is away for a while', async () => {
  const cluster = await PostgresCluster.start();
  const own = await startService(await newPlace('server', cluster.url('postgres')));
  try {
    const client = new Standin({ url: own.url, apiKey: own.api_key });
    await cluster.crash();
    const short = client.tokenize({ name: 'Ann Lee' }, { timeoutMs: 10 });
    await expect(short).rejects.toThrow(StandinError);
    const pending = client.tokenize({ name: 'Ann Lee' }, PATIENT);
    await until(() => own.output().includes('"status":500'), 'a first failure');
    expect(await client.health()).toMatchObject({ status: 'error', postgres: 'error' });
    cluster.startAgain();
    expect(await client.detokenize(await pending, PATIENT)).toEqual({ name: 'Ann Lee' });
  } finally {
    await own.stop();
    own.place.remove();
    cluster.stop();
  }
});
