import { readFileSync } from 'node:fs';
import { connect, type Socket } from 'node:net';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { newApiKey } from '../../src/crypto/api-key.ts';
import { expectErrorForm, parseAnswers, rawExchange } from '../support/http.ts';
import { freePort } from '../support/processes.ts';
import { call, type Service, startService, until, usualPlace } from '../support/service.ts';

/** Ten thousand where there is time and there are file descriptors for it. */
const SOCKETS = Number(process.env.TEST_SOCKETS ?? 1_000);
const MIB = 1_048_576;

let service: Service;
beforeAll(async () => {
  service = await startService(await usualPlace(), { OPS_PORT: String(await freePort()) });
});
afterAll(async () => {
  expect((await call(service, 'tokenize', { a: 'b' })).status).toBe(200);
  await service.stop();
  service.place.remove();
});

function open(): Promise<Socket> {
  const { hostname, port } = new URL(service.url);
  return new Promise((resolve, reject) => {
    const socket = connect(Number(port), hostname, () => resolve(socket));
    socket.once('error', reject);
  });
}

const openAll = (count: number) => Promise.all(Array.from({ length: count }, open));

function rssBytes(): number {
  const status = readFileSync(`/proc/${service.pid}/status`, 'utf8');
  return 1024 * Number(/^VmRSS:\s+(\d+)/m.exec(status)![1]);
}

async function metric(name: string): Promise<number> {
  const text = await (await fetch(`${service.opsUrl}/metrics`)).text();
  return Number(new RegExp(`^${name} (\\S+)$`, 'm').exec(text)![1]);
}

function head(path: string, length: number): string {
  return [
    `POST ${path} HTTP/1.1`,
    'Host: a',
    `Authorization: Bearer ${service.api_key}`,
    'Content-Type: application/json',
    `Content-Length: ${length}`,
    '\r\n',
  ].join('\r\n');
}

/** Sends a byte a second on each connection, and lets all it gets pile up; until all are closed. */
async function dribble(sockets: Socket[], bytes: string, patienceMs: number): Promise<string[]> {
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
  await until(() => closed === sockets.length, 'all connections closed', patienceMs);
  clearInterval(timer);
  return received;
}

describe.skipIf(process.platform !== 'linux')('L02', () => {
  test(`${SOCKETS} idle connections cost little, and others are served`, async () => {
    await call(service, 'tokenize', { a: 'b' });
    const beforeBytes = rssBytes();
    const idle = await openAll(SOCKETS);
    for (const socket of idle) socket.write('GET /health/live HTTP/1.1\r\nHost: a\r\n\r\n');
    await Promise.all(idle.map((socket) => new Promise((resolve) => socket.once('data', resolve))));
    expect((await call(service, 'tokenize', { a: 'b' })).status).toBe(200);
    // 150 MiB for ten thousand.
    expect(rssBytes() - beforeBytes).toBeLessThan(50 * MIB + SOCKETS * 10_240);
    expect(idle.every((socket) => socket.writable)).toBe(true);
    for (const socket of idle) socket.destroy();
  });
});

describe.concurrent('slow callers are cut, and others are served', () => {
  test('L03: headers, a byte a second, within 11 s', async () => {
    const answers = await dribble(await openAll(200), `GET /${'x'.repeat(60)}`, 15_000);
    for (const text of answers) {
      const [answer] = parseAnswers(text);
      expect(answer!.status).toBe(408);
      expectErrorForm(answer!);
    }
  });

  test('L04: a body, a byte a second, within 31 s, with a 408 in JSON', async () => {
    const sockets = await openAll(200);
    for (const socket of sockets) socket.write(head('/api/v1/tokenize', 1_000));
    const answers = await dribble(sockets, `{"data":{"a":"${'x'.repeat(60)}`, 40_000);
    for (const text of answers) {
      const [answer] = parseAnswers(text);
      expect(answer!.status).toBe(408);
      expectErrorForm(answer!);
    }
  });

  test('L05: answers that nobody reads, within 60 s, in bounded memory', async () => {
    const { body } = await call(service, 'tokenize', { a: 'x'.repeat(65_536) });
    const beforeBytes = rssBytes();
    const before = await metric('standin_unread_answers_total');
    // 4 MiB, which is more than the system takes in the place of the reader.
    const fields = Array.from({ length: 64 }, (_, i) => [`f${i}`, body.data.a]);
    const request = JSON.stringify({ data: Object.fromEntries(fields) });
    const readers = await openAll(16);
    for (const reader of readers) {
      reader.pause();
      reader.write(head('/api/v1/detokenize', request.length) + request);
    }
    const cut = async () => (await metric('standin_unread_answers_total')) - before;
    let mostBytes = 0;
    await until(async () => {
      mostBytes = Math.max(mostBytes, rssBytes());
      return (await cut()) === readers.length;
    }, 'all readers cut');
    expect(mostBytes - beforeBytes).toBeLessThan(400 * MIB);
    for (const reader of readers) reader.destroy();
  });

  test('answers that wait for one another hold no memory once their connection is gone', async () => {
    const { body } = await call(service, 'tokenize', { a: 'z'.repeat(65_536) });
    const request = JSON.stringify({ data: { v: Array(64).fill(body.data.a) } });
    const reader = await open();
    reader.pause();
    const refused = `${head('/api/v1/detokenize', 2)}{}`;
    reader.write((head('/api/v1/detokenize', request.length) + request + refused).repeat(20));
    await until(async () => (await metric('standin_held_bytes')) > 3 * 65_536, 'answers that wait');
    reader.destroy();
    await until(async () => (await metric('standin_held_bytes')) === 0, 'nothing held');
  });

  test('requests sent ahead of answers that nobody reads end their connection, in bounded memory', async () => {
    const live = 'GET /health/live HTTP/1.1\r\nHost: a\r\n\r\n'.repeat(6_000);
    const beforeBytes = rssBytes();
    for (let round = 0; round < 3; round++) {
      const senders = await openAll(500);
      const ends = senders.map(
        (sender) => new Promise((end) => sender.on('error', () => {}).on('close', end)),
      );
      for (const sender of senders) sender.pause().write(live);
      await Promise.all(ends);
    }
    await until(async () => (await metric('standin_held_bytes')) === 0, 'nothing held');
    expect(rssBytes() - beforeBytes).toBeLessThan(150 * MIB);
    expect((await call(service, 'tokenize', { a: 'b' })).status).toBe(200);
  });

  test('bytes held while an unknown API key is looked up are given back', async () => {
    const body = JSON.stringify({ data: { a: 'b' } });
    const unknown = head('/api/v1/tokenize', body.length).replace(service.api_key, newApiKey());
    const answers = parseAnswers(await rawExchange(service, unknown + body));
    expect(answers.map(({ status }) => status)).toEqual([401]);
    await until(async () => (await metric('standin_held_bytes')) === 0, 'nothing held');
  });

  test('a reader that takes its time but reads gets its whole answer', async () => {
    const { body } = await call(service, 'tokenize', { a: 'y'.repeat(65_536) });
    const fields = Array.from({ length: 160 }, (_, i) => [`f${i}`, body.data.a]);
    const request = JSON.stringify({ data: Object.fromEntries(fields) });
    const reader = await open();
    let bytes = 0;
    reader.on('data', (chunk) => {
      bytes += chunk.length;
      reader.pause();
    });
    const timer = setInterval(() => reader.resume(), 100);
    reader.write(head('/api/v1/detokenize', request.length) + request);
    await until(() => bytes > 160 * 65_536, 'the answer');
    clearInterval(timer);
    reader.destroy();
  });
});
