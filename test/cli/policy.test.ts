import { beforeAll, describe, expect, test } from 'vitest';
import { POLICY_SCHEMA } from '../../src/policy/schema.ts';
import { commandsOf, placeFor, withVault } from '../support/command.ts';
import { applyPolicy } from '../support/policy.ts';
import { leastPrivilegePlace, newPlace, usualKinds } from '../support/service.ts';
import { COLOURS, hasTerminal, runOnTerminal } from '../support/terminal.ts';

const POLICY = `version: 1
kinds:
  card: { shape: digits, keep_last: 4 }
  code: { shape: digits, suffix: false, begins_with: "9" }
fields:
  customer.email: email
  cards[*].number: card
elsewhere: pass
rights:
  support: { card: masked, "*": full }
  "*": { text: masked }
`;

describe('policy check', () => {
  const at = placeFor('block');
  beforeAll(() => at.write('good.yaml', POLICY));

  test('needs no vault: an example of each kind in use, with its token and its mask', async () => {
    const printed = await at.text('policy check good.yaml');
    const [heading, ...rows] = printed.trimEnd().split('\n');
    expect(heading).toMatch(/^KIND +EXAMPLE +TOKEN +MASKED$/);
    for (const [i, row] of [
      /^text +Ann Lee +[a-z]{3} [a-z]{3}_tok +\*{4}$/,
      /^email +ann\.lee@example\.com +[a-z]+@[a-z]{7}\.[a-z]{3}_tok +a\*{3}@example\.com$/,
      /^card +4242 4242 4242 4242 +\d{4} \d{4} \d{4} 4242_tok +\*{4} 4242$/,
      /^code +4242 4242 4242 4242 +9\d{3} \d{4} \d{4} \d{4} +\*{4} 4242$/,
    ].entries())
      expect(rows[i]).toMatch(row);
    expect(rows).toHaveLength(4);
    // Drawn at random each time.
    expect(await at.text('policy check good.yaml')).not.toBe(printed);
    const { kinds, ...rest } = await at.json('policy check good.yaml');
    expect(rest).toEqual({ is_valid: true, mistakes: [], warnings: [] });
    const token = expect.stringMatching(/4242_tok$/);
    const card = { kind: 'card', value: '4242 4242 4242 4242', token, mask: '**** 4242' };
    expect(kinds[2]).toEqual(card);
  });

  test('lists all mistakes with file, line and column, and fails', async () => {
    at.write('bad.yaml', 'version: 1\nkinds:\n  card: { shape: digit }\nfeilds: {}\n');
    expect(await at.run('policy check bad.yaml')).toEqual({
      code: 1,
      stdout: `bad.yaml:3:18: shape: digit (did you mean digits?) is not known: choose text, email, digits, date, uuid, word
bad.yaml:4:1: feilds (did you mean fields?) is not known: choose version, kinds, fields, elsewhere, detect, rights
`,
      stderr: 'standin: 2 mistakes found.\n',
    });
    const { code, stdout } = await at.run('policy check bad.yaml --json');
    const mistakes = [
      { line: 3, column: 18, text: expect.stringContaining('digit') },
      { line: 4, column: 1, text: expect.stringContaining('feilds') },
    ];
    expect([code, JSON.parse(stdout)]).toEqual([1, { is_valid: false, mistakes }]);
  });

  test('says what becomes of each string of a record, as the policy would name it', async () => {
    const record = {
      customer: { email: 'a@b.cc', Email: 'a@b.cc', 'full name': 'Ann' },
      cards: [{ number: '4242 4242 4242 4242' }, { number: '4', note: 'n' }, { note: 'n' }],
      ...{ order: 7, none: '', nothing: null },
    };
    at.write('record.json', JSON.stringify(record));
    at.write('body.json', JSON.stringify({ data: record, more: 1 }));
    at.write('rows.ndjson', '{"customer":{"email":"a@b.cc"}}\n \n{"note":"n"}\n');
    // As clients send it that know no policy.
    at.write('values.json', '{"values":["a",["b"]]}');
    at.write('plain.yaml', 'version: 1');
    const row = (path: string, becomes: string, strings = 1, meant: string | null = null) => ({
      ...{ path, strings, becomes, meant },
    });
    const few = 'refused: has too few digits for kind card: 6 must be free';
    const rows = [
      row('customer.email', 'email'),
      row('customer.Email', 'in clear', 1, 'customer.email'),
      row('customer["full name"]', 'in clear'),
      row('cards[*].number', 'card'),
      row('cards[*].number', few),
      row('cards[*].note', 'in clear', 2),
    ];
    const texts = [row('values[*]', 'text'), row('values[*][*]', 'text')];
    for (const [policy, file, strings] of [
      ['good', 'record.json', rows],
      ['good', 'body.json', rows],
      ['good', 'rows.ndjson', [row('customer.email', 'email'), row('note', 'in clear')]],
      ['good', 'values.json', texts],
      ['plain', 'values.json', texts],
    ] as const) {
      const found = await at.json(`policy check ${policy}.yaml --record ${file}`);
      expect(found.strings, `${policy} ${file}`).toEqual(strings);
    }
    const stdout = await at.text('policy check good.yaml --record record.json');
    expect(stdout.split('\n\n')[1]).toMatch(
      /^PATH +STRINGS +BECOMES\n.*\ncustomer.Email +1 +in clear \(did you mean customer.email\?\)\n/,
    );
    expect(stdout).not.toContain('a@b.cc');
    at.write('record.json', '{}');
    const none = await at.text('policy check good.yaml --record record.json');
    expect(none).toMatch(/\n\nThere is no string\.\n$/);
  });

  test.each([
    ['{"customer":{"email":5}}', 'data.customer.email: must be a string or null, not a number'],
    ['{"customer":{"name":"a","name":"b"}}', 'the same field name twice'],
    ['name,email\nAnn,a@b.cc', 'must be valid JSON'],
    ['"text"', 'data: must be a JSON object'],
    ['x'.repeat(1_048_576), 'must be valid JSON'],
    ['x'.repeat(1_048_577), 'is larger than 1 MiB'],
  ])('refuses a record that tokenize would refuse: %.40s', async (record, problem) => {
    at.write('wrong.json', record);
    const stderr = await at.failure('policy check good.yaml --record wrong.json');
    expect(stderr).toMatch(/^standin: wrong\.json/);
    expect(stderr).toContain(problem);
  });

  test('says where a token could be real, and what a kind refuses; that is no mistake', async () => {
    const few = '{"shape":"digits","keep_first":5,"keep_last":6,"check_digits":"luhn"}';
    const more = `"few":${few},"phone":{"shape":"text","normalize":["e164"]}`;
    const pin = '"pin":{"shape":"digits","suffix":false}';
    at.write('risky.json', `{"version":1,"kinds":{${pin},${more}}}`);
    const stdout = await at.text('policy check risky.json');
    expect(stdout).toMatch(/^risky\.json:1:23: warning: the kind pin: .*somebody/);
    expect(stdout).toMatch(/^few +4242 4242 4242 4242 +refused: has too few digits/m);
    expect(stdout).toMatch(/^phone +\+1 415 555 2671 +\S/m);
  });

  test.each([
    ['none.yaml', 'none.yaml cannot be read (ENOENT)'],
    ['latin1.yaml', 'latin1.yaml is not UTF-8: '],
    ['.', '. is a folder: name a file'],
  ])('a file that cannot be read: %s', async (name, problem) => {
    at.write('latin1.yaml', Buffer.from('version: 1 # \xe9', 'latin1'));
    expect(await at.failure(`policy check ${name}`)).toContain(`standin: ${problem}`);
  });

  test('reads standard input, and no more of it than a policy may have', async () => {
    expect((await at.feed('policy check -', POLICY)).code).toBe(0);
    const stdout = 'standard input:1:1: a policy has at most 256 KiB\n';
    const large = `version: 1\n${'# é\n'.repeat(1 << 20)}`;
    expect(await at.feed('policy check -', large)).toMatchObject({ code: 1, stdout });
  });
});

