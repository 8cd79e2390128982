import { readFileSync } from 'node:fs';
import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest';
import { postgresBin, query } from '../support/postgres.ts';
import {
  createClient,
  kinds,
  leastPrivilegePlace,
  type NewClient,
  newPlace,
  runCli,
  type Service,
  startService,
  until,
} from '../support/service.ts';

const POLICY = `
version: 1
kinds:
  card: { shape: digits, keep_last: 4, suffix: false, mask: { show: ends, last: 4 } }
  mail: { shape: email, keep: domain, normalize: [trim, lower_case], tokens: deterministic }
  note: { shape: word, tokens: random }
  phone: { shape: digits, normalize: [e164], country: US }
fields:
  customer.email: mail
  customer["full name"]: text
  cards[*].number: card
  born: date
  note: note
  many[*].long: text
  phones[*]: phone
elsewhere: pass
rights:
  "*": { "*": full }
  support: { card: masked, mail: masked, date: masked, note: masked, text: full }
  courier: { text: full }
  viewer: { text: masked }
  stranger: { date: full }
`;

/** Numbers that JSON.parse would change, odd white space, escapes, and names like numbers. */
const RECORD = `{
  "id": 12345678901234567890, "10": 1.0, "9": [true, null, {"x": -0.50e+3}],
  "customer": {"email" : " Ann.Lee@Example.COM ","full name":"Ann \\u00c9lise \\"Lee\\"", "age": null},
  "cards":[{"number":"4111 1111 1111 1111","cvc":null},{"number":null},{"number":""}],
  "born": "1985-04-12", "note":"call\\nback", "memo": "not in the policy"
}`;

/** The status and text of the answer. */
async function send(
  { url }: Service,
  operation: string,
  data: string,
  apiKey: string,
  headers: Record<string, string> = {},
) {
  const response = await fetch(`${url}/api/v1/${operation}`, {
    method: 'POST',
    headers: {
      authorization: `Bearer ${apiKey}`,
      'content-type': 'application/json',
      ...headers,
    },
    body: `{"data":${data}}`,
  });
  return { status: response.status, headers: response.headers, text: await response.text() };
}

/** Processor time of the thread that serves HTTP and of all others, in clock ticks. */
function cpuOf(pid: number): { readonly ofMain: number; readonly ofOthers: number } {
  const ticks = (path: string) => {
    const [, user, system] = /\) (?:\S+ ){11}(\d+) (\d+)/.exec(readFileSync(path, 'utf8'))!;
    return Number(user) + Number(system);
  };
  const ofMain = ticks(`/proc/${pid}/task/${pid}/stat`);
  return { ofMain, ofOthers: ticks(`/proc/${pid}/stat`) - ofMain };
}

/** The text of `data` in an answer. */
function dataIn(text: string): string {
  const from = '{"data":'.length;
  return text.slice(from, text.search(/,"(?:unapplied|status|request_id)":/));
}

