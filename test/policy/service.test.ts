import { readFileSync } from 'node:fs';
import { expect, inject, test } from 'vitest';
import { governed } from '../support/policy.ts';
import {
  createClient,
  kinds,
  leastPrivilegePlace,
  runCli,
  runJson,
  startService,
  until,
} from '../support/service.ts';
import { sql } from '../support/vault.ts';

const POLICY = `
version: 1
kinds:
  card: { shape: digits, keep_last: 4, suffix: false, mask: { show: ends, last: 4 } }
  mail: { shape: email, keep: domain, normalize: [trim, lower_case], tokens: deterministic }
  note: { shape: word, tokens: random }
  phone: { shape: digits, normalize: [e164], country: US }
  nick: { shape: text, mask: { show: ends, last: 2 } }
  brief: { shape: text, time_to_live_s: 60 }
fields:
  customer.email: mail
  customer["full name"]: text
  cards[*].number: card
  born: date
  note: note
  many[*].long: text
  phones[*]: phone
  nick: nick
  brief: brief
elsewhere: pass
rights:
  "*": { "*": full }
  support: { card: masked, mail: masked, date: masked, note: masked, text: full }
  courier: { text: full }
  viewer: { text: masked }
  stranger: { date: full }
  masked: { "*": masked }
`;

/** Numbers that JSON.parse would change, odd white space, escapes, and names like numbers. */
const RECORD = `{
  "id": 12345678901234567890, "10": 1.0, "9": [true, null, {"x": -0.50e+3}],
  "customer": {"email" : " Ann.Lee@Example.COM ","full name":"Ann \\u00c9lise \\"Lee\\"", "age": null},
  "cards":[{"number":"4111 1111 1111 1111","cvc":null},{"number":null},{"number":""}],
  "born": "1985-04-12", "note":"call\\nback", "memo": "not in the policy"
}`;
const BORN = '{"born":"1985-04-12"}';
const LENIENT = { prefer: 'handling=lenient' };

const reader = ['--can', 'detokenize'];
const at = governed(
  POLICY,
  { support: reader, courier: reader, viewer: reader, stranger: reader, masked: reader },
  { AUDIT_LOG: 'stdout' },
);
const { send } = at;
const tokensOf = async (data: unknown = RECORD, who?: string) =>
  (await send('tokenize', data, who)).data;

/** Processor time of the thread that serves HTTP and of all others, in clock ticks. */
function cpuOf(pid: number): { readonly ofMain: number; readonly ofOthers: number } {
  const ticks = (path: string) => {
    const [, user, system] = /\) (?:\S+ ){11}(\d+) (\d+)/.exec(readFileSync(path, 'utf8'))!;
    return Number(user) + Number(system);
  };
  const ofMain = ticks(`/proc/${pid}/task/${pid}/stat`);
  return { ofMain, ofOthers: ticks(`/proc/${pid}/stat`) - ofMain };
}

test('a whole record goes there and back, all else byte for byte', async () => {
  const tokens = await tokensOf();
  expect(tokens).not.toContain('Ann');
  expect(tokens).toMatch(/"number":"\d{4} \d{4} \d{4} 1111"/);
  const rest = '"id": 12345678901234567890, "10": 1.0, "9": [true, null, {"x": -0.50e+3}]';
  expect(tokens).toContain(rest);
  // The normalized address is what comes back.
  const back = RECORD.replace('" Ann.Lee@Example.COM "', '"ann.lee@example.com"');
  expect((await send('detokenize', tokens)).data).toBe(back.replace('\\u00c9', 'É'));
});

test('a client gets masks and refusals by the kind of the record', async () => {
  const tokens = await tokensOf();
  const masked = (await send('detokenize', tokens, 'support')).data;
  expect(masked).toContain('"email" : "a***@example.com"');
  expect(masked).toContain('{"number":"**** 1111"');
  expect(masked).toContain('"born": "1985"');
  expect(masked).toContain('"full name":"Ann Élise \\"Lee\\""');
  const { status, body } = await send('detokenize', tokens, 'courier');
  expect([status, body.message]).toEqual([
    403,
    'data.customer.email: this client may not see values of kind mail; an operator can allow it in the policy',
  ]);
});

