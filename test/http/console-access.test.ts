import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { Hono } from 'hono';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { MISREADS_NAMES } from '../../src/access/misread-names.ts';
import { Sessions, Tries } from '../../src/ops/sessions.ts';
import type { OpsContext, OpsEnv } from '../../src/ops/web.ts';
import { rawExchange } from '../support/http.ts';
import { ask, type OpsService, sessionIn, startWithOps, watch } from '../support/ops.ts';
import { ROOT, until, usualPlace } from '../support/service.ts';

const TOKEN = 'correct-horse-battery-staple';
const JSON_TYPE = { 'content-type': 'application/json' };
const PROTECTED = [
  ['GET', '/metrics'],
  ['GET', '/openapi.json'],
  ['GET', '/console/reference'],
  ['GET', '/console/state'],
  ['GET', '/console/events'],
  ['GET', '/console/requests'],
  ['GET', '/console/client'],
  ['POST', '/console/playground/tokenize'],
  ['POST', '/console/playground/detokenize'],
] as const;

let bare: OpsService;
let guarded: OpsService;
beforeAll(async () => {
  [bare, guarded] = await Promise.all([
    startWithOps(await usualPlace()),
    startWithOps(await usualPlace(), { OPS_HOST: '0.0.0.0', OPS_TOKEN: TOKEN }),
  ]);
  guarded = { ...guarded, opsUrl: guarded.opsUrl.replace('0.0.0.0', '127.0.0.1') };
});
afterAll(async () => {
  for (const service of [bare, guarded]) {
    await service.stop();
    expect(service.output()).not.toContain(TOKEN);
    service.place.remove();
  }
});

const signIn = (token: unknown, headers: Record<string, string> = {}) =>
  ask(
    `${guarded.opsUrl}/console/session`,
    'POST',
    { ...JSON_TYPE, ...headers },
    JSON.stringify({ token }),
  );

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
    ['GET', '/console/session', 405],
  ])(
    'of %s %s is %i, and has the headers that keep a page to itself',
    async (method, path, status) => {
      const answer = await ask(bare.opsUrl + path, method);
      expect(answer.status).toBe(status);
      expect(answer.headers).toMatchObject({
        'content-security-policy': expect.stringMatching(
          /^default-src 'none'; script-src 'self'; .*frame-ancestors 'none'$/,
        ),
        'x-content-type-options': 'nosniff',
        'referrer-policy': 'no-referrer',
        'cross-origin-opener-policy': 'same-origin',
        'cross-origin-resource-policy': 'same-origin',
      });
      expect(answer.headers['access-control-allow-origin']).toBeUndefined();
      expect(answer.headers.allow !== undefined).toBe(status === 405);
      if (method === 'HEAD') expect(answer.text).toBe('');
    },
  );

  test.skipIf(!existsSync(join(ROOT, 'dist/console/index.html')))(
    'of the page needs no token, and is not sent again when it is known',
    async () => {
      const page = await ask(`${guarded.opsUrl}/`);
      expect([page.status, page.headers['content-type']]).toEqual([
        200,
        'text/html; charset=utf-8',
      ]);
      expect(page.headers['cache-control']).toBe('no-cache');
      const chart = await ask(`${guarded.opsUrl}/assets/uplot.js`);
      expect(chart.headers['content-type']).toBe('text/javascript; charset=utf-8');
      const known = { 'if-none-match': String(page.headers.etag) };
      const again = await ask(`${guarded.opsUrl}/`, 'GET', known);
      expect([again.status, again.text]).toEqual([304, '']);
      expect((await ask(`${guarded.opsUrl}/`, 'POST')).status).toBe(405);
    },
  );

  test('a path may have a query', async () => {
    expect((await ask(`${bare.opsUrl}/metrics?a=b`)).text).toContain('standin_requests_total');
  });
});

describe('without OPS_TOKEN', () => {
  test.each(['localhost', 'LOCALHOST:1', '127.0.0.1:9464', '127.1.2.3', '[::1]:9464'])(
    'the Host %s is answered',
    async (host) => {
      expect((await ask(`${bare.opsUrl}/console/state`, 'GET', { host })).status).toBe(200);
    },
  );

  test.each([
    'evil.example',
    'localhost.evil.example',
    '127.0.0.1.evil.example',
    'evil.example:9464',
    '10.0.0.1',
    'localhost@evil.example',
    '0.0.0.0',
  ])(
    'the Host %s is refused on every path: it may be a name that was made to lead here',
    async (host) => {
      for (const path of ['/', '/metrics', '/console/state', '/console/session']) {
        const { status, text } = await ask(bare.opsUrl + path, 'GET', { host });
        expect(status).toBe(421);
        expect(text).toContain('OPS_TOKEN');
      }
    },
  );

  test('there is nothing to sign in for', async () => {
    const url = `${bare.opsUrl}/console/session`;
    const answer = await ask(url, 'POST', JSON_TYPE, '{"token":"anything"}');
    expect([answer.status, answer.headers['set-cookie']]).toEqual([204, undefined]);
  });
});

