import { readdirSync } from 'node:fs';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { ADMIN_TOKEN, AdminAgreement, admin, adminPlace } from '../support/admin.ts';
import { readAudit } from '../support/audit.ts';
import { ask, type OpsService, startWithOps } from '../support/ops.ts';
import { query } from '../support/postgres.ts';
import { call, runJson, until } from '../support/service.ts';

let service: OpsService;
let auditFile: string;
let agreement: AdminAgreement;
beforeAll(async () => {
  const place = await adminPlace();
  auditFile = `${place.folder}/audit.log`;
  service = await startWithOps(place, { AUDIT_LOG: auditFile, AUDIT_REQUIRED: 'true' });
  const { body } = await admin(service.opsUrl, 'GET', '/openapi.json');
  agreement = new AdminAgreement(body);
});
afterAll(async () => {
  await service.stop();
  expect(service.output()).not.toContain(ADMIN_TOKEN);
  service.place.remove();
});

/** Each body and each answer is compared with the document. */
async function send(
  method: string,
  path: string,
  body?: unknown,
  headers: Record<string, string> = {},
) {
  const answer = await admin(service.opsUrl, method, path, body, headers);
  agreement.check(method, path, body, answer);
  return answer;
}
const errorOf = ({ status, body }: Awaited<ReturnType<typeof send>>) => [status, body.error];
const etagOf = ({ headers }: Awaited<ReturnType<typeof send>>) => String(headers.etag);

