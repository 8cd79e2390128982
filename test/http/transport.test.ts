import { EventEmitter, once } from 'node:events';
import type { IncomingMessage, RequestListener, Server, ServerResponse } from 'node:http';
import { connect } from 'node:net';
import { describe, expect, onTestFinished, test, vi } from 'vitest';
import type { CallerError } from '../../src/errors.ts';
import { ByteBudget, STALLED_AFTER_TICKS } from '../../src/limits/byte-budget.ts';
import { readBody } from '../../src/public/body/request-body.ts';
import { Exchange } from '../../src/public/exchange.ts';
import { admitBody } from '../../src/public/guards.ts';
import { createListener, endConnection } from '../../src/public/transport/connections.ts';
import { listen, untilAccepted } from '../../src/public/transport/listen.ts';
import { earlyBytes, inTurn, refuseUnparsed } from '../../src/public/transport/pipelining.ts';
import { shedding } from '../../src/public/transport/shedding.ts';
import { nextTurn as turn } from '../support/loop.ts';
import { until } from '../support/service.ts';

const LIVE = 'GET / HTTP/1.1\r\nHost: a\r\n\r\n';
/** What is reserved for LIVE when it waits: itself, its target, and a name and a value of a header. */
const LIVE_BYTES = 2_048 + 1 + (32 + 4) + (32 + 1);
const post = (headers: string, body = '') =>
  `POST / HTTP/1.1\r\nHost: a\r\n${headers}\r\n\r\n${body}`;
const newBudget = (bytes = 16_777_216) => new ByteBudget(bytes, () => {});

/** A connection to a server with this listener, until the test ends. */
async function connected(listener: RequestListener) {
  const server = createListener(listener, undefined, { connections: 9 });
  refuseUnparsed(server);
  const { port } = new URL(await listen(server, { host: '127.0.0.1', port: 0 }, 'PORT'));
  const socket = connect(Number(port), '127.0.0.1').on('error', () => {});
  onTestFinished(() => {
    socket.destroy();
    server.close();
  });
  const received = { text: '' };
  socket.on('data', (chunk) => {
    received.text += chunk;
  });
  return { socket, received };
}

/** A connection whose requests wait for the test to answer them. */
async function queued(maxInHand: number, maxAhead: number, onBegun?: RequestListener) {
  const budget = newBudget();
  const begun: ServerResponse[] = [];
  const run: RequestListener = (request, response) => {
    begun.push(response);
    onBegun?.(request, response);
  };
  const route = inTurn(run, budget, maxInHand, maxAhead);
  const seen = { count: 0 };
  const at = await connected((request, response) => {
    seen.count++;
    route(request, response);
  });
  const untilBegun = (count: number) => until(() => begun.length === count, `${count} begun`);
  const untilHeld = (bytes: number) => until(() => budget.held === bytes, `${bytes} held`);
  return { ...at, begun, seen, untilBegun, untilHeld };
}

async function someTurns(): Promise<void> {
  for (let i = 0; i < 5; i++) await turn();
}

