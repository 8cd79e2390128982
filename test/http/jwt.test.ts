import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { Standin } from '#client';
import { send } from '../support/http.ts';
import { changed, IssuerStandIn, SUBJECT } from '../support/issuer.ts';
import { freePort } from '../support/processes.ts';
import {
  call,
  leastPrivilegePlace,
  type Place,
  runCli,
  runJson,
  type Service,
  scrape,
  startService,
  until,
} from '../support/service.ts';

let issuer: IssuerStandIn;
let place: Place;
let service: Service;
let clientId: string;
beforeAll(async () => {
  issuer = await IssuerStandIn.start();
  place = await leastPrivilegePlace();
  service = await startService(place, {
    ...issuer.env,
    OPS_PORT: String(await freePort()),
    AUDIT_LOG: 'audit.log',
  });
  const made = await runJson(place, 'client', 'create', '--name', 'jobs', '--subject', SUBJECT);
  expect(made.api_key).toBeNull();
  clientId = made.client_id;
  await accepted(await issuer.jwt());
});
afterAll(async () => {
  await service.stop();
  issuer.stop();
  place.remove();
});

const statusOf = async (jwt: string, operation: 'tokenize' | 'detokenize' = 'tokenize') =>
  (await call(service, operation, {}, jwt)).status;

async function becomes(jwt: string, status: number): Promise<void> {
  await until(async () => (await statusOf(jwt)) === status, `${status}`, 20_000);
}
const accepted = (jwt: string) => becomes(jwt, 200);

test('a JWT is its client: same tokens as by an API key, log, audit line, count and last use', async () => {
  const jwt = await issuer.jwt();
  const { api_key: apiKey } = await runJson(place, 'api-key', 'issue', '--client', 'jobs');
  const byJwt = await call(service, 'tokenize', { name: 'Ann' }, jwt);
  const byKey = await call(service, 'tokenize', { name: 'Ann' }, apiKey);
  expect(byJwt.body).toMatchObject({ data: byKey.body.data, client_id: clientId });
  const id = byJwt.body.request_id;
  const auditLines = () => readFileSync(join(place.folder, 'audit.log'), 'utf8').split('\n');
  await until(() => auditLines().some((line) => line.includes(id)), 'the audit line');
  const line = JSON.parse(auditLines().find((one) => one.includes(id))!);
  expect(line).toMatchObject({ outcome: 'success', client_id: clientId, subject: SUBJECT });
  expect(line).not.toHaveProperty('api_key_id');
  const logLine = () =>
    service
      .output()
      .split('\n')
      .find((one) => one.includes(id));
  await until(() => logLine() !== undefined, 'the line of the log');
  expect(JSON.parse(logLine()!)).toMatchObject({ client_id: clientId, status: 200 });
  const counts = await scrape(service.opsUrl!, 'standin_client_requests_total');
  expect(counts[`client_id="${clientId}"`]).toBeGreaterThan(1);
  for (const part of jwt.split('.')) expect(service.output()).not.toContain(part);
  const lastUse = async () =>
    (await runJson(place, 'client', 'list')).find((one: any) => one.name === 'jobs');
  await until(async () => (await lastUse()).last_used_at !== null, 'the last use');
  expect(await lastUse()).toMatchObject({ subject: SUBJECT });
});

test('what is refused is refused as an unknown API key, whatever the body', async () => {
  const jwt = await issuer.jwt();
  const unknown = await send(service, '/api/v1/tokenize', '{', {
    authorization: 'Bearer stk_m0sdE2c65u3jXhNXPMSFFMbCJjRX4C5AqR',
  });
  const wrong = [
    changed(jwt, ([head, body]) => [head!, body!, 'A'.repeat(86)]),
    await issuer.jwt({ aud: 'other' }),
    await issuer.jwt({ sub: 'nobody' }),
    await issuer.jwt({ exp: 1 }),
    'a.b.c',
  ];
  for (const one of wrong) {
    const answer = await send(service, '/api/v1/tokenize', '{', { authorization: `Bearer ${one}` });
    expect([answer.status, answer.text]).toEqual([401, unknown.text]);
    expect(answer.headers.get('www-authenticate')).toBe(unknown.headers.get('www-authenticate'));
  }
  expect(await statusOf(await issuer.jwt({ padding: 'x'.repeat(8_000) }))).toBe(401);
});

test('the client sends it, and asks for a new one when it has a function', async () => {
  const jwts = [issuer.jwt({ jti: '1' }), issuer.jwt({ jti: '2' }), Promise.resolve('no\nkey')];
  const asking = new Standin({ url: service.url, apiKey: () => jwts.shift()! });
  const { name } = await asking.tokenize({ name: 'Ann' });
  expect(await asking.detokenize({ name })).toEqual({ name: 'Ann' });
  await expect(asking.tokenize({ name: 'Ann' })).rejects.toThrow(/^apiKey: must be .* or a JWT/);
  const failing = new Standin({
    url: service.url,
    apiKey: () => Promise.reject(new Error('away')),
  });
  await expect(failing.tokenize({ name: 'Ann' })).rejects.toThrow('away');
  const silent = new Standin({ url: service.url, apiKey: () => new Promise<string>(() => {}) });
  await expect(silent.tokenize({ a: 'b' }, { timeoutMs: 100 })).rejects.toThrow(/no answer within/);
  const fixed = new Standin({ url: service.url, apiKey: await issuer.jwt() });
  expect(await fixed.detokenize({ name })).toEqual({ name: 'Ann' });
});

