import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { type IncomingMessage, request } from 'node:http';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { describe, expect, test } from 'vitest';
import { MISREADS_NAMES } from '../../src/access/misread-names.ts';
import { SignIn } from '../../src/ops/access.ts';
import type { OpsError } from '../../src/ops/errors.ts';
import type { OpsContext } from '../../src/ops/web.ts';
import { rawExchange } from '../support/http.ts';
import { ask, bearer, JSON_TYPE, refusalIn, servedOps, sessionIn, watch } from '../support/ops.ts';
import { ownPlace, ownService } from '../support/own.ts';
import { noteSecrets } from '../support/secrecy.ts';
import { createClient, type Place, ROOT, until } from '../support/service.ts';
import { Authority, hasOpenssl } from '../support/tls.ts';

type Headers = Readonly<Record<string, string>>;
const TOKEN = 'correct-horse-battery-staple';
const bare = servedOps({ BODY_LIMIT: '2048' });
const guarded = servedOps({ OPS_HOST: '0.0.0.0', OPS_TOKEN: TOKEN });

const signIn = (token: unknown, headers: Headers = {}) => {
  const body = JSON.stringify({ token });
  return guarded.ask('/console/session', 'POST', { ...JSON_TYPE, ...headers }, body);
};

describe('every answer', () => {
  test.each([
    ['GET', '/metrics', 200],
    ['HEAD', '/metrics', 200],
    ['HEAD', '/console/events', 200],
    ['GET', '/console/state', 200],
    ['GET', '/reference', 302],
    ['GET', '/console/reference', 200],
    ['GET', '/other', 404],
    ['GET', '/../package.json', 404],
    ['GET', '/assets/../../package.json', 404],
    ['GET', '/assets/%2e%2e/index.html', 404],
    ['GET', '/assets/', 404],
    ['GET', '/constructor', 404],
    ['POST', '/metrics', 405],
    ['OPTIONS', '/console/state', 405],
    ['TRACE', '/console/state', 405],
    ['GET', '/console/session', 405],
  ])(
    'of %s %s is %i, and has the headers that keep a page to itself',
    async (...[method, path, status]) => {
      const answer = await bare.ask(path, method);
      expect(answer.status).toBe(status);
      const policy = /^default-src 'none'; script-src 'self'; .*frame-ancestors 'none'$/;
      expect(answer.headers).toMatchObject({
        'content-security-policy': expect.stringMatching(policy),
        ...{ 'x-content-type-options': 'nosniff', 'referrer-policy': 'no-referrer' },
        'cross-origin-opener-policy': 'same-origin',
        'cross-origin-resource-policy': 'same-origin',
      });
      expect(answer.headers['access-control-allow-origin']).toBeUndefined();
      expect(answer.headers.allow !== undefined).toBe(status === 405);
      if (method === 'HEAD') expect(answer.text).toBe('');
      // A proxy that collects events would show them too late.
      const isStream = path === '/console/events';
      expect(answer.headers['x-accel-buffering']).toBe(isStream ? 'no' : undefined);
    },
  );

  test.skipIf(!existsSync(join(ROOT, 'dist/console/index.html')))(
    'of the page needs no token, and is not sent again when it is known',
    async () => {
      const page = await guarded.ask('/');
      expect(page.status).toBe(200);
      expect(page.headers).toMatchObject({
        ...{ 'content-type': 'text/html; charset=utf-8', 'cache-control': 'no-cache' },
      });
      const chart = await guarded.ask('/assets/uplot.js');
      expect(chart.headers['content-type']).toBe('text/javascript; charset=utf-8');
      const again = await guarded.ask('/', 'GET', { 'if-none-match': String(page.headers.etag) });
      expect([again.status, again.text]).toEqual([304, '']);
      expect((await guarded.ask('/', 'POST')).status).toBe(405);
    },
  );

  test('has the path alone to find: it may have a query', async () => {
    expect((await bare.ask('/metrics?a=b')).text).toContain('standin_requests_total');
  });
});