describe('requests that come ahead of their answers', () => {
  test.each([
    ['no body', LIVE, LIVE_BYTES],
    ['a body', post('Content-Length: 7', '{"a":1}'), LIVE_BYTES + 32 + 14 + 32 + 1 + 7],
    [
      'chunks',
      post('Transfer-Encoding: chunked', '0\r\n\r\n'),
      LIVE_BYTES + 32 + 17 + 32 + 7 + 32 * 65_536,
    ],
  ])(
    'each holds its bytes from the second on, until it is answered: %s',
    async (_, next, bytes) => {
      const { socket, begun, untilBegun, untilHeld } = await queued(1, 9);
      socket.write(LIVE + next + LIVE);
      await untilHeld(bytes + LIVE_BYTES);
      begun[0]!.end();
      await untilBegun(2);
      await untilHeld(bytes + LIVE_BYTES);
      begun[1]!.end();
      await untilBegun(3);
      await untilHeld(LIVE_BYTES);
      socket.write(LIVE);
      await untilHeld(2 * LIVE_BYTES);
      begun[2]!.req.socket.destroy();
      await untilHeld(0);
    },
  );

  test('so many run at once, and each that ends begins the next', async () => {
    const { socket, begun, untilBegun, untilHeld, received } = await queued(2, 9);
    socket.write(LIVE.repeat(4));
    await untilHeld(3 * LIVE_BYTES);
    expect(begun).toHaveLength(2);
    begun[0]!.end();
    await untilBegun(3);
    begun[1]!.end();
    await untilBegun(4);
    for (const response of begun.slice(2)) response.end();
    await until(() => received.text.split('200 OK').length === 5, 'four answers');
    socket.write(LIVE);
    await untilBegun(5);
    await untilHeld(0);
  });

  test('so many may wait: one more ends the connection, and nothing after it is parsed', async () => {
    const few = await queued(1, 4);
    few.socket.write(LIVE.repeat(4));
    await few.untilHeld(3 * LIVE_BYTES);
    const many = await queued(1, 4);
    many.socket.write(LIVE.repeat(500));
    await once(many.socket, 'close');
    expect([few.begun, many.begun].map(({ length }) => length)).toEqual([1, 1]);
    expect([few.seen.count, many.seen.count, few.socket.closed]).toEqual([4, 5, false]);
  });

  test('nothing after the one that ends the connection is begun, or parsed beyond the next', async () => {
    const at = await queued(9, 9, ({ socket }) => endConnection(socket));
    at.socket.write(LIVE.repeat(500));
    await at.untilBegun(1);
    await someTurns();
    expect([at.begun.length, at.seen.count]).toEqual([1, 2]);
  });

  test('those of a caller who has gone are not begun', async () => {
    const { socket, begun, untilHeld } = await queued(1, 9);
    socket.write(LIVE.repeat(3));
    await untilHeld(2 * LIVE_BYTES);
    begun[0]!.req.socket.destroy();
    await untilHeld(0);
    await someTurns();
    expect(begun).toHaveLength(1);
  });

  test('one that breaks off is not begun: its refusal comes after the answers before it', async () => {
    const { socket, begun, untilHeld, received } = await queued(2, 9);
    const ended = once(socket, 'end');
    const broken = post('Transfer-Encoding: chunked', 'x\r\n');
    socket.write(LIVE.repeat(2) + broken);
    await untilHeld(2 * LIVE_BYTES + 32 + 17 + 32 + 7 + 32 * 65_536);
    begun[0]!.end();
    await until(() => received.text.includes('200 OK'), 'the first answer');
    await someTurns();
    expect(begun).toHaveLength(2);
    begun[1]!.end();
    await ended;
    expect(received.text.match(/HTTP\/1.1 \d+/g)).toEqual(
      [200, 200, 400].map((status) => `HTTP/1.1 ${status}`),
    );
  });

  test.each([
    [{}, 0],
    [{ 'content-length': '100' }, 100],
    [{ 'content-length': '70000' }, 65_536],
    [{ 'transfer-encoding': 'chunked' }, 2_097_152],
  ])('of the body of one with %j come %i bytes at most', (headers, bytes) => {
    expect(earlyBytes({ headers } as IncomingMessage)).toBe(bytes);
  });
});