describe('with OPS_TOKEN', () => {
  test.each(PROTECTED)('%s %s is 401 without it, and with another one', async (method, path) => {
    const others = [
      {},
      { authorization: `Bearer ${TOKEN}x` },
      { authorization: `Bearer ${TOKEN.slice(1)}` },
      { authorization: 'Bearer' },
      { authorization: `Basic ${TOKEN}` },
      { cookie: `standin_console=${TOKEN}` },
      { cookie: 'standin_console=' },
    ];
    for (const headers of others) {
      const answer = await ask(guarded.opsUrl + path, method, headers as Record<string, string>);
      expect([headers, answer.status]).toEqual([headers, 401]);
      expect(answer.headers['www-authenticate']).toBe('Bearer realm="standin ops"');
      expect(answer.headers['x-request-id']).toBeUndefined();
    }
  });

  test('a body that nobody reads does not hide the 401', async () => {
    const url = `${guarded.opsUrl}/console/playground/tokenize`;
    const { status } = await ask(url, 'POST', JSON_TYPE, ' '.repeat(5_000_000));
    expect(status).toBe(401);
  });

  test('a bearer has metrics, state and events, under any name', async () => {
    const headers = { authorization: `Bearer ${TOKEN}`, host: 'standin-ops.example' };
    expect((await ask(`${guarded.opsUrl}/metrics`, 'GET', headers)).status).toBe(200);
    expect((await ask(`${guarded.opsUrl}/console/state`, 'GET', headers)).status).toBe(200);
    const watcher = await watch(guarded.opsUrl, { authorization: headers.authorization });
    expect(watcher.status).toBe(200);
    watcher.close();
  });

  test('who signs in has a cookie that scripts cannot read and a secret of the page, until signing out, which ends streams', async () => {
    const signedIn = await signIn(TOKEN);
    expect(signedIn.status).toBe(200);
    expect(String(signedIn.headers['set-cookie'])).toMatch(
      /^standin_console=[\w-]{43}; Max-Age=43200; Path=\/; HttpOnly; SameSite=Strict$/,
    );
    const own = sessionIn('console', signedIn);
    const { cookie, ...secret } = own;
    const state = async (headers: Record<string, string>) =>
      (await ask(`${guarded.opsUrl}/console/state`, 'GET', headers)).status;
    expect(await state({ ...secret, cookie: `other=1; ${cookie}; more=2` })).toBe(200);
    const other = sessionIn('console', await signIn(TOKEN));
    const halves = [{ cookie }, secret, { ...own, cookie: other.cookie }, { ...other, cookie }];
    for (const half of halves) expect(await state(half as Record<string, string>)).toBe(401);
    const watcher = await watch(guarded.opsUrl, own);
    expect(watcher.status).toBe(200);
    const session = `${guarded.opsUrl}/console/session`;
    const foreign = { ...own, origin: 'https://evil.example' };
    expect((await ask(session, 'DELETE', foreign)).status).toBe(403);
    expect((await ask(session, 'DELETE', { cookie })).status).toBe(204);
    expect(await state(own)).toBe(200);
    const signedOut = await ask(session, 'DELETE', own);
    expect(signedOut.status).toBe(204);
    expect(String(signedOut.headers['set-cookie'])).toContain('Max-Age=0');
    expect(await state(own)).toBe(401);
    await until(() => watcher.hasEnded(), 'the end of the stream');
  });

  test('a sign-in that is not one is refused, and a few are tried a second', async () => {
    const url = `${guarded.opsUrl}/console/session`;
    const errorOf = async (answer: Promise<{ status: number; text: string }>) => {
      const { status, text } = await answer;
      return [status, JSON.parse(text).error];
    };
    const wrong = ['{"token":1}', 'null', '{"token":"","token":""}'];
    if (MISREADS_NAMES) wrong.push('{"token":"","\\\\":""}');
    for (const body of wrong)
      expect(await errorOf(ask(url, 'POST', JSON_TYPE, body))).toEqual([400, 'bad_request']);
    expect(await errorOf(ask(url, 'POST', JSON_TYPE, ' '.repeat(5_000)))).toEqual([
      ...[413, 'payload_too_large'],
    ]);
    expect(await errorOf(ask(url, 'POST', {}, '{"token":""}'))).toEqual([
      ...[415, 'unsupported_media_type'],
    ]);
    await until(async () => (await signIn(TOKEN)).status === 200, 'a sign-in');
    const tries = await Promise.all(Array.from({ length: 40 }, () => signIn('wrong')));
    const statuses = tries.map(({ status }) => status);
    expect(new Set(statuses)).toEqual(new Set([401, 429]));
    expect(statuses.filter((status) => status === 401).length).toBeLessThan(20);
    for (const { headers, status } of tries)
      if (status === 429) expect(headers['retry-after']).toBe('1');
    await until(async () => (await signIn(TOKEN)).status === 200, 'a sign-in');
  });
});