test('a command takes one in place of an API key', async () => {
  const env = { STANDIN_URL: service.url, STANDIN_API_KEY: await issuer.jwt() };
  const { code, stdout } = await runCli(['tokenize', 'Ann'], place, env);
  expect([code, stdout]).toEqual([0, expect.stringMatching(/_tok\n$/)]);
});

test('its rights and limits are those of the client', async () => {
  const jwt = await issuer.jwt();
  await runJson(place, 'client', 'update', 'jobs', '--can', 'detokenize');
  await becomes(jwt, 403);
  expect(await statusOf(jwt, 'detokenize')).toBe(200);
  await runJson(
    place,
    'client',
    'update',
    'jobs',
    '--can',
    'tokenize,detokenize',
    '--rate-limit=0.001',
  );
  await becomes(jwt, 429);
  await runJson(place, 'client', 'update', 'jobs', '--rate-limit', '0');
  await accepted(jwt);
});

test('it stops when the client is disabled or its subject changes, and goes on after', async () => {
  const jwt = await issuer.jwt();
  await accepted(jwt);
  await runJson(place, 'client', 'disable', 'jobs');
  await becomes(jwt, 401);
  await runJson(place, 'client', 'update', 'jobs', '--enable');
  await accepted(jwt);
  await runJson(place, 'client', 'update', 'jobs', '--subject', 'none');
  await becomes(jwt, 401);
  await runJson(place, 'client', 'update', 'jobs', '--subject', 'other');
  await accepted(await issuer.jwt({ sub: 'other' }));
  expect(await statusOf(jwt)).toBe(401);
  await runJson(place, 'client', 'update', 'jobs', '--subject', SUBJECT);
  await accepted(jwt);
});

test('a subject is of one client', async () => {
  const problem = /^standin: Another client has the subject spiffe:/;
  const create = await runCli(['client', 'create', '--name', 'more', '--subject', SUBJECT], place);
  expect([create.code, create.stderr]).toEqual([1, expect.stringMatching(problem)]);
  await runJson(place, 'client', 'create', '--name', 'more', '--subject', 'more');
  const update = await runCli(['client', 'update', 'more', '--subject', SUBJECT], place);
  expect([update.code, update.stderr]).toEqual([1, expect.stringMatching(problem)]);
  await runJson(place, 'client', 'update', 'jobs', '--subject', SUBJECT);
  const wrong = await runCli(['client', 'update', 'more', '--subject', 'a\u202eb'], place);
  expect([wrong.code, wrong.stderr]).toEqual([
    1,
    expect.stringMatching(/^standin: The subject of a client cannot/),
  ]);
});

test('the issuer rotates its key, and then goes away: known keys serve', async () => {
  const before = await issuer.jwt();
  await issuer.rotate('RS256', 1);
  await accepted(await issuer.jwt());
  expect(await statusOf(before)).toBe(200);
  const doctor = async () => (await runCli(['doctor'], place, issuer.env)).stdout;
  expect(await doctor()).toMatch(/^ok +jwt issuer: http.* gives its 2 keys$/m);
  issuer.stop();
  expect(await doctor()).toMatch(/^PROBLEM +jwt issuer: .*ECONNREFUSED\)\. Check JWT_ISSUER/m);
  expect(await statusOf(await issuer.jwt())).toBe(200);
  await issuer.comeBack();
});

test('a node that starts without its issuer serves API keys, and JWTs when the issuer is there', async () => {
  issuer.stop();
  const late = await startService(place, issuer.env);
  const key = await runJson(place, 'api-key', 'issue', '--client', 'jobs');
  expect((await call(late, 'tokenize', {}, key.api_key)).status).toBe(200);
  const refused = await call(late, 'tokenize', {}, await issuer.jwt());
  expect([refused.status, refused.body.message]).toEqual([500, 'keys of JWT_ISSUER unavailable']);
  expect(late.output()).toContain('the keys of JWT_ISSUER cannot be fetched');
  await issuer.comeBack();
  const jwt = await issuer.jwt();
  await until(
    async () => (await call(late, 'tokenize', {}, jwt)).status === 200,
    'the keys',
    20_000,
  );
  await late.stop();
});

test('a node can require a type: an ID token of the same issuer is then no caller', async () => {
  const strict = await startService(place, { ...issuer.env, JWT_TYPE: 'at+jwt' });
  const statusOfType = async (typ: string) =>
    (await call(strict, 'tokenize', {}, await issuer.jwt({}, { typ }))).status;
  await until(async () => (await statusOfType('at+jwt')) === 200, 'the keys', 20_000);
  expect([await statusOfType('JWT'), await statusOfType('logout+jwt')]).toEqual([401, 401]);
  await strict.stop();
});

describe('without JWT_ISSUER', () => {
  test('a JWT is an unknown API key, and no issuer is asked', async () => {
    const plain = await startService(place);
    const asked = issuer.asked.length;
    const authorization = `Bearer ${await issuer.jwt()}`;
    const answer = await send(plain, '/api/v1/tokenize', '{"data":{}}', { authorization });
    expect([answer.status, answer.text]).toEqual([401, '{"error":"unauthorized"}\n']);
    expect(issuer.asked).toHaveLength(asked);
    await plain.stop();
  });
});