describe.skipIf(postgresBin === undefined || !kinds().includes('server'))('with a policy', () => {
  let service: Service;
  const clients: Record<string, NewClient> = {};
  const key = (name: string) => clients[name]!.api_key;

  beforeAll(async () => {
    const place = await newPlace('server', inject('serverUrl'));
    service = await startService(place, { AUDIT_LOG: 'stdout' });
    for (const name of ['app', 'support', 'courier', 'viewer', 'stranger']) {
      const operations = name === 'app' ? 'tokenize,detokenize,lookup' : 'detokenize';
      clients[name] = await createClient(place, '--name', name, '--can', operations);
    }
    await query(
      place.env.DATABASE_URL!,
      'insert into standin.policies (version, document) values (1, $1)',
      [POLICY],
    );
    await until(
      async () =>
        dataIn((await send(service, 'tokenize', '{"a":1}', key('app'))).text) === '{"a":1}',
      'the policy is in force',
    );
  });

  afterAll(() => service?.stop());

  test('a whole record goes there and back, all else byte for byte', async () => {
    const { status, text } = await send(service, 'tokenize', RECORD, key('app'));
    expect([status, text.slice(0, 9)]).toEqual([200, '{"data":{']);
    const tokens = dataIn(text);
    expect(tokens).not.toContain('Ann');
    expect(tokens).toMatch(/"number":"\d{4} \d{4} \d{4} 1111"/);
    expect(tokens).toContain(
      '"id": 12345678901234567890, "10": 1.0, "9": [true, null, {"x": -0.50e+3}]',
    );
    const back = await send(service, 'detokenize', tokens, key('app'));
    // The uniform spelling of the address is what comes back.
    expect(dataIn(back.text)).toBe(
      RECORD.replace('" Ann.Lee@Example.COM "', '"ann.lee@example.com"').replace('\\u00c9', 'É'),
    );
  });

  test('rights: masked and none, by the kind of the record', async () => {
    const tokens = dataIn((await send(service, 'tokenize', RECORD, key('app'))).text);
    const masked = dataIn((await send(service, 'detokenize', tokens, key('support'))).text);
    expect(masked).toContain('"email" : "a***@example.com"');
    expect(masked).toContain('{"number":"**** 1111"');
    expect(masked).toContain('"born": "1985"');
    expect(masked).toContain('"full name":"Ann Élise \\"Lee\\""');
    const refused = await send(service, 'detokenize', tokens, key('courier'));
    expect(refused.status).toBe(403);
    expect(JSON.parse(refused.text).message).toBe(
      'data.customer.email: this client may not see values of kind mail; an operator can allow it in the policy',
    );
  });

  async function auditLineOf(headers: Headers): Promise<string> {
    const id = headers.get('x-request-id')!;
    const line = () =>
      service
        .output()
        .split('\n')
        .find((one) => one.includes('"event":"detokenize"') && one.includes(id));
    await until(() => line() !== undefined, 'the audit line');
    return line()!;
  }

  test('the audit line says what was seen of which kind', async () => {
    const tokens = dataIn((await send(service, 'tokenize', RECORD, key('app'))).text);
    const { headers } = await send(service, 'detokenize', tokens, key('support'));
    const line = await auditLineOf(headers);
    const once = { masked: 1 };
    expect(JSON.parse(line).seen).toEqual({
      ...{ mail: once, card: once, date: once, note: once },
      text: { full: 1 },
    });
  });

  test('the audit line counts the values that the caller got, not the places that stayed', async () => {
    const tokens = JSON.parse(dataIn((await send(service, 'tokenize', RECORD, key('app'))).text));
    const data = JSON.stringify({ customer: tokens.customer, born: 'no token' });
    const lenient = { prefer: 'handling=lenient' };
    const { status, headers } = await send(service, 'detokenize', data, key('courier'), lenient);
    const line = await auditLineOf(headers);
    // Its e-mail is of a kind that the courier may not see.
    expect(status).toBe(200);
    expect(JSON.parse(line)).toMatchObject({
      ...{ outcome: 'success', values: 1, forbidden: 1 },
      seen: { mail: { none: 1 }, text: { full: 1 } },
    });
  });

  test('a card cannot be laundered through a path of another kind', async () => {
    const tokens = JSON.parse(dataIn((await send(service, 'tokenize', RECORD, key('app'))).text));
    const card = JSON.stringify(tokens.cards[0].number);
    for (const data of [
      `{"customer":{"full name":${card}}}`,
      `{"born":${card}}`,
      `{"note":${card}}`,
    ]) {
      const asSupport = await send(service, 'detokenize', data, key('support'));
      expect(asSupport.text).toContain('**** 1111');
      expect(asSupport.text).not.toContain('4111');
      const asCourier = await send(service, 'detokenize', data, key('courier'));
      expect([asCourier.status, asCourier.text.includes('4111')]).toEqual([403, false]);
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
    const data = '{"born":"abc_tok"}';
    const { status, headers } = await send(service, 'detokenize', data, key('app'), { prefer });
    const applied = expected === 200 ? 'handling=lenient' : null;
    expect([status, headers.get('preference-applied')]).toEqual([expected, applied]);
  });

  test('a lenient answer leaves unknown and forbidden places as they were sent', async () => {
    const tokens = JSON.parse(dataIn((await send(service, 'tokenize', RECORD, key('app'))).text));
    tokens.born = 'abc_tok';
    const body = JSON.stringify(tokens);
    const lenient = { prefer: 'respond-async, handling=lenient' };
    const { status, headers, text } = await send(
      service,
      'detokenize',
      body,
      key('courier'),
      lenient,
    );
    expect([status, headers.get('preference-applied')]).toEqual([200, 'handling=lenient']);
    const answer = JSON.parse(text);
    expect(answer.unapplied).toEqual([
      { path: 'data.customer.email', reason: 'forbidden' },
      { path: 'data.cards[0].number', reason: 'forbidden' },
      { path: 'data.born', reason: 'unknown' },
      { path: 'data.note', reason: 'forbidden' },
    ]);
    expect(answer.data).toEqual({
      ...tokens,
      customer: { ...tokens.customer, 'full name': 'Ann Élise "Lee"' },
    });
    expect(Object.keys(answer)).toEqual(['data', 'unapplied', 'status', 'request_id', 'client_id']);
    const strict = await send(service, 'detokenize', body, key('courier'));
    expect([strict.status, strict.headers.has('preference-applied')]).toEqual([400, false]);
  });

  test('what the client and the bulk commands send is tokenized, though no path leads there', async () => {
    const env = { STANDIN_URL: service.url, STANDIN_API_KEY: key('app') };
    const one = await runCli(['tokenize', 'ann@example.com'], service.place, env);
    expect([one.code, one.stdout]).toEqual([
      0,
      expect.stringMatching(/^[a-z]+@[a-z]+\.[a-z]+_tok\n$/),
    ]);
    const back = await runCli(['detokenize', one.stdout.trim()], service.place, env);
    expect(back.stdout).toBe('ann@example.com\n');
    const numbers = await send(service, 'tokenize', '{"values":["a",1]}', key('app'));
    expect(numbers.status).toBe(400);
  });

  test('a lenient answer of long values has values, also beside unknown tokens', async () => {
    const long = Array.from({ length: 6 }, (_, i) => `${i} ${'x y '.repeat(500)}`);
    const data = (texts: string[]) =>
      JSON.stringify({ many: texts.map((text) => ({ long: text })), customer: null });
    const tokens = JSON.parse(
      dataIn((await send(service, 'tokenize', data(long), key('app'))).text),
    );
    const asked = data([...tokens.many.map((one: any) => one.long), `${'z'.repeat(300)}_tok`]);
    const lenient = { prefer: 'handling=lenient' };
    const { text } = await send(service, 'detokenize', asked, key('app'), lenient);
    const answer = JSON.parse(text);
    expect(answer.data.many.map((one: any) => one.long).slice(0, 6)).toEqual(long);
    expect(answer.unapplied).toEqual([{ path: 'data.many[6].long', reason: 'unknown' }]);
    expect((await send(service, 'detokenize', asked, key('app'))).status).toBe(400);
  });

  test('no response tells how long a value is that the caller may not see', async () => {
    const texts = ['s', 'l'].map((one) => one.repeat(one === 's' ? 300 : 65_536));
    const stored = JSON.stringify({ values: texts });
    const [short, long] = JSON.parse(
      dataIn((await send(service, 'tokenize', stored, key('app'))).text),
    ).values;
    // More bytes than a response may have, if they were counted.
    const responses = async (token: string) => {
      const all: string[] = [];
      for (const who of ['viewer', 'stranger'])
        for (const prefer of ['handling=strict', 'handling=lenient']) {
          const data = JSON.stringify({ values: Array(300).fill(token) });
          const { status, text } = await send(service, 'detokenize', data, key(who), { prefer });
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
    const all = JSON.stringify({ values: Array(300).fill(long) });
    expect((await send(service, 'detokenize', all, key('app'))).status).toBe(400);
  });

  test('nine thousand places of a lenient response have their paths, after one walk', async () => {
    const values = { values: Array.from({ length: 9_000 }, (_, i) => ({ a: { b: `${i}` } })) };
    const records = Array.from({ length: 9_000 }, () => ({ born: 'x' }));
    const lenient = { prefer: 'handling=lenient' };
    for (const [data, path] of [
      [values, 'data.values[8999].a.b'],
      [records, 'data[8999].born'],
    ] as const) {
      const body = JSON.stringify(data);
      const { text } = await send(service, 'detokenize', body, key('stranger'), lenient);
      const { unapplied } = JSON.parse(text);
      expect([unapplied.length, unapplied[8_999].path]).toEqual([9_000, path]);
    }
  });

  test('a lenient response whose paths are too large is refused before they are made', async () => {
    const nest = (inner: string) =>
      `{"values":[${`{"${'\\u0000'.repeat(256)}":`.repeat(11)}${inner}${'}'.repeat(11)}]}`;
    const lenient = { prefer: 'handling=lenient' };
    const ask = (places: number) =>
      send(service, 'detokenize', nest(`[${Array(places).fill('""')}]`), key('stranger'), lenient);
    const large = await ask(800);
    const { unapplied } = JSON.parse(large.text);
    expect([large.status, unapplied.length, large.text.length > 15_000_000]).toEqual([
      ...[200, 800, true],
    ]);
    expect(unapplied[799].path).toMatch(/^data\.values\[0\](\["(\\u0000){256}"\]){11}\[799\]$/);
    const refused = await ask(9_999);
    expect([refused.status, refused.text]).toEqual([400, expect.stringContaining('16777216')]);
  });

  test.skipIf(process.platform !== 'linux')(
    'ten thousand telephone numbers are read off the thread that serves HTTP',
    async () => {
      const phones = Array.from(
        { length: 9_999 },
        (_, i) => `+44 7700 9${`${i}`.padStart(5, '0')}`,
      );
      const before = cpuOf(service.pid);
      const data = JSON.stringify({ phones: [...phones, 'none'] });
      const { status, text } = await send(service, 'tokenize', data, key('app'));
      const after = cpuOf(service.pid);
      expect([status, text]).toEqual([400, expect.stringContaining('data.phones[9999]: is not a')]);
      expect(after.ofMain - before.ofMain).toBeLessThan(after.ofOthers - before.ofOthers);
      const mixed = {
        born: '1985-04-12',
        phones: ['(212) 555-0123', '+12125550123', '+442071838750'],
      };
      const tokens = dataIn(
        (await send(service, 'tokenize', JSON.stringify(mixed), key('app'))).text,
      );
      expect(
        JSON.parse(dataIn((await send(service, 'detokenize', tokens, key('app'))).text)),
      ).toEqual({ ...mixed, phones: ['+12125550123', '+12125550123', '+442071838750'] });
    },
  );

  test('a look-up finds tokens, and stores nothing', async () => {
    const data = '{"customer":{"email":"ANN.lee@example.com "},"born":"1985-04-12"}';
    const there = dataIn((await send(service, 'tokenize', data, key('app'))).text);
    expect(dataIn((await send(service, 'lookup', data, key('app'))).text)).toBe(there);
    const rows = () =>
      query(service.place.env.DATABASE_URL!, 'select count(*) from standin.records');
    const before = await rows();
    const unknown = '{"customer":{"email":"never@example.com"},"born":"1985-04-13"}';
    expect(dataIn((await send(service, 'lookup', unknown, key('app'))).text)).toBe(
      '{"customer":{"email":null},"born":null}',
    );
    expect(await rows()).toEqual(before);
    const { born } = JSON.parse(there);
    const forgotten = await runCli(['forget', born, '--yes'], service.place);
    expect(forgotten.code, forgotten.stderr).toBe(0);
    expect(JSON.parse(dataIn((await send(service, 'lookup', data, key('app'))).text)).born).toBe(
      null,
    );
    expect((await send(service, 'lookup', '{"note":"x"}', key('app'))).text).toContain(
      'data.note: ',
    );
    expect((await send(service, 'lookup', data, key('support'))).status).toBe(403);
    const options = ['--can', 'tokenize,detokenize,lookup', '--token-mode', 'random'];
    const random = await createClient(service.place, ...options);
    const refused = await send(service, 'lookup', data, random.api_key);
    expect(refused.text).toContain('data.born: tokens of kind date are random');
    const mail = JSON.stringify({ customer: JSON.parse(data).customer });
    const found = await send(service, 'lookup', mail, random.api_key);
    expect(JSON.parse(dataIn(found.text)).customer).toEqual(JSON.parse(there).customer);
  });

  test.each([
    ['{"customer":"Ann"}', 'data.customer: must be an object or null, not a string'],
    ['{"customer":{"email":7}}', 'data.customer.email: must be a string or null, not a number'],
    [
      '{"customer":{"email":{"a":1}}}',
      'data.customer.email: must be a string or null, not an object',
    ],
    ['{"cards":{"number":"1"}}', 'data.cards: must be'],
    ['{"cards":[{"number":"12 34"}]}', 'data.cards[0].number: has too few digits'],
    [
      '{"cards":[{},{"number":true}]}',
      'data.cards[1].number: must be a string or null, not a boolean',
    ],
    ['{"born":"1985-02-30"}', 'data.born: '],
    ['{"customer":{"email":"ann"}}', 'data.customer.email: is not an e-mail address'],
  ])('%s is refused: nothing stays in clear by mistake', async (data, message) => {
    const { status, text } = await send(service, 'tokenize', data, key('app'));
    expect([status, JSON.parse(text).error]).toEqual([400, 'invalid_type']);
    expect(JSON.parse(text).message).toContain(message);
  });

  test('a token of another space is unknown, and equal values have unrelated tokens', async () => {
    const { place } = service;
    const other = await createClient(place, '--space', 'tenant-2', '--can', 'tokenize,detokenize');
    const twin = await createClient(place, '--space', 'tenant-2');
    const data = '{"customer":{"full name":"Ann Lee"},"born":"1985-04-12"}';
    const [ours, theirs, again] = await Promise.all(
      [key('app'), other.api_key, twin.api_key].map(async (apiKey) =>
        dataIn((await send(service, 'tokenize', data, apiKey)).text),
      ),
    );
    expect(theirs).toBe(again);
    expect(theirs).not.toBe(ours);
    expect(dataIn((await send(service, 'detokenize', theirs!, twin.api_key)).text)).toBe(data);
    expect((await send(service, 'detokenize', theirs!, key('app'))).status).toBe(400);
    expect((await send(service, 'detokenize', ours!, other.api_key)).status).toBe(400);
    const [token] = Object.values(JSON.parse(theirs!).customer) as string[];
    const forget = (...options: string[]) =>
      runCli(['forget', token!, '--yes', '--json', ...options], place);
    expect(JSON.parse((await forget()).stdout)).toMatchObject({ forgotten: 0, unknown: 1 });
    expect(JSON.parse((await forget('--space', 'tenant-2')).stdout)).toMatchObject({
      forgotten: 1,
    });
    expect((await send(service, 'detokenize', theirs!, twin.api_key)).status).toBe(400);
  });

  test('rights hold for records from before, after a rotation, a reseal and a verify', async () => {
    const { place } = service;
    const tokens = dataIn((await send(service, 'tokenize', RECORD, key('app'))).text);
    for (const args of [['keyring', 'rotate'], ['keyring', 'reseal'], ['verify']]) {
      const { code, stderr } = await runCli(args, place);
      expect([args, code, stderr]).toEqual([args, 0, expect.anything()]);
    }
    expect((await send(service, 'detokenize', tokens, key('courier'))).status).toBe(403);
    const masked = dataIn((await send(service, 'detokenize', tokens, key('support'))).text);
    expect(masked).toContain('{"number":"**** 1111"');
    expect(dataIn((await send(service, 'detokenize', tokens, key('app'))).text)).toContain(
      '4111 1111',
    );
  });

  test('a process that stood still serves no request by an older policy', async () => {
    const tokens = dataIn(
      (await send(service, 'tokenize', '{"born":"1985-04-12"}', key('app'))).text,
    );
    expect((await send(service, 'detokenize', tokens, key('support'))).status).toBe(200);
    process.kill(service.pid, 'SIGSTOP');
    const stricter = POLICY.replace('date: masked', 'date: none');
    await query(
      service.place.env.DATABASE_URL!,
      'insert into standin.policies (version, document, applied_at) values (2, $1, now())',
      [stricter],
    );
    // The lease of 5 s ends while it stands still: the clock of the machine goes on.
    await query(service.place.env.DATABASE_URL!, 'select pg_sleep(5.5)');
    const asked = send(service, 'detokenize', tokens, key('support'));
    process.kill(service.pid, 'SIGCONT');
    expect((await asked).status).toBe(403);
  });

  test('without the right to read the policy nothing is served, and the log says what to do', async () => {
    const place = await leastPrivilegePlace(inject('serverUrl'));
    const limited = await startService(place);
    const role = new URL(place.service!.env.DATABASE_URL!).username;
    expect((await send(limited, 'tokenize', '{"a":"b"}', limited.api_key)).status).toBe(200);
    await query(place.env.DATABASE_URL!, `revoke select on standin.policies from ${role}`);
    await until(
      () => limited.output().includes('standin migrate --grant-to ROLE'),
      'the log has the problem',
    );
    await query(place.env.DATABASE_URL!, 'select pg_sleep(5)');
    expect((await send(limited, 'tokenize', '{"a":"b"}', limited.api_key)).status).toBe(500);
    await limited.stop();
  });
});
