import { readFileSync } from 'node:fs';
import { connect, type Socket } from 'node:net';
import { afterAll, describe, expect, test } from 'vitest';
import { newApiKey } from '../../src/crypto/api-key.ts';
import { expectErrorForm, parseAnswers, rawExchange } from '../support/http.ts';
import { startWithOps } from '../support/ops.ts';
import { served } from '../support/served.ts';
import { call, type Service, scrape, until, usualPlace } from '../support/service.ts';

/** Ten thousand where there is time and there are file descriptors for it. */
const SOCKETS = Number(process.env.TEST_SOCKETS ?? 1_000);
const MIB = 1_048_576;
/** A process that needs more memory than this ends, however late it collects its garbage. */
const SMALL_HEAP = `${process.env.NODE_OPTIONS ?? ''} --max-old-space-size=150`;
const LIVE = 'GET /health/live HTTP/1.1\r\nHost: a\r\n\r\n';

const service = served(async () => startWithOps(await usualPlace()));
afterAll(async () => {
  expect((await call(service, 'tokenize', { a: 'b' })).status).toBe(200);
});

function open(to: Service = service): Promise<Socket> {
  const { hostname, port } = new URL(to.url);
  return new Promise((resolve, reject) => {
    const socket = connect(Number(port), hostname, () => resolve(socket));
    socket.once('error', reject);
  });
}

const openAll = (count: number, to?: Service) =>
  Promise.all(Array.from({ length: count }, () => open(to)));

function rssBytes(): number {
  const status = readFileSync(`/proc/${service.pid}/status`, 'utf8');
  return 1024 * Number(/^VmRSS:\s+(\d+)/m.exec(status)![1]);
}

const metric = async (name: string, { opsUrl } = service) =>
  (await scrape(opsUrl, `standin_${name}`))['']!;
const nothingHeld = (of = service) =>
  until(async () => (await metric('held_bytes', of)) === 0, 'nothing held');

function head(path: string, length: number): string {
  const type = `Content-Type: application/json\r\nContent-Length: ${length}`;
  return `POST ${path} HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer ${service.api_key}\r\n${type}\r\n\r\n`;
}

/** A request for this value of 64 KiB in so many fields. */
async function restore(character: string, count: number): Promise<string> {
  const { body } = await call(service, 'tokenize', { a: character.repeat(65_536) });
  const request = JSON.stringify({ data: { v: Array(count).fill(body.data.a) } });
  return head('/api/v1/detokenize', request.length) + request;
}

/** Sends a byte a second on each connection, and lets all it gets pile up; until all are closed. */
async function dribble(sockets: Socket[], bytes: string, timeoutMs: number): Promise<string[]> {
  const received = sockets.map(() => '');
  let closed = 0;
  sockets.forEach((socket, i) => {
    socket.on('data', (chunk) => {
      received[i] += chunk.toString('latin1');
    });
    socket.on('error', () => {});
    socket.on('close', () => closed++);
  });
  let sent = 0;
  const timer = setInterval(() => {
    for (const socket of sockets) if (socket.writable) socket.write(bytes[sent]!);
    sent++;
  }, 1_000);
  await until(() => closed === sockets.length, 'all connections closed', timeoutMs);
  clearInterval(timer);
  return received;
}

describe.skipIf(process.platform !== 'linux')('L02', () => {
  test(`${SOCKETS} idle connections cost little, and others are served`, async () => {
    await call(service, 'tokenize', { a: 'b' });
    const beforeBytes = rssBytes();
    const idle = await openAll(SOCKETS);
    for (const socket of idle) socket.write(LIVE);
    await Promise.all(idle.map((socket) => new Promise((resolve) => socket.once('data', resolve))));
    expect((await call(service, 'tokenize', { a: 'b' })).status).toBe(200);
    // 150 MiB for ten thousand.
    expect(rssBytes() - beforeBytes).toBeLessThan(50 * MIB + SOCKETS * 10_240);
    expect(idle.every((socket) => socket.writable)).toBe(true);
    for (const socket of idle) socket.destroy();
  });
});