describe('a client', () => {
  test('is made by its name, and made once', async () => {
    const made = await send('PUT', '/clients/billing', { rate_limit: 20 });
    expect(made.status).toBe(201);
    expect(made.body).toEqual({
      client_id: expect.stringMatching(/^standin_[0-9a-f]{24}$/),
      name: 'billing',
      rate_limit: 20,
      token_mode: 'deterministic',
      ...{ can_tokenize: true, can_detokenize: true, can_lookup: false },
      ...{ detokenize_limit: null, lookup_limit: null, unknown_token_limit: null },
      ...{ time_to_live_s: null, space: '', subject: null, disabled: false },
      created_at: expect.stringMatching(/Z$/),
      ...{ disabled_at: null, last_used_at: null },
    });
    const again = await send('PUT', '/clients/billing', { rate_limit: 20 });
    expect([again.status, again.body]).toEqual([200, made.body]);
    expect(etagOf(again)).toBe(etagOf(made));
    const found = await send('GET', `/clients/${made.body.client_id}`);
    expect([found.status, found.body, etagOf(found)]).toEqual([200, made.body, etagOf(made)]);
    const listed = await runJson(service.place, 'client', 'list');
    const { disabled: _, ...ofCommand } = made.body;
    expect(listed.find((one: any) => one.name === 'billing')).toEqual(ofCommand);
    const { body } = await send('GET', '/clients');
    expect(body.clients).toContainEqual(made.body);
  });

  test('is made once by requests at the same time', async () => {
    const all = await Promise.all(
      Array.from({ length: 8 }, () => send('PUT', '/clients/at%20once', {})),
    );
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
    const moved = await send('PATCH', '/clients/crm', { space: 'tenant_b' });
    expect(errorOf(moved)).toEqual([409, 'conflict']);
    expect(moved.body.message).toContain('tenant_a');
  });

  test('is renamed by PATCH only, and to no name of another', async () => {
    await send('PUT', '/clients/old', {});
    await send('PUT', '/clients/taken', {});
    expect(errorOf(await send('PUT', '/clients/old', { name: 'new' }))).toEqual([
      ...[400, 'invalid_type'],
    ]);
    expect(errorOf(await send('PUT', '/clients/nobody', { name: 'new' }))).toEqual([
      ...[400, 'invalid_type'],
    ]);
    const taken = await send('PATCH', '/clients/old', { name: 'taken' });
    expect(errorOf(taken)).toEqual([409, 'conflict']);
    expect((await send('PATCH', '/clients/old', { name: 'new' })).body.name).toBe('new');
    expect(errorOf(await send('GET', '/clients/old'))).toEqual([404, 'not_found']);
  });

  test('that changed is not changed by who has not seen it', async () => {
    const first = await send('PUT', '/clients/seen', { rate_limit: 1 }, { 'if-none-match': '*' });
    expect(first.status).toBe(201);
    const again = await send('PUT', '/clients/seen', {}, { 'if-none-match': '*' });
    expect(errorOf(again)).toEqual([412, 'precondition_failed']);
    const match = { 'if-match': etagOf(first) };
    const second = await send('PATCH', '/clients/seen', { rate_limit: 2 }, match);
    expect(second.status).toBe(200);
    expect(etagOf(second)).not.toBe(etagOf(first));
    for (const method of ['PUT', 'PATCH', 'DELETE']) {
      const body = method === 'DELETE' ? undefined : { rate_limit: 3 };
      const refused = await send(method, '/clients/seen', body, match);
      expect(errorOf(refused)).toEqual([412, 'precondition_failed']);
    }
    expect((await send('GET', '/clients/seen')).body.rate_limit).toBe(2);
    const any = await send('PATCH', '/clients/seen', { rate_limit: 4 }, { 'if-match': '*' });
    expect(any.body.rate_limit).toBe(4);
    const several = { 'if-match': `"another", ${etagOf(any)}` };
    expect((await send('PATCH', '/clients/seen', { rate_limit: 5 }, several)).status).toBe(200);
    const missing = await send('PUT', '/clients/not-there', {}, { 'if-match': '*' });
    expect(errorOf(missing)).toEqual([412, 'precondition_failed']);
  });

  test('is disabled by DELETE, also twice, and enabled by PUT', async () => {
    const made = await send('PUT', '/clients/left', {});
    const once = await send('DELETE', '/clients/left');
    expect([once.status, once.body.disabled]).toEqual([200, true]);
    const twice = await send('DELETE', '/clients/left');
    expect([twice.status, twice.body]).toEqual([200, once.body]);
    const issued = await send('POST', '/clients/left/api-keys');
    expect(errorOf(issued)).toEqual([409, 'conflict']);
    const back = await send('PUT', '/clients/left', {});
    expect([back.body, etagOf(back)]).toEqual([made.body, etagOf(made)]);
    const born = await send('PUT', '/clients/born-disabled', { disabled: true });
    expect([born.status, born.body.disabled]).toEqual([201, true]);
  });

  test('that is made disabled is never enabled, also when it cannot be disabled', async () => {
    const { DATABASE_URL: url } = service.place.env;
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
    expect(errorOf(await send('GET', '/clients/half-made'))).toEqual([404, 'not_found']);
  });

  test.each([
    ['rate_limit', { rate_limit: -1 }],
    ['disabled', { disabled: null }],
    ['"rate_limits"', { rate_limits: 5 }],
    ['"constructor"', { constructor: 5 }],
    ['body', []],
  ])('with a wrong setting is refused, and the field is named: %s', async (name, body) => {
    const refused = await send('PUT', '/clients/refused', body);
    expect(errorOf(refused)).toEqual([400, 'invalid_type']);
    expect(refused.body.message.startsWith(`${name}: `)).toBe(true);
    expect((await send('GET', '/clients/refused')).status).toBe(404);
  });

  test.each(['a%00b', '%20', '%ff'])('with the name %s is refused', async (name) => {
    expect((await send('PUT', `/clients/${name}`, {})).status).toBe(400);
  });
});

