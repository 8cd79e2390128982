import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest';
import { ADMIN_SETTING, ADMIN_TOKEN, admin, adminPlace } from '../support/admin.ts';
import { readAudit } from '../support/audit.ts';
import { ask, type OpsService, sessionIn, startWithOps } from '../support/ops.ts';
import {
  kinds,
  leastPrivilegePlace,
  newPlace,
  type Place,
  runCli,
  until,
  usualPlace,
} from '../support/service.ts';
import { hasOpenssl, NAMES, startTls, tlsCall } from '../support/tls.ts';
import { sql } from '../support/vault.ts';

/** With the method and path of one operation of each kind. */
const OPERATIONS = [
  ['GET', '/openapi.json'],
  ['GET', '/clients'],
  ['PUT', '/clients/billing'],
  ['POST', '/clients/first/api-keys'],
  ['DELETE', '/api-keys/key_000000000000'],
  ['PUT', '/policy'],
  ['POST', '/forget'],
  ['POST', '/lookup'],
  ['POST', '/keyring/rotate'],
  ['GET', '/nothing'],
] as const;

async function started(place: Place, env: Record<string, string> = {}): Promise<OpsService> {
  const service = await startWithOps(place, env);
  onTestFinished(async () => {
    await service.stop();
    place.remove();
  });
  return service;
}

test('without ADMIN_TOKEN, no path of it exists, whatever is sent', async () => {
  const { opsUrl } = await started(await usualPlace());
  for (const [method, path] of OPERATIONS) {
    const { status } = await ask(`${opsUrl}/admin/v1${path}`, method, {
      authorization: `Bearer ${ADMIN_TOKEN}`,
    });
    expect([method, path, status]).toEqual([method, path, 404]);
  }
  for (const path of ['/console/admin/session', '/console/admin/ticket'])
    expect((await ask(opsUrl + path, 'POST')).status).toBe(404);
});