async function auditLineOf(headers: Headers): Promise<unknown> {
  const id = headers.get('x-request-id')!;
  const lines = () => at.service.output().split('\n');
  const line = () =>
    lines().find((one) => one.includes('"event":"detokenize"') && one.includes(id));
  await until(() => line() !== undefined, 'the audit line');
  return JSON.parse(line()!);
}

test('the audit line says what was seen of which kind', async () => {
  const { headers } = await send('detokenize', await tokensOf(), 'support');
  const once = { masked: 1 };
  const seen = { mail: once, card: once, date: once, note: once, text: { full: 1 } };
  expect(await auditLineOf(headers)).toHaveProperty('seen', seen);
});

test('the audit line counts the values that the caller got, not the places that stayed', async () => {
  const { customer } = JSON.parse(await tokensOf());
  const data = { customer, born: 'no token' };
  const { status, headers } = await send('detokenize', data, 'courier', LENIENT);
  expect(status).toBe(200);
  // Its e-mail is of a kind that the courier may not see.
  expect(await auditLineOf(headers)).toMatchObject({
    ...{ outcome: 'success', values: 1, forbidden: 1 },
    seen: { mail: { none: 1 }, text: { full: 1 } },
  });
});

test('a card cannot be laundered through a path of another kind', async () => {
  const card = JSON.parse(await tokensOf()).cards[0].number;
  for (const data of [{ customer: { 'full name': card } }, { born: card }, { note: card }]) {
    const { text } = await send('detokenize', data, 'support');
    expect([text.includes('**** 1111'), text.includes('4111')]).toEqual([true, false]);
    const refused = await send('detokenize', data, 'courier');
    expect([refused.status, refused.text.includes('4111')]).toEqual([403, false]);
  }
});

test.each([
  ['handling=lenient', 200],
  ['Handling = "Lenient"; a=b, handling=strict', 200],
  ['wait="1, \\" handling=strict,", handling=lenient', 200],
  ['handling=strict, handling=lenient', 400],
  ['handling, handling=lenient', 400],
  ['handling=lenientX', 400],
  ['x-handling=lenient', 400],
  ['wait="a, handling=lenient"', 400],
])('Prefer: %s is a %i where a token is unknown', async (prefer, expected) => {
  const { status, headers } = await send('detokenize', { born: 'abc_tok' }, 'app', { prefer });
  const applied = expected === 200 ? 'handling=lenient' : null;
  expect([status, headers.get('preference-applied')]).toEqual([expected, applied]);
});

test('a lenient answer leaves unknown and forbidden places as they were sent', async () => {
  const tokens = JSON.parse(await tokensOf());
  tokens.born = 'abc_tok';
  const prefer = 'respond-async, handling=lenient';
  const { status, headers, body } = await send('detokenize', tokens, 'courier', { prefer });
  expect([status, headers.get('preference-applied')]).toEqual([200, 'handling=lenient']);
  expect(body.unapplied).toEqual([
    { path: 'data.customer.email', reason: 'forbidden' },
    { path: 'data.cards[0].number', reason: 'forbidden' },
    { path: 'data.born', reason: 'unknown' },
    { path: 'data.note', reason: 'forbidden' },
  ]);
  const customer = { ...tokens.customer, 'full name': 'Ann Élise "Lee"' };
  expect(body.data).toEqual({ ...tokens, customer });
  expect(Object.keys(body)).toEqual(['data', 'unapplied', 'status', 'request_id', 'client_id']);
  const strict = await send('detokenize', tokens, 'courier');
  expect([strict.status, strict.headers.has('preference-applied')]).toEqual([400, false]);
});

