import { readdirSync } from 'node:fs';
import { beforeAll, describe, expect, test } from 'vitest';
import { ADMIN_TOKEN, admin, adminAgreement, adminPlace } from '../support/admin.ts';
import { readAudit } from '../support/audit.ts';
import { bearer, JSON_TYPE, refusalIn, servedOps } from '../support/ops.ts';
import { held } from '../support/own.ts';
import { query } from '../support/postgres.ts';
import { call, runJson, until } from '../support/service.ts';

const at = servedOps(
  ({ folder }) => ({ AUDIT_LOG: `${folder}/audit.log`, AUDIT_REQUIRED: 'true' }),
  adminPlace,
);
const audited = () => readAudit(`${at.service.place.folder}/audit.log`).lines;
const run = (...args: string[]) => runJson(at.service.place, ...args);
let agreement: ReturnType<typeof adminAgreement>;
beforeAll(async () => {
  agreement = adminAgreement((await admin(at.service.opsUrl, 'GET', '/openapi.json')).body);
});

type Sent = [method: string, path: string, body?: unknown, headers?: Record<string, string>];
/** Each body and each answer is compared with the document. */
async function send(...[method, path, body, headers]: Sent) {
  const answer = await admin(at.service.opsUrl, method, path, body, headers);
  agreement.check(method, path, body, answer);
  return { ...answer, etag: String(answer.headers.etag) };
}
const REFUSALS: Record<string, number> = {
  ...{ invalid_type: 400, not_found: 404, conflict: 409, unconfirmed: 409 },
  precondition_failed: 412,
};
/** The message of a refusal with this code. */
async function refused(code: string, ...sent: Sent): Promise<string> {
  const { status, body } = await send(...sent);
  expect([sent, status, body.error]).toEqual([sent, REFUSALS[code], code]);
  return body.message;
}

