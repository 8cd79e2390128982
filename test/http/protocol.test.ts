import { METHODS as NODE_METHODS } from 'node:http';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import {
  expectErrorForm,
  parseAnswers,
  type RawAnswer,
  rawExchange,
  send,
} from '../support/http.ts';
import { logLine, usualService } from '../support/served.ts';
import { createClient, runJson, until } from '../support/service.ts';

const T = '/api/v1/tokenize';
const D = '/api/v1/detokenize';
const GOOD = '{"data":{"a":"Ann Lee"}}';
const LIMIT = 1_048_576;
const service = usualService();
let auth: string;
beforeAll(() => {
  auth = `Authorization: Bearer ${service.api_key}`;
});
afterAll(async () => {
  expect((await send(service, T, GOOD)).status).toBe(200);
});

type Tail<T> = T extends [any, ...infer R] ? R : never;
const statusOf = async (...request: Tail<Parameters<typeof send>>) =>
  (await send(service, ...request)).status;

/** The only response to these bytes. It is an error, and the connection closes. */
async function rawError(bytes: string): Promise<RawAnswer> {
  const [answer, ...more] = parseAnswers(await rawExchange(service, bytes));
  expect(more).toEqual([]);
  expectErrorForm(answer!);
  return answer!;
}

async function expectRawError(bytes: string, status: number): Promise<void> {
  expect((await rawError(bytes)).status).toBe(status);
}

function request(head: string, ...headers: string[]): string {
  return `${[head, 'Host: a', ...headers].join('\r\n')}\r\n\r\n`;
}

const json = 'Content-Type: application/json';
const post = (...headers: string[]) => request(`POST ${T} HTTP/1.1`, ...headers);
const health = (...headers: string[]) => request('GET /health HTTP/1.1', ...headers);

describe('A16-A17: size', () => {
  test('a body of the limit is read, one byte more is a 413', async () => {
    expect(await statusOf(T, GOOD.padEnd(LIMIT))).toBe(200);
    const { status, text } = await send(service, T, GOOD.padEnd(LIMIT + 1));
    expect([status, text]).toEqual([413, expect.stringContaining('more than 1048576 bytes')]);
  });
  test('a chunked body over the limit is cut off', async () => {
    const chunk = `10000\r\n${' '.repeat(0x10000)}\r\n`;
    const head = post(auth, json, 'Transfer-Encoding: chunked');
    const [answer] = parseAnswers(await rawExchange(service, head + chunk.repeat(17)));
    expect(answer!.status).toBe(413);
    expect(answer!.text).toContain('more than 1048576 bytes');
    expect(answer!.headers.get('connection')).toBe('close');
  });
  test('a declared length of 10 GB is refused before any byte of it, and nothing of it is read', async () => {
    const { status, headers } = await rawError(post(auth, json, 'Content-Length: 10737418240'));
    expect([status, headers.get('connection')]).toEqual([413, 'close']);
    const unbounded = post('Transfer-Encoding: chunked').replace(T, '/nowhere');
    const refused = await rawError(unbounded);
    expect([refused.status, refused.headers.get('connection')]).toEqual([404, 'close']);
  });
});

describe('A21-A23: content type', () => {
  test.each([
    ...[null, 'text/plain', 'application/jsonx', 'application/json\ta'],
    ...['application/json, text/plain', 'application/json; charset=utf-16'],
    ...['application/json; charset=us-ascii', 'application/json; charset=utf--8'],
    ...['application/json; a="b;c', 'application/json;; charset=utf-16'],
    ...['application/json; charset', 'application/json; CHARSET=utf-16'],
  ])('%j is a 415', async (type) => {
    expect(await statusOf(T, GOOD, { 'content-type': type })).toBe(415);
  });
  test.each([
    ...['application/json; charset=utf-8', 'Application/JSON', 'application/json;charset="UTF-8"'],
    ...['application/json; charset=utf8', 'application/json; charset="UTF8"', 'application/json;'],
    ...['application/json; charset=utf-8 ; ', 'application/json;;charset=utf-8;'],
    ...['application/json; odata.metadata=minimal', 'application/json; a="b;c"'],
    'application/json; a="; charset=utf-16"; charset=utf-8',
    'application/json; profile="https://a/\\"b\\""',
  ])('%j is taken', async (type) => {
    expect(await statusOf(T, GOOD, { 'content-type': type })).toBe(200);
  });
  test('a compressed body is a 415', async () => {
    expect(await statusOf(T, GOOD, { 'content-encoding': 'gzip' })).toBe(415);
  });
});

