import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import { afterAll, describe, expect, onTestFinished, test } from 'vitest';
import { expectErrorForm, parseAnswers, rawExchange } from '../support/http.ts';
import { startWithOps } from '../support/ops.ts';
import { served } from '../support/served.ts';
import {
  call,
  type Place,
  type Service,
  scrape,
  startService,
  until,
  usualPlace,
} from '../support/service.ts';

const service = served(async () => startWithOps(await usualPlace()));
afterAll(async () => {
  expect((await call(service, 'tokenize', { a: 'b' })).status).toBe(200);
  expect(service.output()).not.toContain('Warning');
});

/** A connection, and what it has received. */
function open({ url }: { readonly url: string }) {
  const { hostname, port } = new URL(url);
  const socket = connect({ host: hostname, port: Number(port), allowHalfOpen: true });
  const at = { socket, received: '' };
  onTestFinished(() => void socket.destroy());
  socket.setEncoding('latin1').on('error', () => {});
  socket.on('data', (text) => {
    at.received += text;
  });
  return at;
}

const statusesOf = (received: string) => parseAnswers(received).map(({ status }) => status);

function tokenize(value: string, authorization = `Bearer ${service.api_key}`): string {
  const body = JSON.stringify({ data: { [value]: value } });
  const head = ['POST /api/v1/tokenize HTTP/1.1', 'Host: a', 'Content-Type: application/json'];
  if (authorization !== '') head.push(`Authorization: ${authorization}`);
  return `${[...head, `Content-Length: ${body.length}`].join('\r\n')}\r\n\r\n${body}`;
}

const names = (count: number) => Array.from({ length: count }, (_, i) => `name${i}`);
const requests = (count: number) => names(count).map((name) => tokenize(name));
const withBody = (body: string) => `${tokenize('').split('Content-Length')[0]}${body}`;
const withData = (data: unknown) => {
  const body = JSON.stringify({ data });
  return withBody(`Content-Length: ${body.length}\r\n\r\n${body}`);
};
const DOUBTFUL = 'GET /health/live HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n';
const LIVE = 'GET /health/live HTTP/1.1\r\nHost:\r\n\r\n';

/** The last one ends the connection, so that nobody guesses when the last answer is there. */
function exchange(requests: readonly string[]): Promise<string> {
  const last = requests.at(-1)!.replace('Host:', 'Connection: close\r\nHost:');
  return rawExchange(service, [...requests.slice(0, -1), last].join(''), 60_000, 60_000);
}