describe('a body', () => {
  const MOST = 100_000;

  /** Reads one body, of which `head` has come. */
  async function reading(head: string, budget = newBudget()) {
    let request!: IncomingMessage;
    const exchange = { context: { budget, bodyLimit: MOST }, reservation: budget.open('a') };
    const reading = {
      exchange: exchange as unknown as Exchange,
      body: undefined! as Promise<Buffer>,
    };
    const { socket } = await connected((one, response) => {
      request = one;
      Object.assign(exchange, { request, isLast: false });
      reading.body = readBody(reading.exchange).finally(() => response.end());
      reading.body.catch(() => {});
    });
    socket.write(head);
    await until(() => request !== undefined, 'the request');
    return { ...reading, budget, socket, request };
  }

  test('holds what has come: pieces behind the first share 16 KiB', async () => {
    const { socket, budget, body, request, exchange } = await reading(
      post('Content-Length: 20000', 'a'),
    );
    const pieces = ['a', 'b', 'c'.repeat(16_383), 'd', 'e'.repeat(3_614)];
    const held = [1, 16_385, 16_385, 32_769, 32_769];
    for (const [i, piece] of pieces.entries()) {
      if (i > 0) socket.write(piece);
      const bytes = pieces.slice(0, i + 1).join('').length;
      await until(() => request.socket.bytesRead >= bytes, 'it has come');
      await until(() => budget.held === held[i], `${held[i]} bytes`);
    }
    expect((await body).toString()).toBe(pieces.join(''));
    expect([exchange.isLast, exchange.reservation!.evict]).toEqual([false, undefined]);
    expect(['data', 'end', 'error'].map((name) => request.listenerCount(name))).toEqual([0, 0, 0]);
  });

  test.each([MOST, MOST + 1])('of %i bytes: up to the limit it is taken', async (bytes) => {
    const { body, exchange } = await reading(post(`Content-Length: ${bytes}`, 'x'.repeat(bytes)));
    if (bytes === MOST) expect((await body).length).toBe(MOST);
    else await expect(body).rejects.toMatchObject({ code: 'payload_too_large' });
    expect(exchange.isLast).toBe(bytes > MOST);
  });

  /** A request of another client that needs most of the budget, after a while. */
  function another(budget: ByteBudget): boolean {
    for (let i = 0; i < STALLED_AFTER_TICKS; i++) budget.tick();
    return budget.reserve(budget.open('b'), 60_000);
  }

  test('that does not go on is a 408 when the budget is short, and the last of its connection', async () => {
    const { body, budget, exchange } = await reading(
      post('Content-Length: 60001', 'x'.repeat(60_000)),
      newBudget(100_000),
    );
    await until(() => budget.held === 60_000, 'all but a byte');
    expect(another(budget)).toBe(true);
    await expect(body).rejects.toMatchObject({ code: 'request_timeout' });
    expect(exchange.isLast).toBe(true);
  });

  test('that says its length is refused before it comes, when there is no room', async () => {
    const budget = newBudget(100_000);
    budget.reserve(budget.open('b'), 49_000);
    const authenticator = { authenticate: () => ({ client: { client_id: 'a' } }) };
    const context = { budget, bodyLimit: MOST, state: {}, authenticator };
    const admitted = (more: object) => {
      const headers = { 'content-type': 'application/json', ...more };
      const request = { headers, rawHeaders: [], httpVersion: '1.1' };
      return admitBody({ context, request, response: {} } as unknown as Exchange, 'guardrail');
    };
    for (const more of [{}, { 'content-length': '10' }]) await admitted(more);
    const refused = admitted({ 'content-length': '60000' });
    await expect(refused).rejects.toMatchObject({ code: 'overloaded' });
  });

  test('that is whole waits for nobody, and one without room is a 503 and the last', async () => {
    const whole = await reading(
      post('Content-Length: 60000', 'x'.repeat(60_000)),
      newBudget(100_000),
    );
    await whole.body;
    expect(another(whole.budget)).toBe(false);
    const budget = newBudget(100_000);
    expect(budget.reserve(budget.open('b'), 49_000)).toBe(true);
    const late = await reading(post('Content-Length: 60000', 'x'.repeat(60_000)), budget);
    const refusal = await late.body.catch((error: CallerError) => error);
    expect(refusal).toMatchObject({ code: 'overloaded', retryAfterS: 1 });
    expect(late.exchange.isLast).toBe(true);
  });
});