test('an API key is shown once, works, and is revoked for good', async () => {
  await send('PUT', '/clients/app', { can_detokenize: false });
  const expiresAt = new Date(Date.now() + 3_600_000).toISOString();
  const issued = await send('POST', '/clients/app/api-keys', { expires_at: expiresAt });
  expect(issued.status).toBe(201);
  const { api_key: apiKey, api_key_id: id } = issued.body;
  expect(issued.body).toMatchObject({ expires_at: expiresAt, revoked_at: null });
  expect((await call(service, 'tokenize', { a: 'b' }, apiKey)).status).toBe(200);
  expect((await call(service, 'detokenize', { a: 'b_tok' }, apiKey)).status).toBe(403);
  for (const path of ['/api-keys', '/clients/app/api-keys', `/api-keys/${id}`]) {
    const { body } = await send('GET', path);
    expect(JSON.stringify(body)).not.toContain(apiKey);
    expect(JSON.stringify(body)).toContain(id);
  }
  const { body: all } = await send('GET', '/api-keys');
  // The use above may be recorded between the two lists.
  const withoutUse = ({ last_used_at: _, ...rest }: any) => rest;
  const listed = await runJson(service.place, 'api-key', 'list');
  expect(listed.map(withoutUse)).toEqual(all.api_keys.map(withoutUse));
  const revoked = await send('DELETE', `/api-keys/${id}`);
  expect(revoked.body.revoked_at).toMatch(/Z$/);
  const again = await send('DELETE', `/api-keys/${id}`);
  expect([again.status, again.body.revoked_at]).toEqual([200, revoked.body.revoked_at]);
  await until(
    async () => (await call(service, 'tokenize', { a: 'b' }, apiKey)).status === 401,
    'the end of the API key',
  );
  expect(errorOf(await send('DELETE', '/api-keys/key_000000000000'))).toEqual([404, 'not_found']);
  expect(errorOf(await send('POST', '/clients/none/api-keys'))).toEqual([404, 'not_found']);
  for (const when of ['2001-01-01T00:00:00Z', 'tomorrow', 5]) {
    const refused = await send('POST', '/clients/app/api-keys', { expires_at: when });
    expect(errorOf(refused)).toEqual([400, 'invalid_type']);
  }
});

const POLICY =
  'version: 1\nfields:\n  customer.email: email\nelsewhere: pass\nrights:\n  nobody: {email: masked}\n';

test('a policy with consequences is applied when they are confirmed, all of them', async () => {
  const document = POLICY;
  const { consequences } = (await send('POST', '/policy/check', { document })).body;
  expect(consequences).toEqual([
    'Strings that no field names will go through unchanged, in clear. Today they are tokenized, as text.',
    expect.stringMatching(/^first.* will see less: every kind full -> none\.$/),
    'No client of the vault is called nobody: nobody will have these rights.',
  ]);
  for (const confirmed of [undefined, [], consequences.slice(1)]) {
    const refused = await send('PUT', '/policy', { document, confirmed });
    expect(errorOf(refused)).toEqual([409, 'unconfirmed']);
    expect(refused.body.message).toContain(JSON.stringify(consequences[0]));
  }
  for (const confirmed of ['yes', true, [1]])
    expect(errorOf(await send('PUT', '/policy', { document, confirmed }))).toEqual([
      ...[400, 'invalid_type'],
    ]);
  // Since the check, a client is there that loses, too.
  await send('PUT', '/clients/latecomer', { can_detokenize: true });
  const late = await send('PUT', '/policy', { document, confirmed: consequences });
  expect(errorOf(late)).toEqual([409, 'unconfirmed']);
  expect(late.body.message).toContain('latecomer will see less');
  expect(errorOf(await send('GET', '/policy'))).toEqual([404, 'not_found']);
  await send('DELETE', '/clients/latecomer');
});