describe('L20: requests that come ahead of their answers', () => {
  test('A42: are all answered in their order, each with an id of its own, however many a caller writes', async () => {
    const all = names(2_000);
    const received = await exchange(all.map((name) => tokenize(name)));
    const answers = parseAnswers(received);
    expect(new Set(answers.map(({ status }) => status))).toEqual(new Set([200]));
    const bodies = answers.map(({ text }) => JSON.parse(text));
    expect(bodies.map(({ data }) => Object.keys(data)[0])).toEqual(all);
    const ids = bodies.map(({ request_id: id }) => id);
    expect(ids).toEqual(answers.map(({ headers }) => headers.get('x-request-id')));
    expect(new Set(ids).size).toBe(all.length);
  });

  test('bodies larger than a read are among them, and in pieces', async () => {
    const all = names(60);
    const bytes = all.map((name, i) => tokenize(name + 'x'.repeat(i % 7 === 0 ? 200 : 0)));
    bytes.splice(30, 0, withData({ large: 'y'.repeat(60_000) }));
    expect(statusesOf(await exchange(bytes))).toEqual(Array(61).fill(200));
  });

  test.each([
    ['512 to callers', 'url', 512],
    ['16 to operators', 'opsUrl', 16],
  ] as const)('more than may wait (%s): the connection ends at once', async (_, url, most) => {
    const received = await rawExchange(
      { ...service, url: service[url] },
      LIVE.replace('Host:', 'Host: localhost').repeat(1_400),
    );
    expect(received.split('HTTP/1.1 ').length - 1).toBeLessThan(most);
  });

  test('a refusal leaves the connection to the next request, with a body or without one', async () => {
    const lost = LIVE.replace('/health/live', '/nowhere');
    const chunked = withBody(
      `Transfer-Encoding: Chunked\r\n\r\n14\r\n{"data":{"a":"bcd"}}\r\n0\r\n\r\n`,
    );
    const asked = [lost, tokenize('a').replace('/tokenize', '/nowhere'), chunked, chunked, LIVE];
    expect(statusesOf(await exchange(asked))).toEqual([404, 404, 200, 200, 200]);
  });

  test('a caller who goes away leaves nothing that is waited for', async () => {
    for (let i = 0; i < 20; i++) {
      const { socket } = open(service);
      socket.write(requests(300).join(''));
      await once(socket, 'data');
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
    expect(statusesOf(await rawExchange(service, bytes))).toEqual([401, 200, 401, 200]);
  });
});

test.each([
  ['two hosts', DOUBTFUL],
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
  const done = async () => {
    const counts = Object.entries(await scrape(service.opsUrl, 'standin_requests_total'));
    const all = counts.filter(([labels]) => labels.includes('/api/v1/tokenize'));
    return all.reduce((sum, [, count]) => sum + count, 0);
  };
  const before = await done();
  // Nine wait: one batch and the next.
  const bytes = LIVE.repeat(8) + DOUBTFUL + requests(9).join('');
  expect(statusesOf(await rawExchange(service, bytes))).toEqual([...Array(8).fill(200), 400]);
  await call(service, 'tokenize', { a: 'b' });
  expect(await done()).toBe(before + 1);
});

describe('a parser error has its place after the answers before it', () => {
  const JUNK = 'JUNK\r\n\r\n';
  const CUT = 'Transfer-Encoding: chunked\r\n\r\nx\r\n';
  test.each([
    ['one', 1, JUNK, 400],
    ['more than run at once', 20, JUNK, 400],
    ['headers that are too large', 1, `GET / HTTP/1.1\r\nA: ${'a'.repeat(20_000)}`, 431],
    ['a body that breaks off', 1, undefined, 400],
    ['a body that breaks off, behind those that run', 8, undefined, 400],
    ['CONNECT', 3, 'CONNECT a:1 HTTP/1.1\r\nHost: a\r\n\r\n', 400],
  ])('%s', async (_, count, broken, status) => {
    const bytes = requests(count).join('') + (broken ?? withBody(CUT));
    const answers = parseAnswers(await rawExchange(service, bytes));
    expect(answers.map((one) => one.status)).toEqual([...Array(count).fill(200), status]);
    expectErrorForm(answers.at(-1)!);
  });

  test('a request that was answered before its body broke gets no second answer', async () => {
    const unread = withBody('Content-Length: 9\r\n\r\nx').replace('/api/v1/tokenize', '/nowhere');
    const at = open(service);
    at.socket.write(unread);
    await until(() => at.received.includes('not_found'), 'the answer');
    at.socket.end();
    await once(at.socket, 'close');
    expect(statusesOf(at.received)).toEqual([404]);
  });

  test('a large answer that is read slowly stays whole', async () => {
    const { body } = await call(service, 'tokenize', { a: 'y'.repeat(65_536) });
    const at = open(service);
    at.socket.on('data', () => {
      at.socket.pause();
      setImmediate(() => at.socket.resume());
    });
    const large = withData({ v: Array(128).fill(body.data.a) });
    at.socket.write(large.replace('/tokenize', '/detokenize'));
    await until(() => at.received !== '', 'the beginning of the answer');
    at.socket.write(JUNK);
    await endOf(at.socket);
    expect(statusesOf(at.received)).toEqual([200, 400]);
    expect(JSON.parse(parseAnswers(at.received)[0]!.text).data.v).toHaveLength(128);
  });
});

/** The other side has sent all. */
async function endOf(socket: Socket): Promise<void> {
  await once(socket, 'end');
  socket.end();
}

test.each([
  ['a caller', 1, 'url'],
  ['a caller who sent more than run at once', 20, 'url'],
  ['an operator', 1, 'opsUrl'],
] as const)(
  '%s who has sent the last request and half-closes gets every answer',
  async (_, count, url) => {
    const at = open({ url: service[url] });
    const metrics = 'GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n';
    at.socket.end(url === 'url' ? requests(count).join('') : metrics);
    // The service closes the connection then.
    await once(at.socket, 'end');
    expect(at.received.match(/HTTP\/1.1 \d+/g)).toEqual(Array(count).fill('HTTP/1.1 200'));
  },
);

/** Another service, until the test ends. */
async function start<S extends Service>(startAt: (place: Place) => Promise<S>): Promise<S> {
  const other = await startAt(await usualPlace());
  onTestFinished(async () => {
    await other.stop();
    other.place.remove();
  });
  return other;
}

test('the ops listener closes a connection with its first 401 or 400', async () => {
  const guarded = await start((place) => startWithOps(place, { OPS_TOKEN: 'x'.repeat(32) }));
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
  const request = tokenize('a');
  const bytes = [
    request.replace('Content-Type:', 'Content-Type: text/plain\r\nContent-Type:'),
    request.replace('/json\r\n', '/json\r\nContent-Type: text/plain\r\n'),
    request.replace('/json', '/json; charset=utf-8; charset=utf-16'),
    request.replace('/json', '/json; charset=utf-8; charset=UTF-8'),
  ];
  const received = await rawExchange(service, bytes.join(''));
  expect(statusesOf(received)).toEqual([415, 415, 415, 200]);
});

test('a request that comes while the service ends is sent elsewhere, not served', async () => {
  const ending = await start(startService);
  const at = open(ending);
  // In one write: a service that answers the first has also read the start of the second, so it
  // does not take the connection for idle.
  const request = tokenize('late', `Bearer ${ending.api_key}`);
  at.socket.write(LIVE + request.slice(0, 20));
  await until(() => at.received.includes('"ok"'), 'the first answer');
  ending.kill('SIGINT');
  await until(() => ending.output().includes('"msg":"draining"'), 'the end to begin');
  at.socket.write(request.slice(20));
  await endOf(at.socket);
  const late = parseAnswers(at.received)[1]!;
  expectErrorForm(late);
  expect([late.status, late.headers.get('connection')]).toEqual([503, 'close']);
  expect(JSON.parse(late.text)).toMatchObject({ error: 'overloaded', retry_after: 1 });
  expect(await ending.exit).toBe(0);
});