test('a lenient answer of long values has values, also beside unknown tokens', async () => {
  const long = Array.from({ length: 6 }, (_, i) => `${i} ${'x y '.repeat(16_000)}`);
  const data = (texts: string[]) => ({ many: texts.map((text) => ({ long: text })) });
  const longOf = ({ many }: any): string[] => many.map((one: any) => one.long);
  const tokens = longOf(JSON.parse(await tokensOf(data(long))));
  const unknown = `${'z'.repeat(300)}_tok`;
  // Longer than what is written as a whole.
  const asked = data([...Array(6).fill(tokens).flat(), unknown]);
  const { body } = await send('detokenize', asked, 'app', LENIENT);
  expect(longOf(body.data).slice(0, 6)).toEqual(long);
  expect(body.unapplied).toEqual([{ path: 'data.many[36].long', reason: 'unknown' }]);
  expect((await send('detokenize', asked)).status).toBe(400);
});

test('no response tells how long a value is that the caller may not see', async () => {
  const values = ['s'.repeat(300), 'l'.repeat(65_536)];
  const [short, long] = JSON.parse(await tokensOf({ values })).values;
  // More bytes than a response may have, if they were counted.
  const many = (token: string) => ({ values: Array(300).fill(token) });
  const responses = async (token: string) => {
    const all: string[] = [];
    for (const who of ['viewer', 'stranger'])
      for (const prefer of ['handling=strict', 'handling=lenient']) {
        const { status, text } = await send('detokenize', many(token), who, { prefer });
        all.push(`${who} ${prefer} ${status} ${text.replaceAll(/"request_id":"[^"]+"/g, '')}`);
      }
    return all;
  };
  const ofShort = await responses(short);
  expect(ofShort.map((one) => one.slice(0, 60))).toEqual([
    expect.stringMatching(/^viewer handling=strict 200 .*"\*{4}",/),
    expect.stringMatching(/^viewer handling=lenient 200 .*"\*{4}",/),
    expect.stringMatching(/^stranger handling=strict 403 /),
    expect.stringMatching(/^stranger handling=lenient 200 /),
  ]);
  expect(await responses(long)).toEqual(ofShort.map((one) => one.replaceAll(short, long)));
  expect((await send('detokenize', many(long))).status).toBe(400);
});

test('nine thousand places of a lenient response have their paths, after one walk', async () => {
  const values = { values: Array.from({ length: 9_000 }, (_, i) => ({ a: { b: `${i}` } })) };
  const records = Array(9_000).fill({ born: 'x' });
  for (const [data, path] of [
    [values, 'data.values[8999].a.b'],
    [records, 'data[8999].born'],
  ] as const) {
    const { unapplied } = (await send('detokenize', data, 'stranger', LENIENT)).body;
    expect([unapplied.length, unapplied[8_999].path]).toEqual([9_000, path]);
  }
});

