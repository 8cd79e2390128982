import { join } from 'node:path';
import { afterAll, beforeAll, expect, onTestFinished, test } from 'vitest';
import { Standin } from '#client';
import { readAudit } from '../support/audit.ts';
import { send } from '../support/http.ts';
import { changed, IssuerStandIn, SUBJECT } from '../support/issuer.ts';
import { startWithOps } from '../support/ops.ts';
import { logLine, served } from '../support/served.ts';
import {
  call,
  leastPrivilegePlace,
  runCli,
  runJson,
  type Service,
  scrape,
  startService,
  until,
} from '../support/service.ts';

let issuer: IssuerStandIn;
let clientId: string;
const service = served(async () => {
  issuer = await IssuerStandIn.start();
  const place = await leastPrivilegePlace();
  return startWithOps(place, { ...issuer.env, AUDIT_LOG: 'audit.log' });
});
beforeAll(async () => {
  const made = await command('client', 'create', '--name', 'jobs', '--subject', SUBJECT);
  expect(made.api_key).toBeNull();
  clientId = made.client_id;
  await becomes(await issuer.jwt(), 200);
});
afterAll(() => issuer.stop());

const command = (...args: string[]) => runJson(service.place, ...args);
const updateJobs = (...args: string[]) => command('client', 'update', 'jobs', ...args);
const statusOf = async (
  jwt: string,
  at: Service = service,
  operation: 'tokenize' | 'detokenize' = 'tokenize',
) => (await call(at, operation, {}, jwt)).status;
const becomes = (jwt: string, status: number, at?: Service) =>
  until(async () => (await statusOf(jwt, at)) === status, `${status}`, 20_000);

/** Another node of the vault. */
async function startNode(env: Record<string, string>): Promise<Service> {
  const node = await startService(service.place, env);
  onTestFinished(() => node.stop());
  return node;
}

test('a JWT is its client: same tokens as by an API key, log, audit line, count and last use', async () => {
  const jwt = await issuer.jwt();
  const { api_key: apiKey } = await command('api-key', 'issue', '--client', 'jobs');
  const byJwt = await call(service, 'tokenize', { name: 'Ann' }, jwt);
  const byKey = await call(service, 'tokenize', { name: 'Ann' }, apiKey);
  expect(byJwt.body).toMatchObject({ data: byKey.body.data, client_id: clientId });
  const id = byJwt.body.request_id;
  const audited = () =>
    readAudit(join(service.place.folder, 'audit.log')).lines.find((one) => one.request_id === id);
  await until(() => audited() !== undefined, 'the audit line');
  expect(audited()).toMatchObject({ outcome: 'success', client_id: clientId, subject: SUBJECT });
  expect(audited()).not.toHaveProperty('api_key_id');
  expect(await logLine(service, id)).toMatchObject({ client_id: clientId, status: 200 });
  const counts = await scrape(service.opsUrl!, 'standin_client_requests_total');
  expect(counts[`client_id="${clientId}"`]).toBeGreaterThan(1);
  for (const part of jwt.split('.')) expect(service.output()).not.toContain(part);
  const jobs = async () =>
    (await command('client', 'list')).find((one: any) => one.name === 'jobs');
  await until(async () => (await jobs()).last_used_at !== null, 'the last use');
  expect(await jobs()).toMatchObject({ subject: SUBJECT });
});

test('what is refused is refused as an unknown API key, whatever the body', async () => {
  const refusalOf = async (credential: string) => {
    const authorization = `Bearer ${credential}`;
    const { status, text, headers } = await send(service, '/api/v1/tokenize', '{', {
      authorization,
    });
    return [status, text, headers.get('www-authenticate')];
  };
  const unknown = await refusalOf('stk_m0sdE2c65u3jXhNXPMSFFMbCJjRX4C5AqR');
  expect(unknown[0]).toBe(401);
  const jwt = await issuer.jwt();
  for (const wrong of [
    changed(jwt, ([head, body]) => [head!, body!, 'A'.repeat(86)]),
    await issuer.jwt({ aud: 'other' }),
    await issuer.jwt({ sub: 'nobody' }),
    await issuer.jwt({ exp: 1 }),
    'a.b.c',
  ])
    expect(await refusalOf(wrong)).toEqual(unknown);
  expect(await statusOf(await issuer.jwt({ padding: 'x'.repeat(8_000) }))).toBe(401);
});