test.runIf(process.platform === 'linux')('policies are checked one at a time', async () => {
  const threads = () => readdirSync(`/proc/${service.pid}/task`).length;
  const before = threads();
  let most = 0;
  const looking = setInterval(() => {
    most = Math.max(most, threads() - before);
  }, 1);
  const check = () => send('POST', '/policy/check', { document: POLICY });
  const answers = await Promise.all(Array.from({ length: 8 }, check)).finally(() =>
    clearInterval(looking),
  );
  expect(new Set(answers.map(({ status }) => status))).toEqual(new Set([200]));
  // One that begins while the one before ends.
  expect(most).toBeGreaterThan(0);
  expect(most).toBeLessThanOrEqual(2);
});

test('a policy is checked, applied once, and kept in versions', async () => {
  const document = POLICY;
  const checked = await send('POST', '/policy/check', { document });
  expect(checked.body).toMatchObject({
    ...{ is_valid: true, mistakes: [] },
    kinds: expect.arrayContaining([expect.objectContaining({ kind: 'email' })]),
  });
  expect(checked.body.changes.length).toBeGreaterThan(0);
  const none = { 'if-none-match': '*' };
  const { consequences: confirmed } = checked.body;
  const applied = await send('PUT', '/policy', { document, confirmed }, none);
  expect([applied.status, etagOf(applied)]).toEqual([200, '"1"']);
  expect(applied.body).toMatchObject({ version: 1, is_new: true, consequences: confirmed });
  const again = await send('PUT', '/policy', { document });
  expect(again.body).toMatchObject({ version: 1, is_new: false, changes: [] });
  expect(errorOf(await send('PUT', '/policy', { document }, none))[0]).toBe(412);
  const match = { 'if-match': '"1"' };
  const other = { document: `${document}# two\n`, confirmed: ['*'] };
  expect((await send('PUT', '/policy', other, match)).body.version).toBe(2);
  expect(errorOf(await send('PUT', '/policy', { document }, match))[0]).toBe(412);
  const newest = await send('GET', '/policy');
  expect([newest.body.document, etagOf(newest)]).toEqual([other.document, '"2"']);
  expect(await runJson(service.place, 'policy', 'show')).toEqual(newest.body);
  expect((await send('GET', '/policy/versions/1')).body.document).toBe(document);
  const { versions } = (await send('GET', '/policy/versions')).body;
  expect(versions.map(({ version }: { version: number }) => version)).toEqual([2, 1]);
  expect(errorOf(await send('GET', '/policy/versions/3'))).toEqual([404, 'not_found']);
  expect(errorOf(await send('GET', '/policy/versions/x'))).toEqual([400, 'invalid_type']);
  const wrong = 'version: 1\nfields:\n  a: nothing\n  b: nowhere\nelsewhere: pass\n';
  const refused = await send('PUT', '/policy', { document: wrong });
  expect(errorOf(refused)).toEqual([400, 'invalid_type']);
  expect(refused.body.message).toMatch(/^document: line 3, column 6: .*; and 1 more/);
  const mistakes = await send('POST', '/policy/check', { document: wrong });
  expect(mistakes.body).toMatchObject({ is_valid: false, changes: [], kinds: [], clients: [] });
  expect(mistakes.body.mistakes).toHaveLength(2);
});

