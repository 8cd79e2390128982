import { once } from 'node:events';
import { connect } from 'node:net';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { expectErrorForm, parseAnswers, rawExchange } from '../support/http.ts';
import { call, type Service, startService, until, usualPlace } from '../support/service.ts';

let service: Service;
beforeAll(async () => {
  service = await startService(await usualPlace());
});
afterAll(async () => {
  expect((await call(service, 'tokenize', { a: 'b' })).status).toBe(200);
  await service.stop();
  service.place.remove();
});

function tokenize(value: string, authorization = `Bearer ${service.api_key}`): string {
  const body = JSON.stringify({ data: { [value]: value } });
  const head = ['POST /api/v1/tokenize HTTP/1.1', 'Host: a', 'Content-Type: application/json'];
  if (authorization !== '') head.push(`Authorization: ${authorization}`);
  return `${[...head, `Content-Length: ${body.length}`].join('\r\n')}\r\n\r\n${body}`;
}

const names = (count: number) => Array.from({ length: count }, (_, i) => `name${i}`);
const LIVE = 'GET /health/live HTTP/1.1\r\nHost:\r\n\r\n';

/** The last one ends the connection, so that nobody guesses when the last answer is there. */
function exchange(requests: readonly string[]): Promise<string> {
  const last = requests.at(-1)!.replace('Host:', 'Connection: close\r\nHost:');
  return rawExchange(service, [...requests.slice(0, -1), last].join(''), 60_000, 60_000);
}

describe('L20: requests that come ahead of their answers', () => {
  test('are all answered in their order, however many a caller writes', async () => {
    const all = names(2_000);
    const received = await exchange(all.map((name) => tokenize(name)));
    const answers = parseAnswers(received);
    expect(new Set(answers.map(({ status }) => status))).toEqual(new Set([200]));
    expect(answers.map(({ text }) => Object.keys(JSON.parse(text).data)[0])).toEqual(all);
  });

  test('bodies larger than a read are among them, and in pieces', async () => {
    const all = names(60);
    const bytes = all.map((name, i) => tokenize(name + 'x'.repeat(i % 7 === 0 ? 200 : 0)));
    const large = JSON.stringify({ data: { large: 'y'.repeat(60_000) } });
    const head = tokenize('').split('Content-Length')[0]!;
    bytes.splice(30, 0, `${head}Content-Length: ${large.length}\r\n\r\n${large}`);
    const answers = parseAnswers(await exchange(bytes));
    expect(answers.map(({ status }) => status)).toEqual(Array(61).fill(200));
  });

  test('more than may wait: the connection ends after an answer that says so, and callers can go on', async () => {
    const answers = parseAnswers(await rawExchange(service, LIVE.repeat(1_400)));
    const closing = answers.map(({ headers }) => headers.get('connection') === 'close');
    expect(answers.length).toBeGreaterThan(500);
    expect(answers.length).toBeLessThan(700);
    expect(closing.indexOf(true)).toBe(answers.length - 1);
  });

  test('a caller who goes away leaves nothing that is waited for', async () => {
    const { hostname, port } = new URL(service.url);
    for (let i = 0; i < 20; i++) {
      const socket = connect(Number(port), hostname);
      socket.on('error', () => {});
      socket.write(
        names(300)
          .map((name) => tokenize(name))
          .join(''),
      );
      await new Promise((resolve) => socket.once('data', resolve));
      socket.resetAndDestroy();
    }
    expect((await call(service, 'tokenize', { a: 'b' })).status).toBe(200);
  });
});

describe('L20: 401 on one connection', () => {
  test.each(['', 'Bearer x', 'Bearer stk_0000000000000000000000000000000000'])(
    'the fifth is the last answer (%j)',
    async (authorization) => {
      const wrong = tokenize('a', authorization);
      const answers = parseAnswers(await rawExchange(service, wrong.repeat(20)));
      expect(answers.map(({ status }) => status)).toEqual(Array(5).fill(401));
      const said = answers.map(({ headers }) => headers.get('connection'));
      expect(said.map((one) => one === 'close')).toEqual([false, false, false, false, true]);
      for (const answer of answers) expectErrorForm(answer);
    },
  );

  test('a caller who corrects the API key goes on', async () => {
    const bytes = tokenize('a', 'Bearer x') + tokenize('b') + tokenize('c', '') + tokenize('d');
    const answers = parseAnswers(await rawExchange(service, bytes));
    expect(answers.map(({ status }) => status)).toEqual([401, 200, 401, 200]);
  });
});

test.each([
  ['two hosts', 'GET /health/live HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n'],
  ['a host with a blank', 'GET /health/live HTTP/1.1\r\nHost: x y\r\n\r\n'],
  ['a host with a path', 'GET /health/live HTTP/1.1\r\nHost: a/b\r\n\r\n'],
])(
  'after a request of doubtful end nothing more on the connection is answered: %s',
  async (_, doubtful) => {
    const answers = parseAnswers(await rawExchange(service, doubtful + LIVE + LIVE));
    expect(answers.map(({ status }) => status)).toEqual([400]);
    expect(answers[0]!.headers.get('connection')).toBe('close');
    expectErrorForm(answers[0]!);
  },
);

test('callers are told apart by one content type and one charset: two are a 415', async () => {
  const withTwo = tokenize('a').replace(
    'Content-Type:',
    'Content-Type: text/plain\r\nContent-Type:',
  );
  const reversed = tokenize('a').replace('/json\r\n', '/json\r\nContent-Type: text/plain\r\n');
  const charsets = tokenize('a').replace('/json', '/json; charset=utf-8; charset=utf-16');
  const same = tokenize('a').replace('/json', '/json; charset=utf-8; charset=UTF-8');
  const bytes = withTwo + reversed + charsets + same;
  const answers = parseAnswers(await rawExchange(service, bytes));
  expect(answers.map(({ status }) => status)).toEqual([415, 415, 415, 200]);
});

test('a request that comes while the service ends is sent elsewhere, not served', async () => {
  const ending = await startService(await usualPlace());
  const { hostname, port } = new URL(ending.url);
  const socket = connect(Number(port), hostname);
  let received = '';
  socket.on('data', (chunk) => {
    received += chunk;
  });
  const closed = once(socket, 'close');
  // In one write: a service that answers the first has also read the start of the second, so it
  // does not take the connection for idle.
  const request = tokenize('late', `Bearer ${ending.api_key}`);
  socket.write(LIVE + request.slice(0, 20));
  await until(() => received.includes('"ok"'), 'the first answer');
  ending.kill('SIGINT');
  await until(() => ending.output().includes('"msg":"draining"'), 'the end to begin');
  socket.write(request.slice(20));
  await closed;
  const late = parseAnswers(received)[1]!;
  expect(late.status).toBe(503);
  expectErrorForm(late);
  expect(JSON.parse(late.text)).toMatchObject({ error: 'overloaded', retry_after: 1 });
  expect(late.headers.get('connection')).toBe('close');
  expect(await ending.exit).toBe(0);
  ending.place.remove();
});