describe('A24-A27: paths and methods', () => {
  test.each([
    ...['GET', 'PUT', 'PATCH', 'DELETE'].flatMap((method) => [
      { method, path: T, allowed: 'POST' },
      { method, path: D, allowed: 'POST' },
    ]),
    { method: 'POST', path: '/health', allowed: 'GET, HEAD' },
  ])('$method on $path is a 405 that names $allowed', async ({ method, path, allowed }) => {
    const body = method === 'POST' ? GOOD : undefined;
    const { status, headers } = await send(service, path, body, {}, method);
    expect([status, headers.get('allow')]).toEqual([405, allowed]);
  });
  test('path and method come before the content type, also of methods that have a body', async () => {
    // Node 20.19.0 does not know QUERY, so its parser refuses it.
    for (const method of NODE_METHODS.filter((one) => ['PUT', 'QUERY'].includes(one))) {
      for (const type of [null, 'nonsense', 'text/plain', 'application/json']) {
        const ask = (path: string) => statusOf(path, GOOD, { 'content-type': type }, method);
        expect([method, type, await ask(T)]).toEqual([method, type, 405]);
        expect([method, type, await ask('/nowhere')]).toEqual([method, type, 404]);
      }
    }
  });
  test('HEAD /health has no body, OPTIONS names the methods and opens nothing to browsers', async () => {
    const head = await send(service, '/health', undefined, { authorization: null }, 'HEAD');
    expect([head.status, head.text]).toEqual([200, '']);
    for (const path of [T, D, '/health']) {
      const { status, headers } = await send(service, path, undefined, {}, 'OPTIONS');
      expect(status).toBe(204);
      expect(headers.get('allow')).not.toBeNull();
      expect([...headers.keys()].join()).not.toMatch(/access-control|(^|,)content-type/);
    }
  });
  test.each(['TRACE', 'PROPFIND'])('%s is refused and echoes nothing', async (method) => {
    const secret = request(`${method} / HTTP/1.1`, 'X-Secret: hushhush');
    const received = await rawExchange(service, secret);
    expect(received).not.toContain('hushhush');
    expect([404, 405]).toContain(parseAnswers(received)[0]!.status);
  });
  test.each(['CONNECT a:1', 'FOO /health'])('%s is a 400, and ends the connection', (line) =>
    expectRawError(request(`${line} HTTP/1.1`).repeat(2), 400),
  );
  test.each([...['/api/v1/./tokenize', '/api/v1/x/../tokenize', '/constructor', '/metrics']])(
    '%s is a 404',
    (path) =>
      expectRawError(request(`POST ${path} HTTP/1.1`, auth, json, 'Content-Length: 0'), 404),
  );
});