describe('the bytes of an answer', () => {
  /** Ends each request with a body of so many bytes, and looks at once at what it holds. */
  async function answering(bytes: number, look: (exchange: Exchange, budget: ByteBudget) => void) {
    const budget = newBudget();
    const context = { budget, guardrail: undefined, tracing: undefined, tokenSuffix: 'tok' };
    const at = await connected((request, response) => {
      const exchange = new Exchange(context as never, request, response);
      exchange.reservation = budget.open('a');
      exchange.reserve(1_000);
      if (bytes > 0) response.end(Buffer.alloc(bytes));
      look(exchange, budget);
    });
    return { ...at, budget };
  }

  test('that the system has taken are given back at once, and nobody listens any more', async () => {
    const looks: unknown[] = [];
    const { socket, budget } = await answering(1, (exchange) => {
      const { request, response, reservation } = exchange;
      const listeners = () => [request.socket, response].map((one) => one.listenerCount('close'));
      const before = listeners();
      exchange.release();
      looks.push(response.writableLength, reservation!.bytes, reservation!.evict);
      expect(listeners()).toEqual(before);
    });
    socket.write(LIVE);
    await until(() => looks.length === 3, 'the answer');
    expect([looks, budget.held]).toEqual([[0, 0, undefined], 0]);
  });

  test('that nobody reads stay, and go with the connection: by itself, or when others need them', async () => {
    for (const cut of [false, true]) {
      const { socket, budget } = await answering(16_000_000, (exchange) => {
        exchange.release();
        expect(exchange.reservation!.bytes).toBe(exchange.response.writableLength);
      });
      socket.pause().write(LIVE);
      await until(() => budget.held > 1_000_000, 'an answer that waits');
      for (let i = 0; i < STALLED_AFTER_TICKS; i++) budget.tick();
      if (cut) expect(budget.reserve(budget.open('b'), 7_000_000)).toBe(true);
      else socket.destroy();
      await until(() => budget.held === (cut ? 7_000_000 : 0), 'nothing of it');
      if (cut) await once(socket.resume(), 'close');
    }
  });

  test('behind another answer go when the connection does, before or after', async () => {
    const exchanges: Exchange[] = [];
    const { socket, budget } = await answering(0, (exchange) => exchanges.push(exchange));
    socket.write(LIVE.repeat(3));
    await until(() => exchanges.length === 3, 'three requests');
    const [, second, third] = exchanges as [Exchange, Exchange, Exchange];
    second.response.end('x');
    second.release();
    expect(second.reservation!.bytes).toBeGreaterThan(0);
    await once(second.request.socket.destroy(), 'close');
    expect(second.reservation!.bytes).toBe(0);
    third.response.end('x');
    third.release();
    expect([third.reservation!.bytes, budget.held]).toEqual([0, 1_000]);
  });
});

describe('a node that is late', () => {
  const refusal = {
    error: 'overloaded',
    message: expect.stringMatching(/\S/),
    retry_after: 1,
  };

  /** What the listener makes of a request; undefined: it is served. */
  function shed(isOverloaded: boolean) {
    const state = { isOverloaded, counted: [] as unknown[] };
    const context = {
      vault: { isOverloaded: () => state.isOverloaded },
      metrics: { shed: (...one: unknown[]) => state.counted.push(one) },
      log: { warn: (...line: unknown[]) => state.counted.push(line) },
    };
    const listener = shedding(context as never, () => {});
    const ask = (url = '/api/v1/tokenize', more: object = {}, method = 'POST') => {
      let answer: { status: number; headers: string[]; body: string } | undefined;
      const response = {
        sendDate: true,
        writeHead: (status: number, headers: string[]) => ({
          end: (body: string) => {
            answer = { status, headers, body };
          },
        }),
      };
      const headers = { host: 'a', 'content-length': '65536', ...more };
      const request = { method, url, headers, rawHeaders: ['Host', 'a'], httpVersion: '1.1' };
      listener(request as never, response as never);
      return answer && { ...answer, hasDate: response.sendDate };
    };
    return { state, ask };
  }

  test('refuses with all that a caller needs, and keeps the connection when the body is short', () => {
    const { ask } = shed(true);
    const { status, headers, body, hasDate } = ask()!;
    expect([status, JSON.parse(body), body.at(-1), hasDate]).toEqual([503, refusal, '\n', false]);
    expect(headers).toEqual([
      ...['Content-Type', 'application/json; charset=utf-8', 'Cache-Control', 'no-store'],
      ...[
        'X-Content-Type-Options',
        'nosniff',
        'X-Request-Id',
        expect.stringMatching(/^[\da-f-]{36}$/),
      ],
      ...['Retry-After', '1', 'Content-Length', String(Buffer.byteLength(body))],
    ]);
    for (const more of [
      { 'content-length': '65537' },
      { 'content-length': undefined },
      { expect: '100-continue' },
    ])
      expect(ask('/api/v1/tokenize', more)!.headers.slice(-2)).toEqual(['Connection', 'close']);
  });

  test('serves what is no request for values, or may be wrong: /health is never refused', () => {
    const { ask } = shed(true);
    const served = [
      ask('/health'),
      ask('/api/v1/policy'),
      ask('/no'),
      ask('/api/v1/tokenize', {}, 'GET'),
    ];
    expect([...served, ask('/api/v1/tokenize', { host: 'a b' })]).toEqual(Array(5).fill(undefined));
    expect(shed(false).ask()).toBe(undefined);
  });

  test('says once a second how many of which route it has refused', () => {
    vi.useFakeTimers({ toFake: ['setTimeout'] });
    onTestFinished(() => void vi.useRealTimers());
    const { state, ask } = shed(true);
    for (const round of [1, 2]) {
      for (const operation of ['tokenize', 'lookup', 'tokenize']) ask(`/api/v1/${operation}?x=1`);
      vi.advanceTimersByTime(999);
      expect(state.counted).toHaveLength(3 * (round - 1));
      vi.advanceTimersByTime(1);
    }
    const told = [
      ['/api/v1/tokenize', 2],
      ['/api/v1/lookup', 1],
      [{ requests: 3 }, 'overloaded: requests refused'],
    ];
    expect(state.counted).toEqual([...told, ...told]);
  });

  test('refuses when a turn of the event loop has lasted more than a second, until it ends', async () => {
    let nowMs = 5_000;
    vi.spyOn(performance, 'now').mockImplementation(() => nowMs);
    onTestFinished(() => void vi.restoreAllMocks());
    const { ask } = shed(false);
    const asked = [0, 1_000, 1].map((ms) => {
      nowMs += ms;
      return ask()?.status;
    });
    await turn();
    expect([...asked, ask()?.status]).toEqual([undefined, undefined, 503, undefined]);
  });
});