describe('without OPS_TOKEN', () => {
  const OTHERS = ['evil.example', 'localhost.evil.example', '127.0.0.1.evil.example', '0.0.0.0'];
  test.each([
    [200, ['localhost', 'LOCALHOST:1', '127.0.0.1:9464', '127.1.2.3', '[::1]:9464']],
    // They may be names that were made to lead here.
    [421, [...OTHERS, 'evil.example:9464', '10.0.0.1', 'localhost@evil.example']],
  ])('every path answers %i to the Hosts %j', async (status, hosts) => {
    const all = [
      '/metrics',
      '/console/state',
      ...(status === 421 ? ['/', '/console/session'] : []),
    ];
    for (const host of hosts)
      for (const path of all) {
        const answer = await bare.ask(path, 'GET', { host });
        expect([host, path, answer.status]).toEqual([host, path, status]);
        expect(answer.text.includes('OPS_TOKEN')).toBe(status === 421);
      }
  });

  test('there is nothing to sign in for', async () => {
    const answer = await bare.ask('/console/session', 'POST', JSON_TYPE, '{"token":"anything"}');
    expect([answer.status, answer.headers['set-cookie']]).toEqual([204, undefined]);
  });
});

describe('with OPS_TOKEN', () => {
  test.each([
    ...['GET /metrics', 'GET /openapi.json', 'GET /console/reference', 'GET /console/state'],
    ...['GET /console/events', 'GET /console/requests', 'GET /console/client'],
    ...['POST /console/playground/tokenize', 'POST /console/playground/detokenize'],
  ])('%s is 401 without it, and with another one', async (operation) => {
    const [method, path] = operation.split(' ') as [string, string];
    const others: Headers[] = [
      ...[{}, bearer(`${TOKEN}x`), bearer(TOKEN.slice(1)), { authorization: 'Bearer' }],
      { authorization: `Basic ${TOKEN}` },
      ...[{ cookie: `standin_console=${TOKEN}` }, { cookie: 'standin_console=' }],
    ];
    for (const headers of others) {
      const answer = await guarded.ask(path, method, headers);
      expect([headers, answer.status]).toEqual([headers, 401]);
      expect(answer.headers['www-authenticate']).toBe('Bearer realm="standin ops"');
      expect(answer.headers['x-request-id']).toBeUndefined();
    }
  });

  test('a body that nobody reads does not hide the 401', async () => {
    const path = '/console/playground/tokenize';
    const { status } = await guarded.ask(path, 'POST', JSON_TYPE, ' '.repeat(5_000_000));
    expect(status).toBe(401);
  });

  test.each([
    ['GET', '/metrics'],
    ['GET', '/console/state'],
    ['HEAD', '/console/events'],
  ])('a bearer has %s %s, under any name', async (method, path) => {
    const headers = { ...bearer(TOKEN), host: 'standin-ops.example' };
    expect((await guarded.ask(path, method, headers)).status).toBe(200);
  });

  test('who signs in has a cookie that scripts cannot read and a secret of the page, until signing out, which ends streams', async () => {
    const signedIn = await signIn(TOKEN);
    expect(signedIn.status).toBe(200);
    expect(String(signedIn.headers['set-cookie'])).toMatch(
      /^standin_console=[\w-]{43}; Max-Age=43200; Path=\/; HttpOnly; SameSite=Strict$/,
    );
    const own = sessionIn('console', signedIn);
    const { cookie, ...secret } = own;
    const state = async (headers: Headers) =>
      (await guarded.ask('/console/state', 'GET', headers)).status;
    expect(await state({ ...secret, cookie: `other=1; ${cookie}; more=2` })).toBe(200);
    const other = sessionIn('console', await signIn(TOKEN));
    const halves = [{ cookie }, secret, { ...own, cookie: other.cookie }, { ...other, cookie }];
    for (const half of halves) expect(await state(half as Headers)).toBe(401);
    const watcher = await watch(guarded.service.opsUrl, own);
    expect(watcher.status).toBe(200);
    const signOut = (headers: Headers) => guarded.ask('/console/session', 'DELETE', headers);
    expect((await signOut({ ...own, origin: 'https://evil.example' })).status).toBe(403);
    expect((await signOut({ cookie })).status).toBe(204);
    expect(await state(own)).toBe(200);
    const signedOut = await signOut(own);
    expect(signedOut.status).toBe(204);
    expect(String(signedOut.headers['set-cookie'])).toContain('Max-Age=0');
    expect(await state(own)).toBe(401);
    await until(() => watcher.hasEnded(), 'the end of the stream');
  });

  test.each<[status: number, code: string, body: string, headers?: Headers]>([
    [400, 'bad_request', '{"token":1}'],
    [400, 'bad_request', 'null'],
    [400, 'bad_request', '{"token":"","token":""}'],
    ...(MISREADS_NAMES
      ? [[400, 'bad_request', '{"token":"","\\\\":""}'] as [number, string, string]]
      : []),
    [400, 'bad_request', '{}'.padEnd(4_096)],
    [413, 'payload_too_large', '{}'.padEnd(4_097)],
    [415, 'unsupported_media_type', '{"token":""}', {}],
  ])('a sign-in that is not one is %i %s', async (status, code, body, headers = JSON_TYPE) => {
    const answer = await guarded.ask('/console/session', 'POST', headers, body);
    expect(refusalIn(answer)).toEqual([status, code]);
  });
});

