import { METHODS } from 'node:http';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { expectErrorForm, parseAnswers, rawExchange, send } from '../support/http.ts';
import {
  createClient,
  leastPrivilegePlace,
  type Service,
  startService,
  until,
} from '../support/service.ts';

const T = '/api/v1/tokenize';
const D = '/api/v1/detokenize';
const GOOD = '{"data":{"a":"Ann Lee"}}';
let service: Service;
beforeAll(async () => {
  service = await startService(await leastPrivilegePlace());
});
afterAll(async () => {
  expect((await send(service, T, GOOD)).status).toBe(200);
  await service.stop();
  service.place.remove();
});

/** What a raw exchange must end with: one error answer, and the connection closed. */
async function expectRawError(bytes: string, statuses: number[]): Promise<void> {
  const [answer, ...more] = parseAnswers(await rawExchange(service, bytes));
  expect(more).toEqual([]);
  expect(statuses).toContain(answer!.status);
  expectErrorForm(answer!);
}

function request(head: string, ...headers: string[]): string {
  return `${[head, ...headers].join('\r\n')}\r\n\r\n`;
}

const auth = () => `Authorization: Bearer ${service.api_key}`;
const json = 'Content-Type: application/json';

describe('A16-A17: size', () => {
  test('a body of the limit is read, one byte more is a 413', async () => {
    const padded = (size: number) => GOOD + ' '.repeat(size - GOOD.length);
    expect((await send(service, T, padded(1_048_576))).status).toBe(200);
    const answer = await send(service, T, padded(1_048_577));
    expect(answer.status).toBe(413);
    expect(JSON.parse(answer.text)).toEqual({
      error: 'payload_too_large',
      message: expect.stringContaining('more than 1048576 bytes'),
    });
  });
  test('a chunked body over the limit is cut off', async () => {
    const chunk = `10000\r\n${' '.repeat(0x10000)}\r\n`;
    const head = request(
      `POST ${T} HTTP/1.1`,
      'Host: a',
      auth(),
      json,
      'Transfer-Encoding: chunked',
    );
    const [answer] = parseAnswers(await rawExchange(service, head + chunk.repeat(17)));
    expect(answer!.status).toBe(413);
    expect(answer!.text).toContain('more than 1048576 bytes');
    expect(answer!.headers.get('connection')).toBe('close');
  });
  test('a declared length of 10 GB is refused before any byte of it', () =>
    expectRawError(
      request(`POST ${T} HTTP/1.1`, 'Host: a', auth(), json, 'Content-Length: 10737418240'),
      [413],
    ));
});

describe('A21-A23: content type', () => {
  test.each([
    null,
    'text/plain',
    'application/jsonx',
    'application/json\ta',
    'application/json, text/plain',
    'application/json; charset=utf-16',
    'application/json; charset=us-ascii',
    'application/json; charset=utf--8',
    'application/json; a="b;c',
    'application/json;; charset=utf-16',
    'application/json; charset',
  ])('%j is a 415', async (type) => {
    expect((await send(service, T, GOOD, { 'content-type': type })).status).toBe(415);
  });
  test.each([
    'application/json; charset=utf-8',
    'Application/JSON',
    'application/json;charset="UTF-8"',
    'application/json; charset=utf8',
    'application/json; charset="UTF8"',
    'application/json;',
    'application/json; charset=utf-8 ; ',
    'application/json;;charset=utf-8;',
    'application/json; odata.metadata=minimal',
    'application/json; a="b;c"',
    'application/json; a="; charset=utf-16"; charset=utf-8',
    'application/json; profile="https://a/\\"b\\""',
  ])('%j is taken', async (type) => {
    expect((await send(service, T, GOOD, { 'content-type': type })).status).toBe(200);
  });
  test('a compressed body is a 415', async () => {
    expect((await send(service, T, GOOD, { 'content-encoding': 'gzip' })).status).toBe(415);
  });
});