describe('a client', () => {
  test('is made by its name, and made once', async () => {
    const made = await send('PUT', '/clients/billing', { rate_limit: 20 });
    expect(made.status).toBe(201);
    expect(made.body).toEqual({
      client_id: expect.stringMatching(/^standin_[0-9a-f]{24}$/),
      ...{ name: 'billing', rate_limit: 20, token_mode: 'deterministic' },
      ...{ can_tokenize: true, can_detokenize: true, can_lookup: false },
      ...{ detokenize_limit: null, lookup_limit: null, unknown_token_limit: null },
      ...{ time_to_live_s: null, space: '', subject: null, disabled: false },
      ...{ created_at: expect.stringMatching(/Z$/), disabled_at: null, last_used_at: null },
    });
    const again = await send('PUT', '/clients/billing', { rate_limit: 20 });
    const found = await send('GET', `/clients/${made.body.client_id}`);
    for (const one of [again, found])
      expect([one.status, one.body, one.etag]).toEqual([200, made.body, made.etag]);
    const listed = await run('client', 'list');
    const { disabled: _, ...ofCommand } = made.body;
    expect(listed.find((one: any) => one.name === 'billing')).toEqual(ofCommand);
    expect((await send('GET', '/clients')).body.clients).toContainEqual(made.body);
  });

  test('is made once by requests at the same time', async () => {
    const put = () => send('PUT', '/clients/at%20once', {});
    const all = await Promise.all(Array.from({ length: 8 }, put));
    expect(all.map(({ status }) => status).toSorted()).toEqual([...Array(7).fill(200), 201]);
    expect(new Set(all.map(({ body }) => body.client_id)).size).toBe(1);
  });

  test('has after PUT what the body says, and after PATCH what it says more', async () => {
    const limits = { detokenize_limit: 0.5, can_detokenize: false, time_to_live_s: 3600 };
    await send('PUT', '/clients/crm', { ...limits, space: 'tenant_a', token_mode: 'random' });
    const patched = await send('PATCH', '/clients/crm', { can_lookup: true, lookup_limit: null });
    expect(patched.body).toMatchObject({ ...limits, can_lookup: true, space: 'tenant_a' });
    const put = await send('PUT', '/clients/crm', { can_tokenize: false });
    expect(put.body).toMatchObject({
      ...{ can_tokenize: false, can_detokenize: true, can_lookup: false, detokenize_limit: null },
      ...{ time_to_live_s: null, token_mode: 'deterministic', space: 'tenant_a' },
    });
    // An answer is a body.
    const whole = await send('PUT', '/clients/crm', put.body);
    expect([whole.status, whole.body]).toEqual([200, put.body]);
    const moved = await refused('conflict', 'PATCH', '/clients/crm', { space: 'tenant_b' });
    expect(moved).toContain('tenant_a');
  });

  test('is renamed by PATCH only, and to no name of another', async () => {
    for (const name of ['old', 'taken']) await send('PUT', `/clients/${name}`, {});
    for (const name of ['old', 'nobody'])
      await refused('invalid_type', 'PUT', `/clients/${name}`, { name: 'new' });
    await refused('conflict', 'PATCH', '/clients/old', { name: 'taken' });
    expect((await send('PATCH', '/clients/old', { name: 'new' })).body.name).toBe('new');
    await refused('not_found', 'GET', '/clients/old');
  });

  test('that changed is not changed by who has not seen it', async () => {
    const none = { 'if-none-match': '*' };
    const first = await send('PUT', '/clients/seen', { rate_limit: 1 }, none);
    expect(first.status).toBe(201);
    const excluded = await refused('precondition_failed', 'PUT', '/clients/seen', {}, none);
    expect(excluded).toBe(`It has the ETag ${first.etag}, which If-None-Match excludes.`);
    const match = { 'if-match': first.etag };
    const second = await send('PATCH', '/clients/seen', { rate_limit: 2 }, match);
    expect([second.status, second.etag]).toEqual([200, expect.not.stringMatching(first.etag)]);
    for (const method of ['PUT', 'PATCH', 'DELETE']) {
      const body = method === 'DELETE' ? undefined : { rate_limit: 3 };
      await refused('precondition_failed', method, '/clients/seen', body, match);
    }
    expect((await send('GET', '/clients/seen')).body.rate_limit).toBe(2);
    const any = await send('PATCH', '/clients/seen', { rate_limit: 4 }, { 'if-match': '*' });
    expect(any.body.rate_limit).toBe(4);
    const several = { 'if-match': `"another", ${any.etag}` };
    expect((await send('PATCH', '/clients/seen', { rate_limit: 5 }, several)).status).toBe(200);
    const absent = [
      'precondition_failed',
      'PUT',
      '/clients/not-there',
      {},
      { 'if-match': '*' },
    ] as const;
    expect(await refused(...absent)).toBe('It does not exist, which If-Match does not expect.');
  });

  test('is disabled by DELETE, also twice, and enabled by PUT', async () => {
    const made = await send('PUT', '/clients/left', {});
    const once = await send('DELETE', '/clients/left');
    expect([once.status, once.body.disabled]).toEqual([200, true]);
    const twice = await send('DELETE', '/clients/left');
    expect([twice.status, twice.body]).toEqual([200, once.body]);
    expect((await send('PATCH', '/clients/left', { rate_limit: 2 })).body.disabled).toBe(true);
    await refused('conflict', 'POST', '/clients/left/api-keys');
    const back = await send('PUT', '/clients/left', {});
    expect([back.body, back.etag]).toEqual([made.body, made.etag]);
    const born = await send('PUT', '/clients/born-disabled', { disabled: true });
    expect([born.status, born.body.disabled]).toEqual([201, true]);
  });

  test('that is made disabled is never enabled, also when it cannot be disabled', async () => {
    const { DATABASE_URL: url } = at.service.place.env;
    if (url === undefined) return;
    await query(
      url,
      `create function public.fail() returns trigger language plpgsql
        as 'begin raise exception ''no update''; end';
      create trigger fail before update on standin.clients execute function public.fail()`,
    );
    const body = { disabled: true, subject: 'somebody' };
    expect((await send('PUT', '/clients/half-made', body)).status).toBe(500);
    await query(url, 'drop function public.fail cascade');
    await refused('not_found', 'GET', '/clients/half-made');
  });
});