test.each([
  ['two Host headers', ['Host: localhost', 'Host: localhost'], 400],
  ['a Host with a blank', ['Host: local host'], 400],
  ['two content types', ['Host: localhost', 'Content-Type: application/json'], 415],
])('%s are not taken', async (_, headers, status) => {
  const head = ['POST /console/session HTTP/1.1', 'Connection: close', ...headers];
  head.push('Content-Type: application/json', 'Content-Length: 13');
  const bytes = `${head.join('\r\n')}\r\n\r\n{"token":"x"}`;
  const received = await rawExchange({ ...guarded.service, url: guarded.service.opsUrl }, bytes);
  expect(Number(received.split(' ')[1])).toBe(status);
});

describe('what a page of another site has a browser', () => {
  const host = 'localhost:9464';
  const site = (one: string, mode?: string, target?: string): Headers => ({
    'sec-fetch-site': one,
    ...(mode && { 'sec-fetch-mode': mode }),
    ...(target && { 'sec-fetch-dest': target }),
  });

  test.each<[number, Headers]>([
    [403, site('cross-site', 'no-cors')],
    [403, site('same-site', 'cors')],
    [403, site('cross-site', 'navigate', 'iframe')],
    [403, { origin: 'http://localhost:3000' }],
    // A program, the page itself, the address bar and a link.
    [200, {}],
    [200, site('same-origin', 'cors')],
    [200, site('none', 'no-cors')],
    [200, site('none', 'navigate', 'document')],
    [200, site('cross-site', 'navigate', 'document')],
  ])('read is refused, and what others read is not: %i for %j', async (status, headers) => {
    for (const path of ['/console/state', '/console/events', '/console/requests']) {
      const method = path.endsWith('events') ? 'HEAD' : 'GET';
      const answer = await bare.ask(path, method, { host, ...headers });
      expect([path, answer.status]).toEqual([path, status]);
    }
  });

  const origins = (...all: string[]) => all.map((origin) => ({ origin }));
  const types = (...all: string[]) => all.map((type) => ({ 'content-type': type }));
  test.each<[status: number, code: string | undefined, all: Headers[]]>([
    [403, 'cross_origin', origins('https://evil.example', 'null', 'http://localhost:3000')],
    [403, 'cross_origin', origins('https://localhost:9464', 'http://localhost:9464.evil.example')],
    [403, 'cross_origin', ['cross-site', 'same-site', 'none'].map((one) => site(one))],
    [403, 'cross_origin', [{ ...site('cross-site'), origin: 'http://localhost:9464' }]],
    // Types that need no leave of us.
    [415, 'unsupported_media_type', types('text/plain', 'multipart/form-data', '')],
    [415, 'unsupported_media_type', types('application/x-www-form-urlencoded')],
    // The page itself. A proxy with TLS may have put another Host in its place.
    [204, undefined, [{ origin: `http://${host}`, ...site('same-origin') }]],
    [204, undefined, [{ origin: `http://${host}` }]],
    [204, undefined, [{ origin: 'https://ops.example', ...site('same-origin') }]],
  ])('send is %i %s, and what the page itself sends is not: %j', async (status, code, all) => {
    const others = status === 403 ? ['/console/playground/tokenize'] : [];
    for (const path of ['/console/session', ...others])
      for (const headers of all) {
        const sent = { host, ...JSON_TYPE, ...headers };
        const answer = await bare.ask(path, 'POST', sent, '{"token":"x"}');
        expect([path, headers, ...refusalIn(answer)]).toEqual([path, headers, status, code]);
      }
  });
});