describe('A24-A27: paths and methods', () => {
  test.each(['GET', 'PUT', 'PATCH', 'DELETE'])(
    '%s on tokenize and detokenize is a 405',
    async (method) => {
      for (const path of [T, D]) {
        const answer = await send(service, path, undefined, {}, method);
        expect(answer.status).toBe(405);
        expect(answer.headers.get('allow')).toBe('POST');
      }
    },
  );
  test('path and method come before the content type, also of methods that have a body', async () => {
    // Node 20.19.0 does not know QUERY, so its parser refuses it.
    for (const method of METHODS.filter((one) => ['PUT', 'QUERY'].includes(one))) {
      for (const type of [null, 'nonsense', 'text/plain', 'application/json']) {
        const ask = (path: string) => send(service, path, GOOD, { 'content-type': type }, method);
        expect([method, type, (await ask(T)).status]).toEqual([method, type, 405]);
        expect([method, type, (await ask('/nowhere')).status]).toEqual([method, type, 404]);
      }
    }
  });
  test('POST on /health is a 405', async () => {
    const answer = await send(service, '/health', GOOD);
    expect([answer.status, answer.headers.get('allow')]).toEqual([405, 'GET, HEAD']);
  });
  test('HEAD /health has no body, OPTIONS names the methods and opens nothing to browsers', async () => {
    const head = await send(service, '/health', undefined, { authorization: null }, 'HEAD');
    expect([head.status, head.text]).toEqual([200, '']);
    for (const path of [T, D, '/health']) {
      const options = await send(service, path, undefined, {}, 'OPTIONS');
      expect(options.status).toBe(204);
      expect(options.headers.get('allow')).not.toBeNull();
      expect(options.headers.get('content-type')).toBeNull();
      expect(
        [...options.headers.keys()].filter((name) => name.startsWith('access-control')),
      ).toEqual([]);
    }
  });
  test.each(['TRACE', 'PROPFIND'])('%s is refused and echoes nothing', async (method) => {
    const received = await rawExchange(
      service,
      request(`${method} / HTTP/1.1`, 'Host: a', 'X-Secret: hushhush'),
    );
    expect(received).not.toContain('hushhush');
    expect([404, 405]).toContain(parseAnswers(received)[0]!.status);
  });
  test.each(['CONNECT a:1', 'FOO /health'])('%s is a 400, and ends the connection', (line) =>
    expectRawError(request(`${line} HTTP/1.1`, 'Host: a').repeat(2), [400]),
  );
  test.each([
    `${T}/`,
    '/API/v1/tokenize',
    `/${T}`,
    `${T}%2f`,
    '/api/v1/./tokenize',
    '/api/v1/x/../tokenize',
    '/constructor',
    '/metrics',
  ])('%s is a 404', (path) =>
    expectRawError(
      request(`POST ${path} HTTP/1.1`, 'Host: a', auth(), json, 'Content-Length: 0'),
      [404],
    ),
  );
});

describe('A28-A29: API keys', () => {
  test('no key: exactly {"error":"unauthorized"}, and a challenge', async () => {
    const answer = await send(service, T, GOOD, { authorization: null });
    expect([answer.status, answer.text]).toEqual([401, '{"error":"unauthorized"}\n']);
    expect(answer.headers.get('www-authenticate')).toBe('Bearer realm="standin"');
  });
  const NO_KEY = 'not an API key, or mistyped: an API key has 38 characters';
  const UNKNOWN = 'the API key or JWT is unknown, expired or revoked';
  const NO_WORD = 'no API key after Bearer, or blanks in it';
  const NO_BEARER = 'no Bearer before the API key';
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
  ])('%s', async (authorization, why) => {
    const answer = await send(service, T, GOOD, { authorization });
    expect([answer.status, answer.text]).toEqual([401, '{"error":"unauthorized"}\n']);
    expect(answer.headers.get('www-authenticate')).toBe(
      `Bearer realm="standin", error="invalid_token", error_description="${why}"`,
    );
    const id = answer.headers.get('x-request-id')!;
    const line = () =>
      service
        .output()
        .split('\n')
        .find((one) => one.includes(id));
    await until(() => line() !== undefined, 'the line of the log');
    expect(JSON.parse(line()!)).toMatchObject({ status: 401, why });
  });
  test('two Authorization headers, and a key with a no-break space behind it', async () => {
    const post = (...headers: string[]) =>
      request(`POST ${T} HTTP/1.1`, 'Host: a', json, 'Content-Length: 0', ...headers);
    await expectRawError(post(auth(), 'Authorization: Bearer x'), [401]);
    await expectRawError(post(`${auth()}\u00a0`), [401]);
  });
  test('the scheme is not case-sensitive', async () => {
    expect(
      (await send(service, T, GOOD, { authorization: `bearer ${service.api_key}` })).status,
    ).toBe(200);
  });
});

test('A35: without a key, no body is looked at', async () => {
  for (let i = 0; i < 20; i++) {
    expect((await send(service, T, '{'.repeat(1_000_000), { authorization: null })).status).toBe(
      401,
    );
  }
});

test('A36: path, method, key, permission, limit, content type, size and body are checked in this order', async () => {
  const slow = ['--rate-limit', '0.001'];
  const authorization = `Bearer ${(await createClient(service.place, ...slow)).api_key}`;
  const D = '/api/v1/detokenize';
  const other = await createClient(service.place, ...slow, '--can', 'tokenize');
  const intake = `Bearer ${other.api_key}`;
  const bad = { 'content-type': 'text/plain' };
  const statuses = [
    await send(service, '/nope', '{', { authorization: null }),
    await send(service, T, undefined, { authorization: null }, 'GET'),
    await send(service, T, '{', { authorization: 'Bearer x', ...bad }),
    await send(service, T, GOOD, { authorization: intake }),
    await send(service, D, '{', { authorization: intake, ...bad }),
    await send(service, T, GOOD, { authorization }),
    await send(service, T, '{', { authorization, ...bad }),
    await send(service, T, ' '.repeat(1_048_577), bad),
    await send(service, T, ' '.repeat(1_048_577)),
    await send(service, T, '{'),
  ].map((answer) => answer.status);
  expect(statuses).toEqual([404, 405, 401, 200, 403, 200, 429, 415, 413, 400]);
});