test.runIf(process.platform === 'linux')(
  'a flood of tries from one address does not keep the right token from another out',
  async () => {
    const flood = Promise.all(Array.from({ length: 200 }, () => signInFrom('127.0.0.9', 'wrong')));
    const tries = Array.from({ length: 5 }, () => signInFrom('127.0.0.8', TOKEN));
    expect(await Promise.all(tries)).toEqual(Array(5).fill(200));
    expect(new Set(await flood)).toEqual(new Set([401, 429]));
  },
);

async function signInFrom(localAddress: string, token: string): Promise<number> {
  const url = `${guarded.opsUrl}/console/session`;
  return (await ask(url, 'POST', JSON_TYPE, JSON.stringify({ token }), localAddress)).status;
}

test.each([
  ['two Host headers', ['Host: localhost', 'Host: localhost'], 400],
  ['a Host with a blank', ['Host: local host'], 400],
  ['two content types', ['Host: localhost', 'Content-Type: application/json'], 415],
])('%s are not taken', async (_, headers, status) => {
  const head = ['POST /console/session HTTP/1.1', 'Connection: close', ...headers];
  head.push('Content-Type: application/json', 'Content-Length: 13');
  const bytes = `${head.join('\r\n')}\r\n\r\n{"token":"x"}`;
  const received = await rawExchange({ ...guarded, url: guarded.opsUrl }, bytes);
  expect(Number(received.split(' ')[1])).toBe(status);
});

describe('what a page of another site has a browser read', () => {
  const READ = ['/console/state', '/console/events', '/console/requests'];
  const statusOf = async (path: string, headers: Record<string, string>) => {
    const sent = { host: 'localhost:9464', ...headers };
    return (await ask(bare.opsUrl + path, path === READ[1] ? 'HEAD' : 'GET', sent)).status;
  };

  test.each([
    { 'sec-fetch-site': 'cross-site', 'sec-fetch-mode': 'no-cors' },
    { 'sec-fetch-site': 'same-site', 'sec-fetch-mode': 'cors' },
    { 'sec-fetch-site': 'cross-site', 'sec-fetch-mode': 'navigate', 'sec-fetch-dest': 'iframe' },
    { origin: 'http://localhost:3000' },
  ])('is refused: %j', async (headers) => {
    for (const path of READ) {
      expect(await statusOf(path, headers as Record<string, string>)).toBe(403);
    }
  });

  test.each([
    {},
    { 'sec-fetch-site': 'same-origin', 'sec-fetch-mode': 'cors' },
    { 'sec-fetch-site': 'none', 'sec-fetch-mode': 'navigate', 'sec-fetch-dest': 'document' },
    { 'sec-fetch-site': 'cross-site', 'sec-fetch-mode': 'navigate', 'sec-fetch-dest': 'document' },
  ])(
    'but a program, the page itself, the address bar and a link are answered: %j',
    async (headers) => {
      for (const path of READ) {
        expect(await statusOf(path, headers as Record<string, string>)).toBe(200);
      }
    },
  );
});