describe('with ADMIN_TOKEN', () => {
  const OPS_TOKEN = 'a token for the ops listener'.replaceAll(' ', '-');
  let service: OpsService;
  let auditFile: string;
  beforeAll(async () => {
    const place = await adminPlace();
    auditFile = `${place.folder}/audit.log`;
    service = await startWithOps(place, { OPS_TOKEN, AUDIT_LOG: auditFile });
  });
  afterAll(async () => {
    await service.stop();
    expect(service.output()).not.toContain(ADMIN_TOKEN);
    service.place.remove();
  });

  /** From an address of the test's own: wrong tokens slow an address. */
  const askFrom = (localAddress: string, headers: Record<string, string>) =>
    ask(`${service.opsUrl}/admin/v1/clients`, 'GET', headers, undefined, localAddress);
  const bearer = (token: string) => ({ authorization: `Bearer ${token}` });

  test.each(OPERATIONS)('%s %s is 401 without the token', async (method, path) => {
    for (const headers of [
      {},
      { cookie: `standin_console=${ADMIN_TOKEN}` },
      { authorization: `Basic ${ADMIN_TOKEN}` },
    ]) {
      const url = `${service.opsUrl}/admin/v1${path}`;
      const answer = await ask(url, method, headers as Record<string, string>);
      expect([answer.status, JSON.parse(answer.text).error]).toEqual([401, 'unauthorized']);
      expect(answer.headers['www-authenticate']).toBe('Bearer realm="standin admin"');
    }
  });

  test.runIf(process.platform === 'linux')('the token of the listener is none', async () => {
    const { status } = await askFrom('127.0.0.21', bearer(OPS_TOKEN));
    expect(status).toBe(401);
    // And the other way round.
    const state = await ask(`${service.opsUrl}/console/state`, 'GET', bearer(ADMIN_TOKEN));
    expect(state.status).toBe(401);
  });

  test('each administrator has a token, which may have its name before it', async () => {
    const [[, first], [, second]] = ADMIN_SETTING.split(',').map((one) => one.split(':')) as any;
    const sent = [`terraform:${first}`, first, second, `ann:${second}`];
    for (const [i, token] of sent.entries()) {
      const name = i < 2 ? 'terraform' : 'ann';
      const { status, headers } = await admin(service.opsUrl, 'GET', '/clients', undefined, {
        authorization: `bearer ${token}`,
      });
      expect(status).toBe(200);
      await until(
        () =>
          readAudit(auditFile).lines.some(
            (line) => line.admin === name && line.request_id === headers['x-request-id'],
          ),
        `the audit line of ${name}`,
      );
    }
  });

  test.runIf(process.platform === 'linux')(
    'guesses are slowed by address, and the right token is no way around that',
    async () => {
      const from = '127.0.0.22';
      const guesses = Array.from({ length: 40 }, (_, i) =>
        askFrom(from, bearer(ADMIN_TOKEN.slice(0, -2) + i)),
      );
      const answers = await Promise.all(guesses);
      const wrong = answers.filter(({ status }) => status === 401).length;
      expect(new Set(answers.map(({ status }) => status))).toEqual(new Set([401, 429]));
      expect(wrong).toBeLessThan(20);
      for (const { status, headers } of answers)
        if (status === 429) expect(headers['retry-after']).toBe('1');
      const other = await Promise.all(
        Array.from({ length: 20 }, () => askFrom('127.0.0.23', bearer(ADMIN_TOKEN))),
      );
      expect(new Set(other.map(({ status }) => status))).toEqual(new Set([200]));
      await until(
        async () => (await askFrom(from, bearer(ADMIN_TOKEN))).status === 200,
        'an attempt',
      );
      const isSum = (line: any) => line.event === 'admin' && line.remote_address === from;
      await until(
        () => readAudit(auditFile).lines.some((one) => isSum(one) && one.outcome === 'too_many'),
        'the sums of the guesses',
      );
    },
  );

  describe('a browser', () => {
    const session = (localAddress: string, token: string, headers: Record<string, string> = {}) => {
      const all = { ...bearer(OPS_TOKEN), 'content-type': 'application/json', ...headers };
      const url = `${service.opsUrl}/console/admin/session`;
      return ask(url, 'POST', all, JSON.stringify({ token }), localAddress);
    };

    test('signs in after the sign-in of the listener, and from its own page only', async () => {
      const none = { authorization: '' };
      expect((await session('127.0.0.1', ADMIN_TOKEN, none)).status).toBe(401);
      const foreign = { 'sec-fetch-site': 'cross-site' };
      expect((await session('127.0.0.1', ADMIN_TOKEN, foreign)).status).toBe(403);
      expect((await session('127.0.0.1', ADMIN_TOKEN)).status).toBe(200);
    });

    test('has one session: the next sign-in ends it, and so does a sign-out', async () => {
      const url = `${service.opsUrl}/console/admin/session`;
      const nameOf = async (headers: Record<string, string>) =>
        JSON.parse((await ask(url, 'GET', { ...bearer(OPS_TOKEN), ...headers })).text).name;
      const first = sessionIn('admin', await session('127.0.0.1', ADMIN_TOKEN));
      const other = sessionIn('admin', await session('127.0.0.1', ADMIN_TOKEN));
      const next = sessionIn('admin', await session('127.0.0.1', ADMIN_TOKEN, first));
      const names = async () => [await nameOf(first), await nameOf(next), await nameOf(other)];
      expect(await names()).toEqual([null, 'terraform', 'terraform']);
      const { status, headers } = await ask(url, 'DELETE', { ...bearer(OPS_TOKEN), ...next });
      expect([status, `${headers['set-cookie']}`]).toEqual([204, expect.stringMatching(/Age=0/)]);
      expect(await names()).toEqual([null, null, 'terraform']);
    });

    test.runIf(process.platform === 'linux')('is slowed by address when it guesses', async () => {
      const all = await Promise.all(
        Array.from({ length: 40 }, (_, i) => session('127.0.0.24', `wrong ${i}`)),
      );
      expect(new Set(all.map(({ status }) => status))).toEqual(new Set([401, 429]));
      expect((await session('127.0.0.25', ADMIN_TOKEN)).status).toBe(200);
    });

    test('acts with a ticket, once, and a program not at all with its session', async () => {
      const signedIn = sessionIn('admin', await session('127.0.0.1', ADMIN_TOKEN));
      const own = { ...signedIn, 'sec-fetch-site': 'same-origin' };
      const url = `${service.opsUrl}/admin/v1/lookup`;
      const act = async (headers: Record<string, string>) =>
        (
          await ask(
            url,
            'POST',
            { 'content-type': 'application/json', ...headers },
            '{"values":[]}',
          )
        ).status;
      const askTicket = (headers: Record<string, string>) => {
        const all = { ...bearer(OPS_TOKEN), ...headers };
        return ask(`${service.opsUrl}/console/admin/ticket`, 'POST', all);
      };
      const ticketOf = async () => {
        const { text } = await askTicket(own);
        return { 'standin-ticket': JSON.parse(text).ticket as string };
      };
      for (const origin of [{}, { origin: service.opsUrl.replace('http', 'https') }])
        expect((await askTicket({ ...signedIn, ...origin })).status).toBe(403);
      const ticket = await ticketOf();
      expect(await act({ ...signedIn, ...ticket })).toBe(403);
      const { cookie } = signedIn;
      expect(await act({ cookie, 'sec-fetch-site': 'same-origin', ...ticket })).toBe(401);
      expect(await act({ ...own, 'sec-fetch-site': 'same-site', ...ticket })).toBe(403);
      expect(await act(own)).toBe(403);
      expect(await act({ ...own, ...ticket })).toBe(200);
      expect(await act({ ...own, ...ticket })).toBe(403);
      const old = await ticketOf();
      for (let i = 0; i < 20; i++) await ticketOf();
      expect(await act({ ...own, ...old })).toBe(403);
      // The ticket of another session is none.
      const other = sessionIn('admin', await session('127.0.0.1', ADMIN_TOKEN));
      expect(await act({ ...own, ...other, ...(await ticketOf()) })).toBe(403);
      expect(await act({ ...own, cookie: other.cookie, ...(await ticketOf()) })).toBe(401);
    });
  });

  test('another Host is refused before the token is looked at', async () => {
    const { status } = await admin(service.opsUrl, 'GET', '/clients', undefined, {
      host: 'two names',
    });
    expect(status).toBe(400);
  });
});