test('the client sends it, and asks for a new one when it has a function', async () => {
  const jwts = [issuer.jwt({ jti: '1' }), issuer.jwt({ jti: '2' })];
  const asking = new Standin({ url: service.url, apiKey: () => jwts.shift()! });
  const { name } = await asking.tokenize({ name: 'Ann' });
  expect(await asking.detokenize({ name })).toEqual({ name: 'Ann' });
  const fixed = new Standin({ url: service.url, apiKey: await issuer.jwt() });
  expect(await fixed.detokenize({ name })).toEqual({ name: 'Ann' });
});

test('a command takes one in place of an API key', async () => {
  const env = { STANDIN_URL: service.url, STANDIN_API_KEY: await issuer.jwt() };
  const { code, stdout } = await runCli(['tokenize', 'Ann'], service.place, env);
  expect([code, stdout]).toEqual([0, expect.stringMatching(/_tok\n$/)]);
});

test('its rights and limits are those of the client, and it ends with the client or its subject', async () => {
  const jwt = await issuer.jwt();
  await updateJobs('--can', 'detokenize');
  await becomes(jwt, 403);
  expect(await statusOf(jwt, service, 'detokenize')).toBe(200);
  await updateJobs('--can', 'tokenize,detokenize', '--rate-limit=0.001');
  await becomes(jwt, 429);
  await updateJobs('--rate-limit', '0');
  await becomes(jwt, 200);
  await command('client', 'disable', 'jobs');
  await becomes(jwt, 401);
  await updateJobs('--enable');
  await becomes(jwt, 200);
  await updateJobs('--subject', 'none');
  await becomes(jwt, 401);
  await updateJobs('--subject', 'other');
  await becomes(await issuer.jwt({ sub: 'other' }), 200);
  expect(await statusOf(jwt)).toBe(401);
  await updateJobs('--subject', SUBJECT);
  await becomes(jwt, 200);
});

test('a subject is of one client', async () => {
  const refused = async (...args: string[]) => {
    const { code, stderr } = await runCli(['client', ...args], service.place);
    expect(code).toBe(1);
    return stderr;
  };
  const problem = /^standin: Another client has the subject spiffe:/;
  expect(await refused('create', '--name', 'more', '--subject', SUBJECT)).toMatch(problem);
  await command('client', 'create', '--name', 'more', '--subject', 'more');
  expect(await refused('update', 'more', '--subject', SUBJECT)).toMatch(problem);
  await updateJobs('--subject', SUBJECT);
});

test('a node that starts without its issuer serves API keys, and JWTs of the required type when the issuer is there', async () => {
  issuer.stop();
  const late = await startNode({ ...issuer.env, JWT_TYPE: 'at+jwt' });
  const typed = () => issuer.jwt({}, { typ: 'at+jwt' });
  const doctor = async () => (await runCli(['doctor'], service.place, issuer.env)).stdout;
  expect(await doctor()).toMatch(/^PROBLEM +jwt issuer: .*ECONNREFUSED\)\. Check JWT_ISSUER/m);
  const key = await command('api-key', 'issue', '--client', 'jobs');
  expect(await statusOf(key.api_key, late)).toBe(200);
  const { status, body } = await call(late, 'tokenize', {}, await typed());
  expect([status, body.message]).toEqual([500, 'keys of JWT_ISSUER unavailable']);
  expect(late.output()).toContain('the keys of JWT_ISSUER cannot be fetched');
  await issuer.open();
  await becomes(await typed(), 200, late);
  expect(await statusOf(await issuer.jwt(), late)).toBe(401);
  expect(await doctor()).toMatch(/^ok +jwt issuer: http.* gives its key$/m);
});

test('without JWT_ISSUER, a JWT is an unknown API key, and no issuer is asked', async () => {
  const plain = await startNode({});
  const asked = issuer.asked.length;
  expect(await statusOf(await issuer.jwt(), plain)).toBe(401);
  expect(issuer.asked).toHaveLength(asked);
});