describe.concurrent('slow callers are cut, and others are served', () => {
  const expectTimeouts = (received: readonly string[]) => {
    for (const text of received) {
      const [answer] = parseAnswers(text);
      expect(answer!.status).toBe(408);
      expectErrorForm(answer!);
    }
  };

  test('L03: headers, a byte a second, within 11 s', async () => {
    expectTimeouts(await dribble(await openAll(200), `GET /${'x'.repeat(60)}`, 15_000));
  });

  test('L04: a body, a byte a second, within 31 s, with a 408 in JSON', async () => {
    const sockets = await openAll(200);
    for (const socket of sockets) socket.write(head('/api/v1/tokenize', 1_000));
    expectTimeouts(await dribble(sockets, `{"data":{"a":"${'x'.repeat(60)}`, 40_000));
  });

  test('L05: answers that nobody reads, within 60 s, in bounded memory', async () => {
    // 8 MiB, because Linux takes more than 4 MiB in the place of the reader.
    const request = await restore('x', 128);
    const beforeBytes = rssBytes();
    const before = await metric('unread_answers_total');
    const readers = await openAll(8);
    for (const reader of readers) reader.pause().write(request);
    let mostBytes = 0;
    await until(async () => {
      mostBytes = Math.max(mostBytes, rssBytes());
      return (await metric('unread_answers_total')) - before === readers.length;
    }, 'all readers cut');
    expect(mostBytes - beforeBytes).toBeLessThan(400 * MIB);
    for (const reader of readers) reader.destroy();
  });

  test('bytes held while an unknown API key is looked up are given back', async () => {
    const body = JSON.stringify({ data: { a: 'b' } });
    const unknown = head('/api/v1/tokenize', body.length).replace(service.api_key, newApiKey());
    const answers = parseAnswers(await rawExchange(service, unknown + body));
    expect(answers.map(({ status }) => status)).toEqual([401]);
    await nothingHeld();
  });

  test('a reader that takes its time but reads gets its whole answer', async () => {
    const request = await restore('y', 160);
    const reader = await open();
    let bytes = 0;
    reader.on('data', (chunk) => {
      bytes += chunk.length;
      reader.pause();
    });
    const timer = setInterval(() => reader.resume(), 100);
    reader.write(request);
    await until(() => bytes > 160 * 65_536, 'the answer');
    clearInterval(timer);
    reader.destroy();
  });
});

test('answers that wait for one another hold no memory once their connection is gone', async () => {
  const request = await restore('z', 64);
  const reader = await open();
  const refused = `${head('/api/v1/detokenize', 2)}{}`;
  reader.pause().write((request + refused).repeat(20));
  await until(async () => (await metric('held_bytes')) > 3 * 65_536, 'answers that wait');
  reader.destroy();
  await nothingHeld();
});

describe('a service whose heap cannot grow', () => {
  const small = served(async () => startWithOps(await usualPlace(), { NODE_OPTIONS: SMALL_HEAP }));

  test('requests sent ahead of answers that nobody reads end their connection', async () => {
    const live = LIVE.repeat(6_000);
    for (let round = 0; round < 6; round++) {
      const senders = await openAll(500, small);
      const ends = senders.map(
        (sender) => new Promise((end) => sender.on('error', () => {}).on('close', end)),
      );
      for (const sender of senders) sender.pause().write(live);
      await Promise.all(ends);
    }
    await nothingHeld(small);
    expect((await call(small, 'tokenize', { a: 'b' })).status).toBe(200);
  });
});

test('connections that come faster than a busy service takes them all get their answer', async () => {
  process.kill(service.pid, 'SIGSTOP');
  const sockets = await openAll(900).finally(() => process.kill(service.pid, 'SIGCONT'));
  const answers = sockets.map(
    (socket) => new Promise((resolve) => socket.once('data', resolve).once('close', resolve)),
  );
  for (const socket of sockets) socket.write(LIVE);
  expect(
    (await Promise.all(answers)).every((answer) => `${answer}`.startsWith('HTTP/1.1 200')),
  ).toBe(true);
  for (const socket of sockets) socket.destroy();
});