describe.skipIf(!kinds().includes('server'))('the role of the service', () => {
  test('may not make clients: the answer says which setting is missing', async () => {
    const service = await started(await leastPrivilegePlace(), { ADMIN_TOKEN: ADMIN_SETTING });
    expect((await admin(service.opsUrl, 'GET', '/clients')).status).toBe(200);
    for (const [method, path, body] of [
      ['PUT', '/clients/x', {}],
      ['POST', '/clients/first/api-keys', {}],
      ['PUT', '/policy', { document: 'version: 1\n' }],
      ['POST', '/keyring/rotate', {}],
    ] as const) {
      const refused = await admin(service.opsUrl, method, path, body);
      expect([path, refused.status, refused.body.error]).toEqual([path, 403, 'not_allowed']);
      expect(refused.body.message).toContain('ADMIN_DATABASE_URL');
    }
    // It may forget, as it revives what expired.
    expect((await admin(service.opsUrl, 'POST', '/forget', { tokens: ['x_tok'] })).status).toBe(
      200,
    );
  });

  test('and that of another vault is not taken', async () => {
    const other = await newPlace('server');
    onTestFinished(() => other.remove());
    expect((await runCli(['migrate'], other)).code).toBe(0);
    const service = await started(await leastPrivilegePlace(), {
      ADMIN_TOKEN: ADMIN_SETTING,
      ADMIN_DATABASE_URL: other.env.DATABASE_URL!,
    });
    const refused = await admin(service.opsUrl, 'PUT', '/clients/x', {});
    expect([refused.status, refused.body.error]).toEqual([500, 'internal_error']);
    expect(refused.body.message).toContain('another vault');
  });

  test('and that of the admin API, which could not sign in once, is asked again', async () => {
    const place = await adminPlace();
    const { username } = new URL(place.service!.env.ADMIN_DATABASE_URL!);
    await sql(place, `alter role "${username}" nologin`);
    const service = await started(place);
    const put = async () => (await admin(service.opsUrl, 'PUT', '/clients/x', {})).status;
    expect(await put()).toBe(500);
    await sql(place, `alter role "${username}" login`);
    expect(await put()).toBe(201);
  });

  test('and that of the admin API are two', async () => {
    const place = await newPlace('server');
    onTestFinished(() => place.remove());
    const granting = ['migrate', '--grant-to', 'x', '--grant-admin-to', 'x'];
    const { code, stderr } = await runCli(granting, place);
    expect([code, stderr]).toEqual([1, expect.stringContaining('need two roles')]);
  });
});

describe.skipIf(!hasOpenssl)('with OPS_TLS', () => {
  test('the ops listener, beyond the loopback, speaks the certificate of the service', async () => {
    const { freePort } = await import('../support/processes.ts');
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
    for (const [origin, expected] of [
      [url, 400],
      [url.replace('https', 'http'), 403],
    ] as const) {
      const signIn = tlsCall(caller, '/console/session', tls.trusting, {}, { origin });
      expect([origin, (await signIn).status]).toEqual([origin, expected]);
    }
    await expect(ask(`http://127.0.0.1:${port}/admin/v1/clients`)).rejects.toThrow();
  });
});