async function play(
  operation: string,
  body: string | Uint8Array,
  headers: Record<string, string> = {},
  { opsUrl, api_key: apiKey } = bare.service,
) {
  const all = { ...JSON_TYPE, 'standin-api-key': apiKey, ...headers };
  const answer = await ask(`${opsUrl}/console/playground/${operation}`, 'POST', all, body);
  return { ...answer, body: JSON.parse(answer.text) };
}

/** Its names are not those of the address that it is called at. */
const tls = ({ folder }: Place) => {
  const authority = new Authority(folder, 'authority');
  const { cert, key } = authority.issue('DNS:tokens.example');
  return { TLS_CERT_FILE: cert, TLS_KEY_FILE: key, TLS_CLIENT_CA_FILE: authority.ca };
};
const started = async (env: (place: Place) => Record<string, string>) => {
  const place = await ownPlace();
  return ownService(place, env(place));
};

test.each(['127.0.0.1', '0.0.0.0', '::', ...(hasOpenssl ? ['TLS'] : [])])(
  'the playground tokenizes and restores with HOST %s, and nothing of it is in the log',
  async (HOST) => {
    const withTls = (place: Place) => ({ ...tls(place), TLS_CLIENT_CA_FILE: '' });
    const service = await started(HOST === 'TLS' ? withTls : () => ({ HOST }));
    const data = { name: 'Ann Leeward-Playground', nested: ['<b>Zoë</b> of the playground'] };
    noteSecrets(data);
    const tokenized = await play('tokenize', JSON.stringify({ data }), {}, service);
    expect(tokenized.status).toBe(200);
    expect(tokenized.body.data.name).toMatch(/_tok$/);
    const sent = JSON.stringify({ data: tokenized.body.data });
    const restored = await play('detokenize', sent, {}, service);
    expect([restored.status, restored.body.data]).toEqual([200, data]);
    expect(service.output().split('listening')[1]).not.toContain(service.api_key);
  },
);

test.skipIf(!hasOpenssl)(
  'the playground says why it cannot call where callers need certificates',
  async () => {
    const { status, body } = await play('tokenize', '{"data":{}}', {}, await started(tls));
    expect([status, body.message]).toEqual([409, expect.stringContaining('TLS_CLIENT_CA_FILE')]);
  },
);

test('the playground passes back what the service says: status, body, request id and when to try again', async () => {
  const { api_key: slow } = await createClient(bare.service.place, '--rate-limit', '0.001');
  const wrong = await play('tokenize', '{"data":{}}', { 'standin-api-key': 'stk_wrong' });
  expect([wrong.status, wrong.body]).toEqual([401, { error: 'unauthorized' }]);
  expect(wrong.headers['x-request-id']).toMatch(/^[0-9a-f-]{36}$/);
  const none = await play('tokenize', '{"data":{}}', { 'standin-api-key': '' });
  expect(refusalIn(none)).toEqual([401, 'unauthorized']);
  // The API key of the field alone, not what a program sends to this listener.
  const other = { 'standin-api-key': '', ...bearer(bare.service.api_key) };
  expect((await play('tokenize', '{"data":{}}', other)).status).toBe(401);
  expect(refusalIn(await play('tokenize', '{"data":{"a":1}}'))).toEqual([400, 'invalid_type']);
  expect((await play('tokenize', '', { 'content-type': 'text/plain' })).status).toBe(415);
  const asSlow = () => play('tokenize', '{"data":{}}', { 'standin-api-key': slow });
  expect((await asSlow()).status).toBe(200);
  const { status, headers } = await asSlow();
  expect([status, headers['retry-after']]).toEqual([429, expect.stringMatching(/^[1-9]\d*$/)]);
  expect(headers['content-security-policy']).toMatch(/^default-src 'none'/);
  // What is refused is no failure of the listener.
  expect(bare.service.output()).not.toContain('the ops listener could not answer');
});