describe('A28-A29: API keys', () => {
  const NO_KEY = 'not an API key, or mistyped: an API key has 38 characters';
  const UNKNOWN = 'the API key or JWT is unknown, expired or revoked';
  const NO_WORD = 'no API key after Bearer, or blanks in it';
  const NO_BEARER = 'no Bearer before the API key';

  /** Sends a request with these credentials, and returns the id of the response. */
  async function expectUnauthorized(authorization: string | null, why?: string) {
    const { status, text, headers } = await send(service, T, GOOD, { authorization });
    expect([status, text]).toEqual([401, '{"error":"unauthorized"}\n']);
    const reason = why && `, error="invalid_token", error_description="${why}"`;
    expect(headers.get('www-authenticate')).toBe(`Bearer realm="standin"${reason ?? ''}`);
    return headers.get('x-request-id')!;
  }

  test('no key: exactly {"error":"unauthorized"}, and a challenge', () => expectUnauthorized(null));
  test.each([
    ['Bearer stk_0000000000000000000000000000000000', NO_KEY],
    ['Bearer stk_m0sdE2c65u3jXhNXPMSFFMbCJjRX4C5AqR', UNKNOWN],
    ['Bearer stk_m0sdE2c65u3jXhNXPMSFFMbCJjRX4C5Aq', NO_KEY],
    [`Bearer ${'k'.repeat(8_192)}`, NO_KEY],
    ['Bearer a.b.c', NO_KEY],
    ['stk_m0sdE2c65u3jXhNXPMSFFMbCJjRX4C5AqR', NO_BEARER],
    ['Basic YTpi', NO_BEARER],
    ['', NO_BEARER],
    ['Bearer', NO_WORD],
    ['Bearer k k', NO_WORD],
  ])('%s is a 401 that says why, also in the log', async (authorization, why) => {
    const id = await expectUnauthorized(authorization, why);
    expect(await logLine(service, id)).toMatchObject({ status: 401, why });
  });
  test('two Authorization headers, and a key with a no-break space behind it', async () => {
    const withKey = (...headers: string[]) => post(json, 'Content-Length: 0', ...headers);
    await expectRawError(withKey(auth, 'Authorization: Bearer x'), 401);
    await expectRawError(withKey(`${auth}\u00a0`), 401);
  });
  test('the scheme is not case-sensitive', async () => {
    expect(await statusOf(T, GOOD, { authorization: `bearer ${service.api_key}` })).toBe(200);
  });
  const command = (...args: string[]) => runJson(service.place, ...args);
  const statusFor = (apiKey: string) => statusOf(T, GOOD, { authorization: `Bearer ${apiKey}` });
  /** An API key that works at once, until `end`. */
  const expectEnd = async (apiKey: string, end: () => Promise<unknown>) => {
    expect(await statusFor(apiKey)).toBe(200);
    await end();
    await until(async () => (await statusFor(apiKey)) === 401, 'a 401', 10_000);
    await expectUnauthorized(`Bearer ${apiKey}`, UNKNOWN);
  };
  test('A29: a revoked API key ends alone, that of a disabled client as well, and both are told nothing else', async () => {
    const { client_id: id, api_key: first } = await createClient(service.place);
    const second = await command('api-key', 'issue', '--client', id);
    await expectEnd(second.api_key, () => command('api-key', 'revoke', second.api_key_id));
    await expectEnd(first, () => command('client', 'disable', id));
  });
  test('an API key ends when its time is over', async () => {
    const { client_id: id } = await createClient(service.place);
    const soon = new Date(Date.now() + 2_500).toISOString();
    const issued = await command('api-key', 'issue', '--client', id, '--expires', soon);
    await expectEnd(issued.api_key, async () => {});
    expect(Date.now()).toBeGreaterThanOrEqual(Date.parse(soon));
  });
});

test('A36: path, method, key, permission, limit, content type, size and body are checked in this order', async () => {
  const slow = ['--rate-limit', '0.001'];
  const authorization = `Bearer ${(await createClient(service.place, ...slow)).api_key}`;
  const other = await createClient(service.place, ...slow, '--can', 'tokenize');
  const intake = `Bearer ${other.api_key}`;
  const bad = { 'content-type': 'text/plain' };
  const statuses = [
    await statusOf('/nope', '{', { authorization: null }),
    await statusOf(T, undefined, { authorization: null }, 'GET'),
    await statusOf(T, '{', { authorization: 'Bearer x', ...bad }),
    await statusOf(D, '{', { authorization: 'Bearer stk_m0sdE2c65u3jXhNXPMSFFMbCJjRX4C5AqR' }),
    await statusOf(T, GOOD, { authorization: intake }),
    await statusOf(D, '{', { authorization: intake, ...bad }),
    await statusOf(T, GOOD, { authorization }),
    await statusOf(T, '{', { authorization, ...bad }),
    await statusOf(T, ' '.repeat(LIMIT + 1), bad),
    await statusOf(T, ' '.repeat(LIMIT + 1)),
    await statusOf(T, '{'),
  ];
  expect(statuses).toEqual([404, 405, 401, 401, 200, 403, 200, 429, 415, 413, 400]);
});