describe.each(usualKinds())('policies of a vault on the %s database', (kind) => {
  const at = placeFor('block', () => newPlace(kind), withVault);
  const nobody = 'No client of the vault is called support: nobody will have these rights.';
  const show = async () => (await at.run('policy show')).stdout;
  beforeAll(() => {
    at.write('policy.yaml', POLICY);
    at.write('next.yaml', POLICY.replace('keep_last: 4', 'keep_last: 2'));
  });

  test('are applied, shown byte for byte, compared and listed', async () => {
    expect(await at.failure('policy show')).toContain('This vault has no policy');
    expect(await at.text('policy show --versions')).toContain('No policy yet.');
    const inClear =
      'Strings that no field names will go through unchanged, in clear. Today they are tokenized, as text.';
    expect(await at.run('policy apply policy.yaml --yes')).toEqual({
      code: 0,
      stdout: `~ strings at all other paths: go through unchanged, in clear (was: are tokenized, as text)
~ what clients see: what their rights say (was: everything)
+ kind card: digits, keep_last 4
+ kind code: digits, begins_with 9, suffix false
+ field customer.email: email
+ field cards[*].number: card
+ right of support to card: masked
+ right of support to *: full
+ right of * to text: masked
Version 1 of the policy is in force on all nodes within 5 s.
`,
      stderr: `! ${inClear}\n! ${nobody}\n`,
    });
    expect(await at.text('policy show')).toBe(POLICY);

    const again = 'Nothing changed: version 1 is this document already.\n';
    const same = { code: 0, stdout: again, stderr: `! ${nobody}\n` };
    expect(await at.run('policy apply policy.yaml')).toEqual(same);
    const asJson = await at.run('policy apply policy.yaml --json');
    const nothing = { version: 1, is_new: false, changes: [], consequences: [nobody] };
    expect(JSON.parse(asJson.stdout)).toEqual(nothing);

    const change = `~ kind card: digits, keep_last 2 (was: digits, keep_last 4)\n! ${nobody}\n`;
    const none = `No kind, field or right changes.\n! ${nobody}\n`;
    for (const [words, code, stdout] of [
      ['next.yaml', 0, change],
      ['next.yaml --exit-code', 1, change],
      ['policy.yaml --exit-code', 0, none],
    ] as const)
      expect(await at.run(`policy diff ${words}`)).toMatchObject({ code, stdout });
    expect(await show()).toBe(POLICY);

    const next = await at.run('policy apply next.yaml --yes --json');
    expect(JSON.parse(next.stdout)).toEqual({
      ...{ version: 2, is_new: true, consequences: [nobody], in_force_within_s: 5 },
      changes: [{ what: 'kind card', before: 'digits, keep_last 4', after: 'digits, keep_last 2' }],
    });
    expect(await at.text('policy show 1')).toBe(POLICY);
    expect((await at.json('policy show')).version).toBe(2);
    expect(await at.failure('policy show 3')).toContain('There is no version 3');
    const row = (version: number) => ({
      version,
      applied_at: expect.stringMatching(/^\d{4}-\d\d-\d\dT/),
      applied_by: expect.stringMatching(/./),
    });
    expect(await at.json('policy show --versions')).toEqual([row(2), row(1)]);
    const table = /^VERSION +APPLIED +BY\n2 .*Z +\w+\n1 .*Z +\w+\n$/;
    expect(await at.text('policy show --versions')).toMatch(table);
  });

  test('are applied only on the version that a script expects, which can ask again', async () => {
    const newest: number = (await at.json('policy show')).version;
    at.write('a.yaml', `${POLICY}# a\n`);
    const wrong = await at.run(`policy apply a.yaml --yes --if-version ${newest - 1}`);
    expect([wrong.code, wrong.stdout]).toEqual([1, expect.not.stringContaining('in force')]);
    const words = `The newest version of the policy is ${newest}, not ${newest - 1}: `;
    expect(wrong.stderr).toContain(words);
    const applying = `policy apply a.yaml --yes --if-version ${newest}`;
    for (const outcome of ['is in force', 'Nothing changed'])
      expect(await at.ok(applying)).toContain(outcome);
    expect(await show()).toBe(`${POLICY}# a\n`);
  });

  test('with mistakes are neither applied nor compared', async () => {
    const before = await show();
    at.write('bad.yaml', 'version: 1\nfields: { a: card }\nelsewhere: pass\n');
    for (const command of ['apply', 'diff'])
      expect(await at.failure(`policy ${command} bad.yaml`)).toBe(
        'standin: The policy has mistakes:\nbad.yaml:2:14: the kind card is not known: choose text, email, digits, date, uuid, word\n',
      );
    expect(await show()).toBe(before);
    // A warning is no mistake.
    at.write('risky.json', '{"version":1,"kinds":{"pin":{"shape":"digits","suffix":false}}}');
    const { code, stderr } = await at.run('policy diff risky.json');
    expect([code, stderr]).toEqual([0, expect.stringMatching(/^risky\.json:1:23: warning: /)]);
    expect(JSON.parse(await at.text('policy schema'))).toEqual(POLICY_SCHEMA);
  });

  test('check --clients shows what each client will see, and names those that are not there', async () => {
    const none = 'No client of the vault can detokenize.\n';
    expect(await at.text('policy check policy.yaml --clients')).toContain(`\n\n${none}`);
    for (const name of ['support', 'reports', 'intake --can tokenize'])
      await at.json(`client create --name ${name}`);
    at.write('rights.yaml', `${POLICY}  suport: { "*": full }\n`);
    const consequence =
      'No client of the vault is called suport (did you mean support?): nobody will have these rights.';
    const stdout = await at.text('policy check rights.yaml --clients');
    const seen = [
      ...['CLIENT   text    email  card    code', 'support  full    full   masked  full'],
      ...['reports  masked  none   none    none', `! ${consequence}`, ''],
    ];
    expect(stdout.split('\n\n')[1]).toBe(seen.join('\n'));
    const checked = await at.json('policy check rights.yaml --clients');
    const sees = { text: 'full', email: 'full', card: 'masked', code: 'full' };
    expect(checked.clients[0]).toMatchObject({ name: 'support', sees });
    expect([checked.clients.length, checked.consequences]).toEqual([2, [consequence]]);
  });

  test('of a newer release cannot be compared, and can be replaced', async () => {
    await applyPolicy(at, 100, 'version: 2');
    expect(await show()).toBe('version: 2');
    const doctor = async () => (await at.run('doctor')).stdout;
    expect(await doctor()).toMatch(/^PROBLEM {2}policy: Version \d+ of the policy cannot/m);
    const { stdout } = await at.run('policy diff policy.yaml');
    expect(stdout).toMatch(/^Version \d+ of the policy cannot be read by .*: line 1, column 10: /);
    expect(stdout).toContain('\n+ kind card: digits, keep_last 4\n');
    expect((await at.run('policy apply policy.yaml --yes')).code).toBe(0);
    expect(await show()).toBe(POLICY);
    expect(await doctor()).toMatch(/^ok {7}policy: version \d+$/m);
  });
});

