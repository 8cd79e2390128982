import { describe, expect, onTestFinished, test } from 'vitest';
import { ADMIN_SETTING, ADMIN_TOKEN, admin, adminPlace } from '../support/admin.ts';
import { readAudit } from '../support/audit.ts';
import {
  ask,
  bearer,
  JSON_TYPE,
  type OpsService,
  refusalIn,
  servedOps,
  sessionIn,
} from '../support/ops.ts';
import { ownPlace, ownService } from '../support/own.ts';
import { freePort } from '../support/processes.ts';
import {
  kinds,
  leastPrivilegePlace,
  type Place,
  runCli,
  until,
  usualPlace,
} from '../support/service.ts';
import { hasOpenssl, NAMES, startTls, tlsCall } from '../support/tls.ts';
import { sql } from '../support/vault.ts';

type Headers = Readonly<Record<string, string>>;
const LOCAL = expect.stringMatching(/^127\.0\.0\.\d+$/);
const isLinux = process.platform === 'linux';

/** One operation of each kind. */
const OPERATIONS = [
  ...['GET /openapi.json', 'GET /clients', 'PUT /clients/billing', 'POST /clients/first/api-keys'],
  ...['DELETE /api-keys/key_000000000000', 'PUT /policy', 'POST /forget', 'POST /lookup'],
  ...['POST /keyring/rotate', 'GET /nothing'],
].map((one) => one.split(' ') as [method: string, path: string]);

async function started(place: Place, env: Record<string, string> = {}): Promise<OpsService> {
  onTestFinished(place.remove);
  return ownService(place, env);
}

test('without ADMIN_TOKEN, no path of it exists, whatever is sent', async () => {
  const { opsUrl } = await started(await usualPlace());
  const ofConsole = ['session', 'ticket'].map((one) => ['POST', `/console/admin/${one}`] as const);
  const all = OPERATIONS.map(([method, path]) => [method, `/admin/v1${path}`] as const);
  for (const [method, path] of [...all, ...ofConsole]) {
    const { status } = await ask(opsUrl + path, method, bearer(ADMIN_TOKEN));
    expect([method, path, status]).toEqual([method, path, 404]);
  }
});

