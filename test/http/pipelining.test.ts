import { once } from 'node:events';
import { connect } from 'node:net';
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest';
import { expectErrorForm, parseAnswers, rawExchange } from '../support/http.ts';
import { startWithOps } from '../support/ops.ts';
import { call, scrape, startService, until, usualPlace } from '../support/service.ts';

let service: Awaited<ReturnType<typeof startWithOps>>;
beforeAll(async () => {
  service = await startWithOps(await usualPlace());
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

  test.each([
    ['512 to callers', 'url', 512],
    ['16 to operators', 'opsUrl', 16],
  ] as const)('more than may wait (%s): the connection ends at once', async (_, url, most) => {
    const received = await rawExchange({ ...service, url: service[url] }, LIVE.repeat(1_400));
    expect(received.split('HTTP/1.1 ').length - 1).toBeLessThan(most);
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

test('a request after the one that ends its connection is not done', async () => {
  const done = async () =>
    Object.values(await scrape(service.opsUrl, 'standin_values_total'))[0] ?? 0;
  const before = await done();
  const doubtful = 'GET /health/live HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n';
  // Nine wait: one batch and the next.
  const late = names(9).map((name) => tokenize(name));
  const bytes = LIVE.repeat(8) + doubtful + late.join('');
  const answers = parseAnswers(await rawExchange(service, bytes));
  expect(answers.map(({ status }) => status)).toEqual([...Array(8).fill(200), 400]);
  await call(service, 'tokenize', { a: 'b' });
  expect(await done()).toBe(before + 1);
});

describe('a parser error has its place after the answers before it', () => {
  const JUNK = 'JUNK\r\n\r\n';
  const withBody = (body: string) => `${tokenize('').split('Content-Length')[0]}${body}`;
  const CUT = 'Transfer-Encoding: chunked\r\n\r\nx\r\n';
  test.each([
    ['one', [1], JUNK, 400],
    ['more than run at once', [20], JUNK, 400],
    ['headers that are too large', [1], `GET / HTTP/1.1\r\nA: ${'a'.repeat(20_000)}`, 431],
    ['a body that breaks off', [1], undefined, 400],
    ['a body that breaks off, behind those that run', [8], undefined, 400],
    ['CONNECT', [3], 'CONNECT a:1 HTTP/1.1\r\nHost: a\r\n\r\n', 400],
  ])('%s', async (_, [count], broken, status) => {
    const requests = names(count!).map((name) => tokenize(name));
    const received = await rawExchange(service, requests.join('') + (broken ?? withBody(CUT)));
    const answers = parseAnswers(received);
    expect(answers.map((one) => one.status)).toEqual([...Array(count).fill(200), status]);
    expectErrorForm(answers.at(-1)!);
  });

  test('a request that was answered before its body broke gets no second answer', async () => {
    const unread = withBody('Content-Length: 9\r\n\r\nx').replace('/api/v1/tokenize', '/nowhere');
    const { hostname, port } = new URL(service.url);
    const socket = connect(Number(port), hostname, () => socket.write(unread));
    let received = '';
    socket.on('data', (bytes) => {
      received += bytes;
    });
    await until(() => received.includes('not_found'), 'the answer');
    socket.end();
    await once(socket, 'close');
    expect(received.match(/HTTP\/1.1 \d+/g)).toEqual(['HTTP/1.1 404']);
  });

  test('a large answer that is read slowly stays whole', async () => {
    const { body } = await call(service, 'tokenize', { a: 'y'.repeat(65_536) });
    const data = JSON.stringify({ data: { v: Array(128).fill(body.data.a) } });
    const { hostname, port } = new URL(service.url);
    const socket = connect(Number(port), hostname);
    let received = '';
    socket.setEncoding('latin1').on('data', (bytes) => {
      received += bytes;
      socket.pause();
      setImmediate(() => socket.resume());
    });
    socket.on('error', () => {});
    const large = withBody(`Content-Length: ${data.length}\r\n\r\n${data}`);
    socket.write(large.replace('/tokenize', '/detokenize'));
    await until(() => received !== '', 'the beginning of the answer');
    socket.write(JUNK);
    await once(socket, 'close');
    const [whole, ...others] = parseAnswers(received);
    expect(JSON.parse(whole!.text).data.v).toHaveLength(128);
    expect(others.map(({ status }) => status)).toEqual([400]);
  });
});

test.each([
  ['a caller', 1, 'url'],
  ['a caller who sent more than run at once', 20, 'url'],
  ['an operator', 1, 'opsUrl'],
] as const)(
  '%s who has sent the last request and half-closes gets every answer',
  async (_, count, url) => {
    const { hostname, port } = new URL(service[url]);
    const socket = connect({ host: hostname, port: Number(port), allowHalfOpen: true });
    const requests =
      url === 'url'
        ? names(count).map((name) => tokenize(name))
        : ['GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n'];
    let received = '';
    socket.on('data', (bytes) => {
      received += bytes;
    });
    socket.end(requests.join(''));
    // The service closes the connection then.
    await once(socket, 'end');
    expect(received.match(/HTTP\/1.1 \d+/g)).toEqual(Array(count).fill('HTTP/1.1 200'));
  },
);

test('the ops listener closes a connection with its first 401 or 400', async () => {
  const guarded = await startWithOps(await usualPlace(), { OPS_TOKEN: 'x'.repeat(32) });
  onTestFinished(async () => {
    await guarded.stop();
    guarded.place.remove();
  });
  for (const host of ['Host: a', 'Host: a\r\nHost: b']) {
    const request = `GET /metrics HTTP/1.1\r\n${host}\r\n\r\n`;
    const received = await rawExchange({ ...guarded, url: guarded.opsUrl }, request.repeat(3));
    expect(received.match(/HTTP\/1.1 \d+|Connection: close/g)).toEqual([
      host === 'Host: a' ? 'HTTP/1.1 401' : 'HTTP/1.1 400',
      'Connection: close',
    ]);
  }
});

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