test('the playground takes what BODY_LIMIT allows, byte for byte, and refuses more', async () => {
  const body = (length: number) => `{"data":{"a":"b"}${' '.repeat(length - 18)}}`;
  expect((await play('tokenize', body(2_048))).status).toBe(200);
  for (const length of [2_049, 5_000_000])
    expect(refusalIn(await play('tokenize', body(length)))).toEqual([413, 'payload_too_large']);
  const odd = await play('tokenize', Buffer.from('{"data":{"a":"\xff"}}', 'latin1'));
  expect([odd.status, odd.headers['x-request-id']]).toEqual([400, expect.any(String)]);
});

test('a request of the playground under way when the service stops is answered', async () => {
  const service = await started(() => ({}));
  // The service knows the API key, so it admits the next request at once.
  expect((await play('tokenize', '{"data":{}}', {}, service)).status).toBe(200);
  const headers = { ...JSON_TYPE, 'standin-api-key': service.api_key, expect: '100-continue' };
  const sent = request(`${service.opsUrl}/console/playground/tokenize`, {
    ...{ method: 'POST', agent: false },
    headers: { ...headers, 'content-length': 20 },
  });
  sent.flushHeaders();
  await once(sent, 'continue');
  service.kill('SIGINT');
  await until(() => service.output().includes('"msg":"draining"'), 'the end to begin');
  sent.end('{"data":{"a":"Lee"}}');
  const [response] = (await once(sent, 'response')) as [IncomingMessage];
  expect([response.statusCode, await text(response)]).toEqual([200, expect.any(String)]);
  expect(await service.exit).toBe(0);
});

describe('sessions', () => {
  const HOUR_MS = 3_600_000;
  let nowMs = 0;
  const started = () => new SignIn('console', [{ name: 'ann', token: TOKEN }], false, () => nowMs);
  /** The context that a handler gets of a request with these headers. */
  const contextOf = (headers: Headers) => {
    const req = { raw: { headers: new Headers(headers) } };
    const answer = { headers: {} as Record<string, string>, text: '' };
    const header = (name: string, value: string) => {
      answer.headers[name.toLowerCase()] = value;
    };
    return { answer, c: { env: { incoming: { headers } }, req, header } as unknown as OpsContext };
  };
  const begin = (sessions: SignIn) => {
    const { c, answer } = contextOf({});
    answer.text = JSON.stringify(sessions.begin(c, 'ann'));
    return sessionIn('console', answer);
  };

  test('end after 12 hours, and are at most 100: the oldest goes', () => {
    const sessions = started();
    const find = (headers: Headers) => sessions.find(contextOf(headers).c)?.name;
    const first = begin(sessions);
    nowMs += 12 * HOUR_MS - 1;
    expect(find(first)).toBe('ann');
    const second = begin(sessions);
    nowMs++;
    expect([find(first), find(second)]).toEqual([undefined, 'ann']);
    for (let i = 0; i < 99; i++) begin(sessions);
    expect(find(second)).toBe('ann');
    begin(sessions);
    expect(find(second)).toBe(undefined);
  });

  test('are tried to be begun five times at once, then twice a second', () => {
    const signIn = started();
    const tries = (address = '10.0.0.1', count = 10) =>
      Array.from({ length: count }, () => {
        try {
          return signIn.check('wrong', address);
        } catch (error) {
          return (error as OpsError).code;
        }
      }).filter((code) => code === 'unauthorized').length;
    expect([tries(), tries('10.0.0.2')]).toEqual([5, 5]);
    nowMs += 1_000;
    expect(tries()).toBe(2);
    nowMs += HOUR_MS;
    expect(tries()).toBe(5);
    // Of the addresses beyond a thousand, the one that tried last is remembered longest.
    for (let i = 0; i < 999; i++) expect(tries(`10.1.${i}`, 1)).toBe(1);
    expect(tries()).toBe(0);
    for (let i = 0; i < 1_000; i++) expect(tries(`10.2.${i}`, 1)).toBe(1);
    expect(tries()).toBe(5);
  });
});