test('an API key is shown once, works, and is revoked for good', async () => {
  const path = '/clients/app/api-keys';
  await send('PUT', '/clients/app', { can_detokenize: false });
  const expiresAt = new Date(Date.now() + 3_600_000).toISOString();
  const issued = await send('POST', path, { expires_at: expiresAt });
  const { api_key: apiKey, api_key_id: id } = issued.body;
  expect(issued.status).toBe(201);
  expect(issued.body).toMatchObject({ expires_at: expiresAt, revoked_at: null });
  const tokenize = async () => (await call(at.service, 'tokenize', { a: 'b' }, apiKey)).status;
  expect(await tokenize()).toBe(200);
  expect((await call(at.service, 'detokenize', { a: 'b_tok' }, apiKey)).status).toBe(403);
  for (const shown of ['/api-keys', path, `/api-keys/${id}`]) {
    const text = JSON.stringify((await send('GET', shown)).body);
    expect([text.includes(apiKey), text.includes(id)]).toEqual([false, true]);
  }
  const { body: all } = await send('GET', '/api-keys');
  // The use above may be recorded between the two lists.
  const withoutUse = ({ last_used_at: _, ...rest }: any) => rest;
  const listed = await run('api-key', 'list');
  expect(listed.map(withoutUse)).toEqual(all.api_keys.map(withoutUse));
  const revoked = await send('DELETE', `/api-keys/${id}`);
  expect(revoked.body.revoked_at).toMatch(/Z$/);
  const again = await send('DELETE', `/api-keys/${id}`);
  expect([again.status, again.body.revoked_at]).toEqual([200, revoked.body.revoked_at]);
  await until(async () => (await tokenize()) === 401, 'the end of the API key');
  await refused('not_found', 'DELETE', '/api-keys/key_000000000000');
  await refused('not_found', 'POST', '/clients/none/api-keys');
});

const document =
  'version: 1\nfields:\n  customer.email: email\nelsewhere: pass\nrights:\n  nobody: {email: masked}\n';

test('a policy with consequences is applied when they are confirmed, all of them', async () => {
  const { consequences } = (await send('POST', '/policy/check', { document })).body;
  expect(consequences).toEqual([
    'Strings that no field names will go through unchanged, in clear. Today they are tokenized, as text.',
    expect.stringMatching(/^first.* will see less: every kind full -> none\.$/),
    'No client of the vault is called nobody: nobody will have these rights.',
  ]);
  for (const confirmed of [undefined, [], consequences.slice(1)])
    expect(await refused('unconfirmed', 'PUT', '/policy', { document, confirmed })).toContain(
      JSON.stringify(consequences[0]),
    );
  // Since the check, a client is there that loses, too.
  await send('PUT', '/clients/latecomer', { can_detokenize: true });
  const body = { document, confirmed: consequences };
  expect(await refused('unconfirmed', 'PUT', '/policy', body)).toContain('latecomer will see less');
  await refused('not_found', 'GET', '/policy');
  await send('DELETE', '/clients/latecomer');
});

test.runIf(process.platform === 'linux')('policies are checked one at a time', async () => {
  const threads = () => readdirSync(`/proc/${at.service.pid}/task`).length;
  const before = threads();
  let most = 0;
  const looking = setInterval(() => {
    most = Math.max(most, threads() - before);
  }, 1);
  const check = () => send('POST', '/policy/check', { document });
  const answers = await Promise.all(Array.from({ length: 8 }, check)).finally(() =>
    clearInterval(looking),
  );
  expect(new Set(answers.map(({ status }) => status))).toEqual(new Set([200]));
  // One that begins while the one before ends.
  expect([1, 2]).toContain(most);
});