describe('A37-A40: what the HTTP parser refuses is answered in JSON, and the connection is closed', () => {
  const post = (...headers: string[]) => request(`POST ${T} HTTP/1.1`, 'Host: a', ...headers);
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
    ['two hosts', request('GET /health HTTP/1.1', 'Host: a', 'Host: b')],
    ['no host', request('GET /health HTTP/1.1')],
    ['no version', 'GET /\r\n\r\n'],
    ['another protocol', 'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n'],
    ['a TLS hello', '\u0016\u0003\u0001\u0002\u0000\u0001\u0000\u0001\u00fc\u0003\u0003'],
  ])('%s', (_name, bytes) => expectRawError(bytes, [400]));

  test('17 KiB of headers, or 2,500 of them, are too many', async () => {
    await expectRawError(
      request('GET /health HTTP/1.1', 'Host: a', `X-A: ${'a'.repeat(17_408)}`),
      [431],
    );
    await expectRawError(request(`GET /${'a'.repeat(17_408)} HTTP/1.1`, 'Host: a'), [431]);
    await expectRawError(post(...Array(2_500).fill('a: b'), auth(), json), [431]);
  });
  test('a chunk extension of 20 KB is a 413', async () => {
    const head = post(auth(), json, 'Transfer-Encoding: chunked');
    const received = await rawExchange(service, `${head}5;${'a'.repeat(20_000)}\r\n`);
    expect(parseAnswers(received)[0]!.status).toBe(413);
  });
  test('HTTP/1.0 is served', async () => {
    expect(
      parseAnswers(await rawExchange(service, 'GET /health/live HTTP/1.0\r\n\r\n'))[0]!.status,
    ).toBe(200);
  });
});

describe('A41: Expect', () => {
  test('a bad key is a 401, and no 100 comes before it', async () => {
    const received = await rawExchange(
      service,
      request(
        `POST ${T} HTTP/1.1`,
        'Host: a',
        json,
        'Authorization: Bearer x',
        'Content-Length: 5',
        'Expect: 100-continue',
      ),
    );
    expect(received).toMatch(/^HTTP\/1\.1 401 /);
  });
  test.each([
    ['1.1', /^HTTP\/1\.1 100 Continue\r\n\r\nHTTP\/1\.1 200 /],
    ['1.0', /^HTTP\/1\.1 200 /],
  ])('a good key is asked to go on, but not in HTTP/1.0: HTTP/%s', async (version, expected) => {
    const length = `Content-Length: ${GOOD.length}`;
    const lines = [json, auth(), length, 'Expect: 100-continue'];
    const head = request(`POST ${T} HTTP/${version}`, 'Host: a', ...lines);
    expect(await rawExchange(service, head + GOOD)).toMatch(expected);
  });
  test('anything else is a 417', () =>
    expectRawError(request('GET /health HTTP/1.1', 'Host: a', 'Expect: foo'), [417]));
});

test('A42: pipelined requests are answered in order, each with an id of its own', async () => {
  const one = (value: string) => {
    const body = JSON.stringify({ data: { [value]: value } });
    return (
      request(`POST ${T} HTTP/1.1`, 'Host: a', json, auth(), `Content-Length: ${body.length}`) +
      body
    );
  };
  const answers = parseAnswers(await rawExchange(service, one('x') + one('y') + one('z')));
  expect(answers.map((answer) => Object.keys(JSON.parse(answer.text).data)[0])).toEqual([
    'x',
    'y',
    'z',
  ]);
  const ids = answers.map((answer) => JSON.parse(answer.text).request_id);
  expect(ids).toEqual(answers.map((answer) => answer.headers.get('x-request-id')));
  expect(new Set(ids).size).toBe(3);
});

test('A46: /health needs no key and has four fields; /health/live is there', async () => {
  const { status, text } = await send(
    service,
    '/health',
    undefined,
    { authorization: null },
    'GET',
  );
  const body = JSON.parse(text);
  expect(status).toBe(200);
  expect(body).toEqual({
    status: 'ok',
    timestamp: expect.any(String),
    postgres: 'ok',
    version: '1.0.5',
  });
  expect(body.timestamp).toMatch(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$/);
  expect((await send(service, '/health/live', undefined, {}, 'GET')).status).toBe(200);
});