describe('with ADMIN_TOKEN', () => {
  const OPS_TOKEN = 'a-token-for-the-ops-listener';
  const at = servedOps(
    ({ folder }) => ({ OPS_TOKEN, AUDIT_LOG: `${folder}/audit.log` }),
    adminPlace,
  );
  const audited = () => readAudit(`${at.service.place.folder}/audit.log`).lines;
  const SESSION = '/console/admin/session';

  const list = (token: string, from?: string) =>
    at.ask('/admin/v1/clients', 'GET', bearer(token), undefined, from);
  const signIn = (token: string, from?: string, headers: Headers = {}) => {
    const all = { ...bearer(OPS_TOKEN), ...JSON_TYPE, ...headers };
    return at.ask(SESSION, 'POST', all, JSON.stringify({ token }), from);
  };

  test.each(OPERATIONS)('%s %s is 401 without the token', async (method, path) => {
    const wrong: Headers[] = [{}, { cookie: `standin_console=${ADMIN_TOKEN}` }];
    for (const headers of [...wrong, { authorization: `Basic ${ADMIN_TOKEN}` }]) {
      const answer = await at.ask(`/admin/v1${path}`, method, headers);
      expect(refusalIn(answer)).toEqual([401, 'unauthorized']);
      expect(answer.headers['www-authenticate']).toBe('Bearer realm="standin admin"');
    }
  });

  test('the token of the listener is none, nor is it one of the listener', async () => {
    expect((await list(OPS_TOKEN)).status).toBe(401);
    expect((await at.ask('/console/state', 'GET', bearer(ADMIN_TOKEN))).status).toBe(401);
  });

  test('each administrator has a token, which may have its name before it', async () => {
    for (const named of ADMIN_SETTING.split(',')) {
      const [name, token] = named.split(':') as [string, string];
      for (const sent of [token, named]) {
        const { status, headers } = await list(sent);
        expect(status).toBe(200);
        const isIts = (line: any) =>
          line.admin === name && line.request_id === headers['x-request-id'];
        await until(() => audited().some(isIts), `the audit line of ${name}`);
      }
    }
  });

  const signInToListener = (token: string, from?: string) =>
    at.ask('/console/session', 'POST', JSON_TYPE, JSON.stringify({ token }), from);
  test.runIf(isLinux).each([
    ['the admin API', '127.0.0.22', ADMIN_TOKEN, list],
    ['the sign-in of an administrator', '127.0.0.24', ADMIN_TOKEN, signIn],
    ['the sign-in to the listener', '127.0.0.26', OPS_TOKEN, signInToListener],
  ])(
    'guesses at %s are slowed by address, and the right token of another address is not',
    async (name, from, right, send) => {
      const guesses = Array.from({ length: 40 }, (_, i) => send(right.slice(0, -2) + i, from));
      expect((await send(right, '127.0.0.29')).status).toBe(200);
      const outcomes = (await Promise.all(guesses)).map(
        ({ status, headers }) => `${status} ${headers['retry-after']}`,
      );
      expect(new Set(outcomes)).toEqual(new Set(['401 undefined', '429 1']));
      await until(async () => (await send(right, from)).status === 200, 'an attempt');
      if (name.endsWith('listener')) return;
      const isSum = (line: any) => line.remote_address === from && line.outcome === 'too_many';
      await until(() => audited().some(isSum), 'the sums of the guesses');
    },
  );

  describe('a browser', () => {
    test('signs in after the sign-in of the listener, and from its own page only', async () => {
      const from = (headers: Headers) => signIn(ADMIN_TOKEN, undefined, headers);
      expect((await from({ authorization: '' })).status).toBe(401);
      expect((await from({ 'sec-fetch-site': 'cross-site' })).status).toBe(403);
      const { status, headers } = await from({});
      const cookie = /^standin_admin=[\w-]{43}; Max-Age=3600; /;
      expect([status, `${headers['set-cookie']}`]).toEqual([200, expect.stringMatching(cookie)]);
      const isSignIn = ({ act, admin: name }: any) =>
        act === 'session.begin' && name === 'terraform';
      await until(() => audited().some(isSignIn), 'the audit line of the sign-in');
      const line = { outcome: 'success', status: 200, target: null, remote_address: LOCAL };
      expect(audited().find(isSignIn)).toMatchObject(line);
    });

    test('has one session: the next sign-in ends it, and so does a sign-out', async () => {
      const nameOf = async (headers: Headers) =>
        JSON.parse((await at.ask(SESSION, 'GET', { ...bearer(OPS_TOKEN), ...headers })).text).name;
      const first = sessionIn('admin', await signIn(ADMIN_TOKEN));
      const other = sessionIn('admin', await signIn(ADMIN_TOKEN));
      const next = sessionIn('admin', await signIn(ADMIN_TOKEN, undefined, first));
      const names = async () => [await nameOf(first), await nameOf(next), await nameOf(other)];
      expect(await names()).toEqual([null, 'terraform', 'terraform']);
      const signedOut = await at.ask(SESSION, 'DELETE', { ...bearer(OPS_TOKEN), ...next });
      expect([signedOut.status, `${signedOut.headers['set-cookie']}`]).toEqual([
        ...[204, expect.stringMatching(/Age=0/)],
      ]);
      expect(await names()).toEqual([null, null, 'terraform']);
    });

    test('acts with a ticket, once, and a program not at all with its session', async () => {
      const signedIn = sessionIn('admin', await signIn(ADMIN_TOKEN));
      const { cookie } = signedIn;
      const site = { 'sec-fetch-site': 'same-origin' };
      const own = { ...signedIn, ...site };
      const send = (headers: Headers) =>
        at.ask('/admin/v1/lookup', 'POST', { ...JSON_TYPE, ...headers }, '{"values":[]}');
      const act = async (headers: Headers) => (await send(headers)).status;
      const askTicket = (headers: Headers) =>
        at.ask('/console/admin/ticket', 'POST', { ...bearer(OPS_TOKEN), ...headers });
      const ticketOf = async () => ({
        'standin-ticket': JSON.parse((await askTicket(own)).text).ticket as string,
      });
      for (const origin of [{}, { origin: at.service.opsUrl.replace('http', 'https') }])
        expect((await askTicket({ ...signedIn, ...origin })).status).toBe(403);
      const ticket = await ticketOf();
      expect(await act({ ...signedIn, ...ticket })).toBe(403);
      expect(await act({ cookie, ...site, ...ticket })).toBe(401);
      expect(await act({ ...own, 'sec-fetch-site': 'same-site', ...ticket })).toBe(403);
      expect(await act(own)).toBe(403);
      const done = await send({ ...own, ...ticket });
      expect(done.status).toBe(200);
      const isIts = (line: any) =>
        line.request_id === done.headers['x-request-id'] && line.outcome === 'success';
      await until(() => audited().some(isIts), 'its audit line');
      expect(audited().find(isIts).admin).toBe('terraform');
      expect(await act({ ...own, ...ticket })).toBe(403);
      const [older, old] = [await ticketOf(), await ticketOf()];
      for (let i = 0; i < 19; i++) await ticketOf();
      expect([await act({ ...own, ...older }), await act({ ...own, ...old })]).toEqual([403, 200]);
      // The ticket of another session is none.
      const other = sessionIn('admin', await signIn(ADMIN_TOKEN));
      expect(await act({ ...own, ...other, ...(await ticketOf()) })).toBe(403);
      expect(await act({ ...own, cookie: other.cookie, ...(await ticketOf()) })).toBe(401);
    });
  });

  test('another Host is refused before the token is looked at', async () => {
    const host = { ...bearer(ADMIN_TOKEN), host: 'two names' };
    expect((await at.ask('/admin/v1/clients', 'GET', host)).status).toBe(400);
  });
});