test('a lenient response whose paths are too large is refused before they are made', async () => {
  const nest = (inner: string) =>
    `{"values":[${`{"${'\\u0000'.repeat(256)}":`.repeat(11)}${inner}${'}'.repeat(11)}]}`;
  const ask = (places: number) =>
    send('detokenize', nest(`[${Array(places).fill('""')}]`), 'stranger', LENIENT);
  const { status, text, body } = await ask(800);
  const { unapplied } = body;
  expect([status, unapplied.length, text.length > 15_000_000]).toEqual([200, 800, true]);
  expect(unapplied[799].path).toMatch(/^data\.values\[0\](\["(\\u0000){256}"\]){11}\[799\]$/);
  const refused = await ask(9_999);
  expect([refused.status, refused.text]).toEqual([400, expect.stringContaining('16777216')]);
});

test.skipIf(process.platform !== 'linux')(
  'ten thousand telephone numbers are read off the thread that serves HTTP',
  async () => {
    const number = (_: unknown, i: number) => `+44 7700 9${`${i}`.padStart(5, '0')}`;
    const phones = [...Array.from({ length: 9_999 }, number), 'none'];
    const before = cpuOf(at.service.pid);
    const { status, text } = await send('tokenize', { phones });
    const after = cpuOf(at.service.pid);
    expect([status, text]).toEqual([400, expect.stringContaining('data.phones[9999]: is not a')]);
    expect(after.ofMain - before.ofMain).toBeLessThan(after.ofOthers - before.ofOthers);
    const mixed = ['(212) 555-0123', '+12125550123', '+442071838750'];
    const tokens = await tokensOf({ born: '1985-04-12', phones: mixed });
    const back = { born: '1985-04-12', phones: ['+12125550123', ...mixed.slice(1)] };
    expect((await send('detokenize', tokens)).body.data).toEqual(back);
  },
);

test('a look-up finds tokens, and stores nothing', async () => {
  const { place } = at.service;
  const data = '{"customer":{"email":"ANN.lee@example.com "},"born":"1985-04-12"}';
  const there = await tokensOf(data);
  expect((await send('lookup', data)).data).toBe(there);
  const rows = () => sql(place, 'select count(*) from standin.records');
  const before = await rows();
  const unknown = { customer: { email: 'never@example.com' }, born: '1985-04-13' };
  expect((await send('lookup', unknown)).body.data).toEqual({
    ...{ customer: { email: null }, born: null },
  });
  expect(await rows()).toEqual(before);
  await runJson(place, 'forget', JSON.parse(there).born, '--yes');
  expect((await send('lookup', data)).body.data.born).toBe(null);
  expect((await send('lookup', { note: 'x' })).text).toContain('data.note: ');
  expect((await send('lookup', data, 'support')).status).toBe(403);
  const can = ['--can', 'tokenize,detokenize,lookup'];
  const { api_key: random } = await createClient(place, ...can, '--token-mode', 'random');
  const refused = await send('lookup', data, random);
  expect(refused.text).toContain('data.born: tokens of kind date are random');
  const { customer } = JSON.parse(data);
  const found = await send('lookup', { customer }, random);
  expect(found.body.data.customer).toEqual(JSON.parse(there).customer);
});

test.each([
  ['data.customer: must be an object or null, not a string', '{"customer":"Ann"}'],
  ['data.customer.email: must be a string or null, not a number', '{"customer":{"email":7}}'],
  ['data.customer.email: must be a string or null, not an object', '{"customer":{"email":{}}}'],
  ['data.cards: must be', '{"cards":{"number":"1"}}'],
  ['data.cards[0].number: has too few digits', '{"cards":[{"number":"12 34"}]}'],
  ['data.cards[1].number: must be a string or null, not a bool', '{"cards":[{},{"number":true}]}'],
  ['data.born: ', '{"born":"1985-02-30"}'],
  ['data.customer.email: is not an e-mail address', '{"customer":{"email":"ann"}}'],
  ['data.nick: must', '{"nick":"\\ud800"}'],
  ['data.nick: must', `{"nick":"${'x'.repeat(65_537)}"}`],
])('%s: refused, so that nothing stays in clear by mistake', async (message, data) => {
  const { status, body } = await send('tokenize', data);
  expect([status, body.error]).toEqual([400, 'invalid_type']);
  expect(body.message).toContain(message);
});

test('a token of another space is unknown, and equal values have unrelated tokens', async () => {
  const { place } = at.service;
  const inSpace = ['--space', 'tenant-2', '--can', 'tokenize,detokenize'];
  const { api_key: other } = await createClient(place, ...inSpace);
  const { api_key: twin } = await createClient(place, ...inSpace);
  const data = '{"customer":{"full name":"Ann Lee"},"born":"1985-04-12"}';
  const [ours, theirs, again] = await Promise.all(
    ['app', other, twin].map((who) => tokensOf(data, who)),
  );
  expect(theirs).toBe(again);
  expect(theirs).not.toBe(ours);
  expect((await send('detokenize', theirs, twin)).data).toBe(data);
  expect((await send('detokenize', theirs)).status).toBe(400);
  expect((await send('detokenize', ours, other)).status).toBe(400);
  const token = JSON.parse(theirs!).customer['full name'];
  const { stdout } = await runCli(['forget', token, '--yes', '--json'], place);
  expect(JSON.parse(stdout)).toMatchObject({ forgotten: 0, unknown: 1 });
  const forgotten = await runJson(place, 'forget', token, '--yes', '--space', 'tenant-2');
  expect(forgotten.forgotten).toBe(1);
  expect((await send('detokenize', theirs, twin)).status).toBe(400);
});

test('rights hold for records from before, after a rotation, a reseal and a verify', async () => {
  const tokens = await tokensOf();
  for (const args of [['keyring', 'rotate'], ['keyring', 'reseal'], ['verify']])
    await runJson(at.service.place, ...args);
  expect((await send('detokenize', tokens, 'courier')).status).toBe(403);
  expect((await send('detokenize', tokens, 'support')).data).toContain('{"number":"**** 1111"');
  expect((await send('detokenize', tokens)).data).toContain('4111 1111');
});

test('the time to live of a kind counts before that of a client, and each client has its own', async () => {
  const { place } = at.service;
  const lives: Record<string, unknown[]> = {};
  for (const [name, options] of Object.entries({ lasting: [], ending: ['--time-to-live', '1h'] })) {
    const { api_key: apiKey } = await createClient(place, ...options);
    await sql(place, 'delete from standin.records');
    await tokensOf({ nick: `Ann ${name}`, brief: `note of ${name}` }, apiKey);
    // Times are rounded up, by a tenth at most.
    const lived = 'round(extract(epoch from expires_at - now()) / 70)::int as about';
    const rows = await sql(place, `select ${lived} from standin.records order by 1`);
    lives[name] = rows.map(({ about }) => about);
  }
  expect(lives).toEqual({
    lasting: [1, null],
    ending: [1, expect.toSatisfy((about) => about > 45 && about < 60)],
  });
});

test('a process that stood still serves no request by an older policy', async () => {
  const { pid, place } = at.service;
  const tokens = await tokensOf(BORN);
  expect((await send('detokenize', tokens, 'support')).status).toBe(200);
  process.kill(pid, 'SIGSTOP');
  await at.insert(POLICY.replace('date: masked', 'date: none'));
  // The lease of 5 s ends while it stands still: the clock of the machine goes on.
  await sql(place, 'select pg_sleep(5.5)');
  const asked = send('detokenize', tokens, 'support');
  process.kill(pid, 'SIGCONT');
  expect((await asked).status).toBe(403);
});

test('a kind that leaves the policy stays in sight of a full right to *, and of no other', async () => {
  const tokens = await tokensOf({ nick: 'Annie Lee' });
  const seen = async (who: string) => (await send('detokenize', tokens, who)).body.data?.nick;
  expect([await seen('app'), await seen('masked')]).toEqual(['Annie Lee', '**** ee']);
  await at.apply(POLICY.replace(/ {2}nick: \{.*\n/, '').replace('nick: nick', 'nick: text'));
  const all = [await seen('app'), await seen('masked'), await seen('courier')];
  expect(all).toEqual(['Annie Lee', '****', undefined]);
  expect((await send('detokenize', tokens, 'courier')).status).toBe(403);
});

test.skipIf(!kinds().includes('server'))(
  'without the right to read the policy nothing is served, and the log says what to do',
  async () => {
    const place = await leastPrivilegePlace(inject('serverUrl'));
    const limited = await startService(place);
    const ask = () => send('tokenize', { a: 'b' }, limited.api_key, {}, limited);
    const role = new URL(place.service!.env.DATABASE_URL!).username;
    expect((await ask()).status).toBe(200);
    await sql(place, `revoke select on standin.policies from ${role}`);
    const remedy = 'standin migrate --grant-to ROLE';
    await until(() => limited.output().includes(remedy), 'the log has the problem');
    await sql(place, 'select pg_sleep(5)');
    expect((await ask()).status).toBe(500);
    await limited.stop();
  },
);