test('a policy is checked, applied once, and kept in versions', async () => {
  const put = (body: object, headers?: Record<string, string>) =>
    send('PUT', '/policy', body, headers);
  const { body: checked } = await send('POST', '/policy/check', { document });
  expect(checked).toMatchObject({
    ...{ is_valid: true, mistakes: [], changes: [expect.anything(), ...checked.changes.slice(1)] },
    kinds: expect.arrayContaining([expect.objectContaining({ kind: 'email' })]),
  });
  const none = { 'if-none-match': '*' };
  const { consequences: confirmed } = checked;
  const applied = await put({ document, confirmed }, none);
  expect([applied.status, applied.etag]).toEqual([200, '"1"']);
  expect(applied.body).toMatchObject({ version: 1, is_new: true, consequences: confirmed });
  const again = await put({ document });
  expect(again.body).toMatchObject({ version: 1, is_new: false, changes: [] });
  await refused('precondition_failed', 'PUT', '/policy', { document }, none);
  const match = { 'if-match': '"1"' };
  const other = { document: `${document}# two\n`, confirmed: ['*'] };
  expect((await put(other, match)).body.version).toBe(2);
  await refused('precondition_failed', 'PUT', '/policy', { document }, match);
  const newest = await send('GET', '/policy');
  expect([newest.body.document, newest.etag]).toEqual([other.document, '"2"']);
  expect(await run('policy', 'show')).toEqual(newest.body);
  expect((await send('GET', '/policy/versions/1')).body.document).toBe(document);
  const { versions } = (await send('GET', '/policy/versions')).body;
  expect(versions.map(({ version }: { version: number }) => version)).toEqual([2, 1]);
  for (const version of [3, 999_999_999])
    await refused('not_found', 'GET', `/policy/versions/${version}`);
  const wrong = { document: 'version: 1\nfields:\n  a: nothing\n  b: nowhere\nelsewhere: pass\n' };
  const message = await refused('invalid_type', 'PUT', '/policy', wrong);
  expect(message).toMatch(/^document: line 3, column 6: .*; and 1 more/);
  const once = { document: wrong.document.replace('  b: nowhere\n', '') };
  expect(await refused('invalid_type', 'PUT', '/policy', once)).not.toContain('more');
  const mistaken = await send('POST', '/policy/check', wrong);
  expect(mistaken.body).toMatchObject({ is_valid: false, changes: [], kinds: [], clients: [] });
  expect(mistaken.body.mistakes).toHaveLength(2);
});

test('values are found and forgotten under every kind, or one, in their space only', async () => {
  const email = 'Ann.Lee@example.com';
  const tokenize = async (data: object, apiKey?: string) =>
    (await call(at.service, 'tokenize', data, apiKey)).body.data;
  const find = async (body: object) => (await send('POST', '/lookup', body)).body.tokens;
  const forget = async (body: object) => (await send('POST', '/forget', body)).body;
  await until(async () => {
    const { body } = await send('POST', '/lookup', { values: ['x'], kind: 'email' });
    return body.message.startsWith('values[0]');
  }, 'the policy on this node');
  const kinds = await tokenize({ customer: { email } });
  const texts = await tokenize({ values: [email, 'Ann Lee'] });
  await send('PUT', '/clients/tenant', { space: 'tenant_a' });
  const { api_key: ofTenant } = (await send('POST', '/clients/tenant/api-keys')).body;
  const elsewhere = await tokenize({ values: [email] }, ofTenant);
  const asEmail = { kind: 'email', token: kinds.customer.email };
  const asText = { kind: 'text', token: texts.values[0] };
  const [found, none] = await find({ values: [email, 'nobody'] });
  expect(found).toEqual(expect.arrayContaining([asEmail, asText]));
  expect([found.length, none]).toEqual([2, []]);
  expect(await find({ values: [email], kind: 'email' })).toEqual([[asEmail]]);
  const inSpace = { values: [email], space: 'tenant_a' };
  expect(await find(inSpace)).toEqual([[{ kind: 'text', token: elsewhere.values[0] }]]);
  const request = { values: [email, 'nobody'], tokens: [texts.values[1], 'x_tok'] };
  const counts = {
    ...{ known: 3, already_forgotten: 0, unknown: ['tokens[1]', 'values[1]'] },
    not_searched: [expect.stringContaining('standin forget --values FILE --scan')],
  };
  const dry = await forget({ ...request, dry_run: true });
  expect(dry).toEqual({ ...counts, is_dry_run: true, forgotten: 0 });
  expect(await forget(request)).toEqual({ ...counts, is_dry_run: false, forgotten: 3 });
  expect((await find(inSpace))[0]).toHaveLength(1);
});

test('the keyring is as the command shows it, and is rotated once by who saw it', async () => {
  const before = await send('GET', '/keyring');
  expect(before.body.keys).toEqual(await run('keyring', 'status'));
  const match = { 'if-match': before.etag };
  const rotated = await send('POST', '/keyring/rotate', undefined, match);
  expect([rotated.status, rotated.body]).toEqual([200, { version: 2, in_force_within_s: 5 }]);
  await refused('precondition_failed', 'POST', '/keyring/rotate', {}, match);
  expect((await send('GET', '/keyring')).etag).toBe(rotated.etag);
  expect((await send('POST', '/keyring/rotate')).body.version).toBe(3);
});