describe('what a page of another site has a browser send', () => {
  const POSTS = ['/console/session', '/console/playground/tokenize'];
  const host = 'localhost:9464';

  test.each([
    { origin: 'https://evil.example' },
    { origin: 'null' },
    { origin: 'http://localhost:3000' },
    { origin: 'https://localhost:9464' },
    { origin: 'http://localhost:9464.evil.example' },
    { 'sec-fetch-site': 'cross-site' },
    { 'sec-fetch-site': 'same-site' },
    { 'sec-fetch-site': 'none' },
    { 'sec-fetch-site': 'cross-site', origin: 'http://localhost:9464' },
  ])('does nothing: %j', async (headers) => {
    for (const path of POSTS) {
      const sent = { host, ...JSON_TYPE, ...(headers as Record<string, string>) };
      const { status, text } = await ask(bare.opsUrl + path, 'POST', sent, '{"data":{}}');
      expect([status, JSON.parse(text).error]).toEqual([403, 'cross_origin']);
    }
  });

  test.each(['text/plain', 'application/x-www-form-urlencoded', 'multipart/form-data', ''])(
    'is not taken as %j, which needs no leave of us',
    async (type) => {
      for (const path of POSTS) {
        const headers = { host, ...(type && { 'content-type': type }) };
        const { status } = await ask(bare.opsUrl + path, 'POST', headers, '{"token":"x"}');
        expect(status).toBe(415);
      }
    },
  );

  test('and the page itself may', async () => {
    const own = { host, origin: `http://${host}`, 'sec-fetch-site': 'same-origin', ...JSON_TYPE };
    const url = `${bare.opsUrl}/console/session`;
    expect((await ask(url, 'POST', own, '{"token":"x"}')).status).toBe(204);
    // A proxy with TLS may have put another Host in its place.
    const { 'sec-fetch-site': site, ...inClear } = own;
    const proxied = { ...inClear, origin: 'https://ops.example', 'sec-fetch-site': site };
    expect((await ask(url, 'POST', inClear, '{"token":"x"}')).status).toBe(204);
    expect((await ask(url, 'POST', proxied, '{"token":"x"}')).status).toBe(204);
  });
});

describe('sessions', () => {
  const HOUR_MS = 3_600_000;
  const OPTIONS = { name: 'console', durationMs: 12 * HOUR_MS, isSecure: false } as const;
  /** What a handler does with a request that has these headers. */
  async function handled<T>(headers: Record<string, string>, act: (c: OpsContext) => T) {
    let result: T | undefined;
    const app = new Hono<OpsEnv>().get('/', (c) => {
      result = act(c);
      return c.body(null);
    });
    const response = await app.request('/', { headers }, { incoming: { headers } } as never);
    return { result: result as T, cookie: response.headers.get('set-cookie') };
  }
  const begun = async (sessions: Sessions<true>) => {
    const { result, cookie } = await handled({}, (c) => sessions.begin(c, true));
    const text = JSON.stringify(result);
    return sessionIn('console', { headers: { 'set-cookie': cookie! }, text });
  };
  const find = async (sessions: Sessions<true>, headers: Record<string, string>) =>
    (await handled(headers, (c) => sessions.find(c))).result;

  test('end after 12 hours, and are at most 100: the oldest goes', async () => {
    let nowMs = 0;
    const sessions = new Sessions<true>(OPTIONS, () => nowMs);
    const first = await begun(sessions);
    nowMs = 12 * HOUR_MS - 1;
    expect(await find(sessions, first)).toBe(true);
    const second = await begun(sessions);
    nowMs++;
    expect([await find(sessions, first), await find(sessions, second)]).toEqual([undefined, true]);
    for (let i = 0; i < 99; i++) await begun(sessions);
    expect(await find(sessions, second)).toBe(true);
    await begun(sessions);
    expect(await find(sessions, second)).toBe(undefined);
  });

  test('are found by their cookie, whatever other cookies the host has', async () => {
    const sessions = new Sessions<true>(OPTIONS);
    const { cookie, ...secret } = await begun(sessions);
    const found = async (text: string) =>
      (await find(sessions, { ...secret, cookie: text })) === true;
    const alike = 'my_standin_console=1';
    for (const text of [`a=1; ${cookie}`, `${cookie};a=${cookie}`, `${alike}; ${cookie}; ${alike}`])
      expect([text, await found(text)]).toEqual([text, true]);
    for (const text of ['', ';', `my_${cookie}`, `a=${cookie}`, `${cookie}1`, 'standin_console='])
      expect([text, await found(text)]).toEqual([text, false]);
  });

  test('are tried to be begun five times at once, then twice a second', () => {
    let nowMs = 0;
    const ofAddresses = new Tries(() => nowMs);
    const tries = (address = '10.0.0.1') =>
      Array.from({ length: 10 }, () => ofAddresses.take(address)).filter(Boolean).length;
    expect(tries()).toBe(5);
    expect(tries('10.0.0.2')).toBe(5);
    nowMs += 1_000;
    expect(tries()).toBe(2);
    nowMs += HOUR_MS;
    expect(tries()).toBe(5);
    // Of the addresses beyond a thousand, the one that tried last is remembered longest.
    for (let i = 0; i < 999; i++) expect(ofAddresses.take(`10.1.${i}`)).toBe(true);
    expect(tries()).toBe(0);
    for (let i = 0; i < 1_000; i++) expect(ofAddresses.take(`10.2.${i}`)).toBe(true);
    expect(tries()).toBe(5);
  });
});