test('values are found and forgotten under every kind, or one, in their space only', async () => {
  const email = 'Ann.Lee@example.com';
  await until(async () => {
    const { body } = await send('POST', '/lookup', { values: ['x'], kind: 'email' });
    return body.message.startsWith('values[0]');
  }, 'the policy on this node');
  const kinds = await call(service, 'tokenize', { customer: { email } });
  const texts = await call(service, 'tokenize', { values: [email, 'Ann Lee'] });
  await send('PUT', '/clients/tenant', { space: 'tenant_a' });
  const { api_key: ofTenant } = (await send('POST', '/clients/tenant/api-keys')).body;
  const elsewhere = await call(service, 'tokenize', { values: [email] }, ofTenant);
  const asEmail = { kind: 'email', token: kinds.body.data.customer.email };
  const asText = { kind: 'text', token: texts.body.data.values[0] };
  const find = async (body: object) => (await send('POST', '/lookup', body)).body.tokens;
  const [found, none] = await find({ values: [email, 'nobody'] });
  expect(found).toEqual(expect.arrayContaining([asEmail, asText]));
  expect([found.length, none]).toEqual([2, []]);
  expect(await find({ values: [email], kind: 'email' })).toEqual([[asEmail]]);
  expect(await find({ values: [email], space: 'tenant_a' })).toEqual([
    [{ kind: 'text', token: elsewhere.body.data.values[0] }],
  ]);
  const request = { values: [email, 'nobody'], tokens: [texts.body.data.values[1], 'x_tok'] };
  const dry = await send('POST', '/forget', { ...request, dry_run: true });
  const unknown = ['tokens[1]', 'values[1]'];
  const notSearched = [expect.stringContaining('standin forget --values FILE --scan')];
  const counts = { known: 3, already_forgotten: 0, unknown, not_searched: notSearched };
  expect(dry.body).toEqual({ is_dry_run: true, ...counts, forgotten: 0 });
  const done = await send('POST', '/forget', request);
  expect(done.body).toEqual({ is_dry_run: false, ...counts, forgotten: 3 });
  const byCommand = await runJson(service.place, 'forget', asEmail.token, '--yes');
  expect(byCommand).toMatchObject({ forgotten: 0, already_forgotten: 1, unknown: 0 });
  for (const data of [kinds.body.data, texts.body.data])
    expect((await call(service, 'detokenize', data)).status).toBe(400);
  expect((await find({ values: [email], space: 'tenant_a' }))[0]).toHaveLength(1);
  const again = await send('POST', '/forget', { tokens: [asEmail.token, asEmail.token] });
  expect(again.body).toMatchObject({ known: 0, forgotten: 0, already_forgotten: 1, unknown: [] });
  const inSpace = await send('POST', '/forget', { values: [email], space: 'tenant_a' });
  expect(inSpace.body.forgotten).toBe(1);
});

test.each([
  ['/lookup', 'values', {}],
  ['/lookup', 'values', { values: [5] }],
  ['/lookup', 'values', { values: Array(101).fill('x') }],
  ['/lookup', 'values[0]', { values: ['\ud800'] }],
  ['/lookup', 'kind', { values: ['x'], kind: 'nothing' }],
  ['/lookup', 'values[0]', { values: ['x'], kind: 'email' }],
  ['/lookup', 'space', { values: ['x'], space: 'a b' }],
  ['/forget', 'body', {}],
  ['/forget', 'tokens', { tokens: 'x_tok' }],
  ['/forget', 'tokens[0]', { tokens: ['x'.repeat(65_537)] }],
  ['/forget', 'tokens', { tokens: Array(10_001).fill('x') }],
  ['/forget', '"token"', { token: [] }],
])('%s is refused, and the place is named: %s', async (path, name, body) => {
  const refused = await send('POST', path, body);
  expect(errorOf(refused)).toEqual([400, 'invalid_type']);
  expect(refused.body.message.startsWith(`${name}: `), refused.body.message).toBe(true);
});