test.each<[operation: string, place: string, body?: unknown]>([
  ['PUT /clients/refused', 'rate_limit', { rate_limit: -1 }],
  ['PUT /clients/refused', 'disabled', { disabled: null }],
  ['PUT /clients/refused', '"rate_limits"', { rate_limits: 5 }],
  ['PUT /clients/refused', '"constructor"', { constructor: 5 }],
  ['PUT /clients/refused', `"${'x'.repeat(40)}"`, { ['x'.repeat(40)]: 5 }],
  ['PUT /clients/refused', 'body: a name', { ['x'.repeat(41)]: 5 }],
  ['PUT /clients/refused', 'body', []],
  ['PUT /clients/a%00b', 'path', {}],
  ['PUT /clients/%20', 'path', {}],
  ['PUT /clients/%ff', 'path', {}],
  ['POST /clients/app/api-keys', 'expires_at', { expires_at: '2001-01-01T00:00:00Z' }],
  ['POST /clients/app/api-keys', 'expires_at', { expires_at: 'tomorrow' }],
  ['PUT /policy', 'confirmed', { document, confirmed: 'yes' }],
  ['PUT /policy', 'confirmed', { document, confirmed: [1] }],
  ['GET /policy/versions/x', 'path'],
  ['GET /policy/versions/1000000000', 'path'],
  ['POST /lookup', 'values', {}],
  ['POST /lookup', 'values', { values: [5] }],
  ['POST /lookup', 'values', { values: Array(101).fill('x') }],
  ['POST /lookup', 'values[0]', { values: ['\ud800'] }],
  ['POST /lookup', 'kind', { values: ['x'], kind: 'nothing' }],
  ['POST /lookup', 'values[0]', { values: ['x'], kind: 'email' }],
  ['POST /lookup', 'space', { values: ['x'], space: 'a b' }],
  ['POST /forget', 'body', {}],
  ['POST /forget', 'tokens', { tokens: 'x_tok' }],
  ['POST /forget', 'tokens[0]', { tokens: ['x'.repeat(65_537)] }],
  ['POST /forget', 'tokens', { tokens: Array(10_001).fill('x') }],
  ['POST /forget', '"token"', { token: [] }],
  ['POST /keyring/rotate', '"force"', { force: true }],
])('%s is refused, and the place is named: %s', async (operation, place, body) => {
  const [method, path] = operation.split(' ') as [string, string];
  const message = await refused('invalid_type', method, path, body);
  expect(message.startsWith(`${place}: `), message).toBe(true);
  await refused('not_found', 'GET', '/clients/refused');
});

describe('a request', () => {
  test.each([
    ['GET', '/nothing', 404, undefined],
    ['GET', '', 404, undefined],
    ['GET', '/clients/a/b', 404, undefined],
    ['POST', '/clients', 405, 'GET, HEAD'],
    ['OPTIONS', '/clients/x', 405, 'GET, HEAD, PUT, PATCH, DELETE'],
    ['GET', '/forget', 405, 'POST'],
  ])('%s %s is %i', async (method, path, status, allow) => {
    const answer = await send(method, path);
    expect([answer.status, answer.headers.allow]).toEqual([status, allow]);
    expect(answer.headers['x-request-id']).toMatch(/^[0-9a-f-]{36}$/);
    expect(answer.headers['cache-control']).toBe('no-store');
  });

  test.each([
    ...['/admin/v2/clients', '/admin/XX/clients', '/admin/v1/openapiXjson', '/admin/v1clients'],
  ])('to %s is 404: a path has one spelling', async (path) => {
    expect((await at.ask(path, 'GET', bearer(ADMIN_TOKEN))).status).toBe(404);
  });

  test.each([
    ['broken', 400, '{'],
    ['a name twice', 400, '{"rate_limit":1,"rate_limit":2}'],
    ['no object', 400, 'null'],
    ['other bytes than UTF-8', 400, Buffer.from('{"name":"\xff"}', 'latin1')],
    ['broken, and 1 MiB', 400, '{'.padEnd(1_048_576)],
    ['more than 1 MiB', 413, ' '.repeat(1_048_577)],
    ['declared as another type', 415, '{}', { 'content-type': 'text/plain' }],
  ])('whose body is %s is %i', async (_, status, body, type = JSON_TYPE) => {
    const length = { 'content-length': String(Buffer.byteLength(body)) };
    const headers = { ...bearer(ADMIN_TOKEN), ...type, ...length };
    const answer = await at.ask('/admin/v1/clients/raw', 'PUT', headers, body);
    expect(refusalIn(answer)).toEqual([status, expect.any(String)]);
  });
});