describe('control characters in a policy', () => {
  const evil = '\u001b]0;pwned\u0007\nforged\u202e\u009b31m\u2028';
  /** Characters that no terminal may get. Line ends are ours. */
  const raw = /(?!\n)[\p{Cc}\p{Zl}\p{Zp}\p{Bidi_Control}]/u;
  const escaped = (text: string) =>
    text.replaceAll(/[^ -~]/g, (one) => `\\u${one.charCodeAt(0).toString(16).padStart(4, '0')}`);
  const at = placeFor('block', undefined, withVault);

  test('that are escaped are shown escaped by every command', async () => {
    const path = escaped(JSON.stringify(`["${escaped(evil)}"]`));
    const name = `"${escaped(evil)}"`;
    const rest = `"elsewhere":"pass","rights":{${name}:{"*":"none"}}`;
    at.write('good.json', `{"version":1,"fields":{${path}:"text"},${rest}}`);
    at.write('bad.json', `{"version":1,${name}:1,"fields":{${name}:${name}}}`);
    for (const words of ['diff good', 'check good', 'diff bad', 'check bad', 'apply bad']) {
      const { code, stdout, stderr } = await at.run(`policy ${words}.json`);
      expect([words, code]).toEqual([words, words.endsWith('good') ? 0 : 1]);
      expect(stdout + stderr).not.toMatch(raw);
      expect(stdout + stderr).not.toMatch(/^forged/m);
    }
    const { stdout, stderr } = await at.run('policy apply good.json --yes');
    expect(stdout).toContain('Version 1 of the policy');
    expect(stdout + stderr).not.toMatch(raw);
  });

  test.runIf(hasTerminal)('that somebody wrote into the database reach no terminal', async () => {
    await applyPolicy(at, 9, `version: 1 # ${evil}`);
    expect(runOnTerminal(['policy', 'show'], at.place).replaceAll(COLOURS, '')).not.toMatch(raw);
    expect(await at.text('policy show')).toBe(`version: 1 # ${evil}`);
  });
});

test.skipIf(!usualKinds().includes('server'))(
  'the user of the service may read policies, and not change them',
  async () => {
    const place = await leastPrivilegePlace();
    const at = commandsOf(() => place);
    const { env } = place.service!;
    at.write('policy.yaml', POLICY);
    const refused = await at.run('policy apply policy.yaml --yes', env);
    expect(refused.code).toBe(1);
    expect(refused.stderr).toContain('The user of DATABASE_URL may not change the policy.');
    expect((await at.run('policy apply policy.yaml --yes')).code).toBe(0);
    expect(await at.text('policy show', env)).toBe(POLICY);
    expect(await at.json('policy show --versions')).toMatchObject([{ version: 1 }]);
    place.remove();
  },
);