test.each([
  ['EADDRINUSE', undefined, 'Stop the program on that port, or set OPS_PORT to another port.'],
  [
    'EADDRINUSE',
    true,
    'The program on that port runs as another user or without REUSE_PORT=true: stop it, or set OPS_PORT to another port.',
  ],
  [
    'ENOTSUP',
    true,
    'This system cannot spread connections over nodes that share a port: unset REUSE_PORT.',
  ],
  ['ENOTSUP', undefined, 'Set OPS_HOST to an address of this machine.'],
  ['EACCES', undefined, 'This user may not use that port: set OPS_PORT to a port above 1023.'],
  ['EACCES', true, 'This user may not use that port: set OPS_PORT to a port above 1023.'],
  ['EADDRNOTAVAIL', true, 'Set OPS_HOST to an address of this machine.'],
])('a port that cannot be opened (%s, shared: %s): %s', async (code, reusePort, remedy) => {
  const server = Object.assign(new EventEmitter(), {
    listen: () => server.emit('error', Object.assign(new Error(), { code })),
  });
  const address = { host: '::1', port: 80, ...(reusePort && { reusePort }) };
  const message = `Cannot listen on ::1:80 (${code}). ${remedy}`;
  await expect(listen(server as unknown as Server, address, 'OPS_PORT')).rejects.toThrow(message);
});

test('the URL of a listener has an IPv6 address in brackets, and many connections may wait', async () => {
  const bound = { family: 'IPv6', address: '::1', port: 80 };
  const opened = vi.fn(() => server.emit('listening'));
  const server = Object.assign(new EventEmitter(), { listen: opened, address: () => bound });
  const address = { host: '::1', port: 0 };
  const url = await listen(server as unknown as Server, address, 'PORT', 'https');
  expect(url).toBe('https://[::1]:80');
  expect(opened).toHaveBeenCalledWith({ ...address, backlog: 4_096 });
});

test('connections that wait are accepted until a turn brings none, however many turns that takes', async () => {
  const server = new EventEmitter() as Server;
  let came = 0;
  let most = 20;
  const come = async () => {
    for (; came < most; came++) {
      server.emit('connection');
      await turn();
      await turn();
    }
  };
  const coming = come();
  await untilAccepted(server);
  expect([came, server.listenerCount('connection')]).toEqual([20, 0]);
  await coming;
  most = Infinity;
  const endless = come();
  await untilAccepted(server);
  expect(came).toBeLessThan(1_100);
  most = 0;
  await endless;
});