test('twenty requests are under way at most, and another is told to come again', async () => {
  if (at.service.place.kind !== 'server') return;
  const lock = 'lock table standin.clients in access exclusive mode';
  const release = await held(at.service.place, lock);
  const asked = Array.from({ length: 21 }, () => send('GET', '/clients'));
  expect((await Promise.race(asked)).body.error).toBe('overloaded');
  await release();
  const statuses = (await Promise.all(asked)).map(({ status }) => status);
  expect(statuses.toSorted()).toEqual([...Array(20).fill(200), 503]);
});

test('the tests above had every operation succeed, and every one with a condition fail for it', () => {
  const must = / (200|201|412)$/;
  expect(agreement.unseen().filter((one) => must.test(one))).toEqual([]);
});

/** The target of each act in the audit log. All other acts have none. */
const OF_CLIENT = /^standin_[0-9a-f]+$/;
const OF_API_KEY = /^key_[0-9a-f]{12}$/;
const TARGETS: Record<string, RegExp> = {
  ...{ 'client.get': OF_CLIENT, 'client.put': OF_CLIENT, 'client.update': OF_CLIENT },
  ...{ 'client.disable': OF_CLIENT, 'api_key.get': OF_API_KEY, 'api_key.issue': OF_API_KEY },
  ...{ 'api_key.revoke': OF_API_KEY, 'policy.apply': /^[1-9]$/, 'keyring.rotate': /^[1-9]$/ },
  // Those of all clients, and the newest policy, have none.
  ...{ 'api_key.list': /^(standin_[0-9a-f]+|null)$/, 'policy.get': /^([1-9]|null)$/ },
};

test('each act is in the log and the audit log, with who, what and from where, and no value', async () => {
  const value = 'a value to find in no log';
  const { headers } = await send('PUT', '/clients/audited', {});
  await send('POST', '/forget', { values: [value], tokens: [`${value}_tok`] });
  await send('PATCH', '/clients/audited', { rate_limit: -1 });
  const mistyped = encodeURIComponent(value);
  for (const path of ['/clients/', '/api-keys/', '/policy/versions/'])
    await send('GET', path + mistyped);
  await send('PUT', `/clients/${mistyped}`, { rate_limit: -1 });
  await until(() => audited().some((one) => one.outcome === 'invalid_type'), 'the refusal');
  const lines = audited();
  const has = (line: object) => expect(lines).toContainEqual(expect.objectContaining(line));
  const common = { event: 'admin', admin: 'terraform', remote_address: '127.0.0.1' };
  const of = { request_id: headers['x-request-id'], target: expect.stringMatching(OF_CLIENT) };
  has({ ...common, ...of, act: 'client.put', outcome: 'success', status: 201 });
  has({ ...common, act: 'forget', target: null, outcome: 'success', values: 0 });
  has({ act: 'client.update', target: of.target, outcome: 'invalid_type', status: 400 });
  has({ act: 'none', outcome: 'not_found', status: 404 });
  has({ act: 'openapi', outcome: 'success', status: 200 });
  has({ act: 'lookup', outcome: 'success', values: 2 });
  // A dry run is about none.
  const forgot = lines.flatMap((line: any) => (line.act === 'forget' && line.values) || []);
  expect(forgot).toEqual([3]);
  const done = lines.filter((line: any) => line.act && line.outcome === 'success');
  expect(done.map(({ act }: any) => act)).toEqual(expect.arrayContaining(Object.keys(TARGETS)));
  for (const { act, target } of done)
    expect([act, String(target)]).toEqual([act, expect.stringMatching(TARGETS[act] ?? /^null$/)]);
  expect(at.service.output()).toContain('"act":"client.put"');
  for (const text of [at.service.output(), JSON.stringify(lines)])
    for (const told of [value, mistyped]) expect(text).not.toContain(told);
});