describe.skipIf(!kinds().includes('server'))('the role of the service', () => {
  const send = async ({ opsUrl }: OpsService, ...call: [string, string, object?]) => {
    const { status, body } = await admin(opsUrl, ...call);
    return [status, body.error, body.message];
  };

  test('may not make clients: the answer says which setting is missing', async () => {
    const service = await started(await leastPrivilegePlace(), { ADMIN_TOKEN: ADMIN_SETTING });
    expect(await send(service, 'GET', '/clients')).toContain(200);
    for (const [method, path, body] of [
      ['PUT', '/clients/x', {}],
      ['POST', '/clients/first/api-keys', {}],
      ['PUT', '/policy', { document: 'version: 1\n' }],
      ['POST', '/keyring/rotate', {}],
    ] as const)
      expect(await send(service, method, path, body)).toEqual([
        ...[403, 'not_allowed', expect.stringContaining('ADMIN_DATABASE_URL')],
      ]);
    // It may forget, as it revives what expired.
    expect(await send(service, 'POST', '/forget', { tokens: ['x_tok'] })).toContain(200);
  });

  test('and that of another vault is not taken', async () => {
    const other = await ownPlace('server');
    expect((await runCli(['migrate'], other)).code).toBe(0);
    const ADMIN_DATABASE_URL = other.env.DATABASE_URL!;
    const env = { ADMIN_TOKEN: ADMIN_SETTING, ADMIN_DATABASE_URL };
    const service = await started(await leastPrivilegePlace(), env);
    expect(await send(service, 'PUT', '/clients/x', {})).toEqual([
      ...[500, 'internal_error', expect.stringContaining('another vault')],
    ]);
  });

  test('and that of the admin API, which could not sign in once, is asked again', async () => {
    const place = await adminPlace();
    const { username } = new URL(place.service!.env.ADMIN_DATABASE_URL!);
    await sql(place, `alter role "${username}" nologin`);
    const service = await started(place);
    expect(await send(service, 'PUT', '/clients/x', {})).toContain(500);
    await sql(place, `alter role "${username}" login`);
    expect(await send(service, 'PUT', '/clients/x', {})).toContain(201);
  });

  test('and that of the admin API are two', async () => {
    const place = await ownPlace('server');
    const granting = ['migrate', '--grant-to', 'x', '--grant-admin-to', 'x'];
    const { code, stderr } = await runCli(granting, place);
    expect([code, stderr]).toEqual([1, expect.stringContaining('need two roles')]);
  });
});

test.skipIf(!hasOpenssl)(
  'with OPS_TLS, the ops listener, beyond the loopback, speaks the certificate of the service',
  async () => {
    const port = String(await freePort());
    const ops = { OPS_HOST: '0.0.0.0', OPS_PORT: port, OPS_TOKEN: 'a'.repeat(16), OPS_TLS: 'true' };
    const tls = await startTls(NAMES, () => ({ ...ops, ADMIN_TOKEN: ADMIN_SETTING }));
    onTestFinished(() => tls.service.stop());
    const url = `https://127.0.0.1:${port}`;
    expect(tls.service.opsUrl).toBe(`https://0.0.0.0:${port}`);
    const caller = { ...tls.service, url, api_key: ADMIN_TOKEN };
    const { status, body } = await tlsCall(caller, '/admin/v1/clients', tls.trusting);
    expect([status, body.clients.length]).toEqual([200, 1]);
    // Its page is of https. The body is no sign-in.
    const signIn = async (origin: string) =>
      (await tlsCall(caller, '/console/session', tls.trusting, {}, { origin })).status;
    expect(await signIn(url)).toBe(400);
    expect(await signIn(url.replace('https', 'http'))).toBe(403);
    await expect(ask(`http://127.0.0.1:${port}/admin/v1/clients`)).rejects.toThrow();
  },
);