describe('A37-A40: what the HTTP parser refuses is answered in JSON, and the connection is closed', () => {
  test.each([
    ['length and chunked', post('Content-Length: 4', 'Transfer-Encoding: chunked')],
    ['two lengths', post('Content-Length: 4', 'Content-Length: 5')],
    ['the same length twice', post('Content-Length: 4', 'Content-Length: 4')],
    ['a blank before the colon', post('Content-Length : 2')],
    ['a folded header', post('X-A: 1\r\n  2')],
    ['an unknown coding', post('Transfer-Encoding: xchunked')],
    ['a coding before chunked', post('Transfer-Encoding: gzip, chunked')],
    ['chunked not last', post('Transfer-Encoding: chunked, identity')],
    ['a negative length', post('Content-Length: -1')],
    ['a signed length', post('Content-Length: +2')],
    ['a hexadecimal length', post('Content-Length: 0x2')],
    ['a bare CR', post('X-A: 1\rX-B: 2')],
    ['a NUL', post('X-A: \u0000')],
    ['two hosts', health('Host: b')],
    ['no host', 'GET /health HTTP/1.1\r\n\r\n'],
    ['no version', 'GET /\r\n\r\n'],
    ['another protocol', 'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n'],
    ['a TLS hello', '\u0016\u0003\u0001\u0002\u0000\u0001\u0000\u0001\u00fc\u0003\u0003'],
  ])('%s', (_name, bytes) => expectRawError(bytes, 400));

  test.each([
    ['17 KiB of headers', () => health(`X-A: ${'a'.repeat(17_408)}`)],
    ['a path of 17 KiB', () => request(`GET /${'a'.repeat(17_408)} HTTP/1.1`)],
    ['2,500 headers', () => post(...Array(2_500).fill('a: b'), auth, json)],
  ])('%s are too many', (_name, bytes) => expectRawError(bytes(), 431));
  test('127 headers are the most', async () => {
    const all = [
      [126, 200],
      [127, 431],
    ] as const;
    for (const [count, status] of all) {
      const bytes = health(...Array(count).fill('a: b'));
      expect(parseAnswers(await rawExchange(service, bytes))[0]!.status).toBe(status);
    }
  });
  test('a chunk extension of 20 KB is a 413', async () => {
    const head = post(auth, json, 'Transfer-Encoding: chunked');
    const received = await rawExchange(service, `${head}5;${'a'.repeat(20_000)}\r\n`);
    expect(parseAnswers(received)[0]!.status).toBe(413);
  });
  test('HTTP/1.0 is served', async () => {
    const received = await rawExchange(service, 'GET /health/live HTTP/1.0\r\n\r\n');
    expect(parseAnswers(received)[0]!.status).toBe(200);
  });
});

describe('A41: Expect', () => {
  test.each([
    ['a bad key is a 401, and no 100 comes before it', '1.1', 'x', /^HTTP\/1\.1 401 /],
    ['a good key is asked to go on', '1.1', '', /^HTTP\/1\.1 100 Continue\r\n\r\nHTTP\/1\.1 200 /],
    ['the case does not matter', '1.1', '', /^HTTP\/1\.1 100 Continue\r\n\r\nHTTP\/1\.1 200 /],
    ['a good key is not asked to go on in HTTP/1.0', '1.0', '', /^HTTP\/1\.1 200 /],
  ])('%s', async (name, version, wrong, expected) => {
    const word = name.includes('case') ? '100-Continue' : '100-continue';
    const lines = [json, auth + wrong, `Content-Length: ${GOOD.length}`, `Expect: ${word}`];
    const head = request(`POST ${T} HTTP/${version}`, ...lines);
    expect(await rawExchange(service, head + GOOD)).toMatch(expected);
  });
  test('anything else is a 417', () => expectRawError(health('Expect: foo'), 417));
});