test('the keyring is as the command shows it, and is rotated once by who saw it', async () => {
  const before = await send('GET', '/keyring');
  expect(before.body.keys).toEqual(await runJson(service.place, 'keyring', 'status'));
  const match = { 'if-match': etagOf(before) };
  const rotated = await send('POST', '/keyring/rotate', undefined, match);
  expect([rotated.status, rotated.body]).toEqual([200, { version: 2, in_force_within_s: 5 }]);
  expect(errorOf(await send('POST', '/keyring/rotate', {}, match))[0]).toBe(412);
  const after = await send('GET', '/keyring');
  expect(etagOf(after)).toBe(etagOf(rotated));
  expect(errorOf(await send('POST', '/keyring/rotate', { force: true }))[0]).toBe(400);
  expect((await send('POST', '/keyring/rotate')).body.version).toBe(3);
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
    '/admin/v2/clients',
    '/admin/XX/clients',
    '/admin/v1/openapiXjson',
    '/admin/v1clients',
  ])('to %s is 404: a path has one spelling', async (path) => {
    const headers = { authorization: `Bearer ${ADMIN_TOKEN}` };
    expect((await ask(service.opsUrl + path, 'GET', headers)).status).toBe(404);
  });

  const raw = async (body: string | Buffer, type = 'application/json') => {
    const headers = { authorization: `Bearer ${ADMIN_TOKEN}`, 'content-type': type };
    const sent = { ...headers, 'content-length': String(Buffer.byteLength(body)) };
    const answer = await ask(`${service.opsUrl}/admin/v1/clients/raw`, 'PUT', sent, body);
    return [answer.status, JSON.parse(answer.text).error];
  };

  test.each([
    ['broken', 400, '{'],
    ['a name twice', 400, '{"rate_limit":1,"rate_limit":2}'],
    ['no object', 400, 'null'],
    ['other bytes than UTF-8', 400, Buffer.from('{"name":"\xff"}', 'latin1')],
    ['more than 1 MiB', 413, ' '.repeat(1_048_577)],
  ])('whose body is %s is %i', async (_, status, body) => {
    expect((await raw(body))[0]).toBe(status);
  });

  test('with another content type is 415', async () => {
    expect(await raw('{}', 'text/plain')).toEqual([415, 'unsupported_media_type']);
  });
});

test('the tests above had every operation succeed, and every one with a condition fail for it', () => {
  const must = / (200|201|412)$/;
  expect(agreement.unseen().filter((one) => must.test(one))).toEqual([]);
});

/** What the audit log says that each act was done to; of other acts, nothing. */
const TARGETS: Record<string, RegExp> = {
  ...Object.fromEntries(
    ['get', 'put', 'update', 'disable'].map((act) => [`client.${act}`, /^standin_[0-9a-f]+$/]),
  ),
  ...Object.fromEntries(
    ['get', 'issue', 'revoke'].map((act) => [`api_key.${act}`, /^key_[0-9a-f]{12}$/]),
  ),
  'policy.apply': /^[1-9]$/,
  // Those of all clients, and the newest policy, have none.
  'api_key.list': /^(standin_[0-9a-f]+|null)$/,
  'policy.get': /^([1-9]|null)$/,
  'keyring.rotate': /^[1-9]$/,
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
  const { lines } = readAudit(auditFile);
  const common = { event: 'admin', admin: 'terraform', remote_address: '127.0.0.1' };
  const request = { request_id: headers['x-request-id'] };
  const target = expect.stringMatching(/^standin_/);
  const put = { ...common, ...request, act: 'client.put', target, outcome: 'success', status: 201 };
  expect(lines).toContainEqual(expect.objectContaining(put));
  const forgot = { ...common, act: 'forget', target: null, outcome: 'success', values: 0 };
  expect(lines).toContainEqual(expect.objectContaining(forgot));
  const done = lines.filter((line: any) => line.act && line.outcome === 'success');
  expect(done.map(({ act }: any) => act)).toEqual(expect.arrayContaining(Object.keys(TARGETS)));
  for (const { act, target } of done)
    expect([act, String(target)]).toEqual([act, expect.stringMatching(TARGETS[act] ?? /^null$/)]);
  const refused = { act: 'client.update', target, outcome: 'invalid_type', status: 400 };
  await until(
    () => readAudit(auditFile).lines.some((one) => one.outcome === 'invalid_type'),
    'the refusal',
  );
  expect(readAudit(auditFile).lines).toContainEqual(expect.objectContaining(refused));
  expect(service.output()).toContain('"act":"client.put"');
  for (const text of [service.output(), JSON.stringify(readAudit(auditFile))])
    for (const told of [value, mistyped]) expect(text).not.toContain(told);
});
