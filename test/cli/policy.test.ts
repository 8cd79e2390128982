import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { query } from '../support/postgres.ts';
import {
  endOf,
  leastPrivilegePlace,
  makeVault,
  newPlace,
  type Place,
  runCli,
  runJson,
  spawnCli,
  usualKinds,
  usualPlace,
} from '../support/service.ts';
import { COLOURS, hasTerminal, runOnTerminal } from '../support/terminal.ts';
import { openTestPool, soon } from '../support/vault.ts';

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

const write = (place: Place, name: string, text: string | Buffer) =>
  writeFileSync(join(place.folder, name), text);

describe('policy check', () => {
  let place: Place;
  beforeAll(async () => {
    place = await usualPlace();
  });
  afterAll(() => place.remove());

  const check = (...args: string[]) => runCli(['policy', 'check', ...args], place);

  test('needs no vault: an example of each kind in use, with its token and its mask', async () => {
    write(place, 'good.yaml', POLICY);
    const { code, stdout, stderr } = await check('good.yaml');
    expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
    const [heading, ...rows] = stdout.trimEnd().split('\n');
    expect(heading).toMatch(/^KIND +EXAMPLE +TOKEN +MASKED$/);
    expect(rows).toEqual([
      expect.stringMatching(/^text +Ann Lee +[a-z]{3} [a-z]{3}_tok +\*{4}$/),
      expect.stringMatching(
        /^email +ann\.lee@example\.com +[a-z]+@[a-z]{7}\.[a-z]{3}_tok +a\*{3}@example\.com$/,
      ),
      expect.stringMatching(/^card +4242 4242 4242 4242 +\d{4} \d{4} \d{4} 4242_tok +\*{4} 4242$/),
      expect.stringMatching(/^code +4242 4242 4242 4242 +9\d{3} \d{4} \d{4} \d{4} +\*{4} 4242$/),
    ]);
    // Drawn at random each time.
    expect((await check('good.yaml')).stdout).not.toBe(stdout);
    const { kinds, ...rest } = await runJson(place, 'policy', 'check', 'good.yaml');
    expect(rest).toEqual({ is_valid: true, mistakes: [], warnings: [] });
    expect(kinds[2]).toEqual({
      kind: 'card',
      value: '4242 4242 4242 4242',
      token: expect.stringMatching(/4242_tok$/),
      mask: '**** 4242',
    });
  });

  test('lists all mistakes with file, line and column, and fails', async () => {
    write(place, 'bad.yaml', 'version: 1\nkinds:\n  card: { shape: digit }\nfeilds: {}\n');
    expect(await check('bad.yaml')).toEqual({
      code: 1,
      stdout: `bad.yaml:3:18: shape: digit (did you mean digits?) is not known: choose text, email, digits, date, uuid, word
bad.yaml:4:1: feilds (did you mean fields?) is not known: choose version, kinds, fields, elsewhere, rights
`,
      stderr: 'standin: 2 mistakes found.\n',
    });
    const { code, stdout } = await check('bad.yaml', '--json');
    expect([code, JSON.parse(stdout)]).toEqual([
      1,
      {
        is_valid: false,
        mistakes: [
          { line: 3, column: 18, text: expect.stringContaining('digit') },
          { line: 4, column: 1, text: expect.stringContaining('feilds') },
        ],
      },
    ]);
  });

  test('says what becomes of each string of a record, as the policy would name it', async () => {
    write(place, 'good.yaml', POLICY);
    const record = {
      customer: { email: 'a@b.cc', Email: 'a@b.cc', 'full name': 'Ann' },
      cards: [{ number: '4242 4242 4242 4242' }, { number: '4', note: 'n' }, { note: 'n' }],
      ...{ order: 7, none: '', nothing: null },
    };
    write(place, 'record.json', JSON.stringify(record));
    write(place, 'body.json', JSON.stringify({ data: record, more: 1 }));
    const strings = async (policy: string, file: string) =>
      (await runJson(place, 'policy', 'check', policy, '--record', file)).strings;
    const row = (path: string, becomes: string, count = 1, meant: string | null = null) => ({
      ...{ path, strings: count, becomes, meant },
    });
    const few = 'refused: has too few digits for kind card: 6 must be free';
    const rows = (elsewhere: string) => [
      row('customer.email', 'email'),
      row('customer.Email', elsewhere, 1, 'customer.email'),
      row('customer["full name"]', elsewhere),
      row('cards[*].number', 'card'),
      row('cards[*].number', few),
      row('cards[*].note', elsewhere, 2),
    ];
    for (const file of ['record.json', 'body.json'])
      expect(await strings('good.yaml', file)).toEqual(rows('in clear'));
    const { stdout } = await check('good.yaml', '--record', 'record.json');
    expect(stdout.split('\n\n')[1]).toMatch(
      /^PATH +STRINGS +BECOMES\n.*\ncustomer.Email +1 +in clear \(did you mean customer.email\?\)\n/,
    );
    expect(stdout).not.toContain('a@b.cc');
    for (const [elsewhere, becomes] of [
      ['tokenize', 'text'],
      ['refuse', 'refused: the policy names no such path'],
    ] as const) {
      write(place, 'other.yaml', POLICY.replace('pass', elsewhere));
      expect(await strings('other.yaml', 'record.json')).toEqual(rows(becomes));
    }
    write(place, 'rows.ndjson', '{"customer":{"email":"a@b.cc"}}\n\n{"note":"n"}\n');
    const inRows = [row('customer.email', 'email'), row('note', 'in clear')];
    expect(await strings('good.yaml', 'rows.ndjson')).toEqual(inRows);
    // As clients send it that know no policy.
    write(place, 'values.json', '{"values":["a",["b"]]}');
    write(place, 'plain.yaml', 'version: 1');
    const texts = [row('values[*]', 'text'), row('values[*][*]', 'text')];
    for (const policy of ['good.yaml', 'plain.yaml'])
      expect(await strings(policy, 'values.json')).toEqual(texts);
  });

  test.each([
    ['{"customer":{"email":5}}', 'data.customer.email: must be a string or null, not a number'],
    ['{"customer":{"name":"a","name":"b"}}', 'the same field name twice'],
    ['name,email\nAnn,a@b.cc', 'must be valid JSON'],
    ['"text"', 'data: must be a JSON object'],
    [' '.repeat(1_048_577), 'is larger than 1 MiB'],
  ])('refuses a record that tokenize would refuse: %.40s', async (record, problem) => {
    write(place, 'good.yaml', POLICY);
    write(place, 'record.json', record);
    const { code, stdout, stderr } = await check('good.yaml', '--record', 'record.json');
    expect([code, stdout]).toEqual([1, '']);
    expect(stderr).toMatch(/^standin: record\.json/);
    expect(stderr).toContain(problem);
  });

  test('says where a token could be real, and what a kind refuses; that is no mistake', async () => {
    write(place, 'risky.json', '{"version":1,"kinds":{"pin":{"shape":"digits","suffix":false}}}');
    const { code, stdout } = await check('risky.json');
    expect(code).toBe(0);
    expect(stdout).toMatch(/^risky\.json:1:23: warning: the kind pin: .*somebody/);
  });

  test.each([
    ['none.yaml', undefined, 'none.yaml cannot be read (ENOENT)'],
    ['latin1.yaml', Buffer.from('version: 1 # \xe9', 'latin1'), 'latin1.yaml is not UTF-8: '],
    ['.', undefined, '. cannot be read (EISDIR)'],
  ])('a file that cannot be read: %s', async (name, bytes, problem) => {
    if (bytes !== undefined) write(place, name, bytes);
    const { code, stdout, stderr } = await check(name);
    expect({ code, stdout }).toEqual({ code: 1, stdout: '' });
    expect(stderr).toContain(`standin: ${problem}`);
  });

  test('reads standard input, and no more of it than a policy may have', async () => {
    const fed = async (text: string) => {
      const child = spawnCli(['policy', 'check', '-'], place, {}, ['pipe', 'pipe', 'pipe']);
      child.stdin!.on('error', () => {}).end(text);
      return endOf(child);
    };
    expect((await fed(POLICY)).code).toBe(0);
    expect(await fed(`version: 1\n${'# é\n'.repeat(1 << 20)}`)).toMatchObject({
      code: 1,
      stdout: 'standard input:1:1: a policy has at most 256 KiB\n',
    });
  });
});

describe.each(usualKinds())('policies of a vault on the %s database', (kind) => {
  let place: Place;
  beforeAll(async () => {
    place = await newPlace(kind);
    await makeVault(place);
    write(place, 'policy.yaml', POLICY);
    write(place, 'next.yaml', POLICY.replace('keep_last: 4', 'keep_last: 2'));
  });
  afterAll(() => place.remove());

  const policy = (...args: string[]) => runCli(['policy', ...args], place);
  const failure = async (...args: string[]) => {
    const { code, stdout, stderr } = await policy(...args);
    expect([code, stdout]).toEqual([1, expect.not.stringContaining('in force')]);
    return stderr;
  };

  test('are applied, shown byte for byte, compared and listed', async () => {
    expect(await failure('show')).toContain('This vault has no policy');
    expect((await policy('show', '--versions')).stdout).toContain('No policy yet.');
    const first = await policy('apply', 'policy.yaml', '--yes');
    expect(first.code).toBe(0);
    expect(
      first.stdout,
    ).toBe(`~ strings at all other paths: go through unchanged, in clear (was: are tokenized, as text)
~ what clients see: what their rights say (was: everything)
+ kind card: digits, keep_last 4
+ kind code: digits, begins_with 9, suffix false
+ field customer.email: email
+ field cards[*].number: card
+ right of support to card: masked
+ right of support to *: full
+ right of * to text: masked
Version 1 of the policy is in force on all nodes within 5 s.
`);
    const nobody = 'No client of the vault is called support: nobody will have these rights.';
    const inClear =
      'Strings that no field names will go through unchanged, in clear. Today they are tokenized, as text.';
    expect(first.stderr).toBe(`! ${inClear}\n! ${nobody}\n`);
    expect(await policy('show')).toEqual({ code: 0, stdout: POLICY, stderr: '' });

    const again = await policy('apply', 'policy.yaml');
    expect(again.stdout).toBe('Nothing changed: version 1 is this document already.\n');
    expect(again.stderr).toBe(`! ${nobody}\n`);
    const same = { version: 1, is_new: false, changes: [], consequences: [nobody] };
    expect(await runJson(place, 'policy', 'apply', 'policy.yaml')).toEqual(same);

    const change = `~ kind card: digits, keep_last 2 (was: digits, keep_last 4)\n! ${nobody}\n`;
    expect(await policy('diff', 'next.yaml')).toMatchObject({ code: 0, stdout: change });
    expect(await policy('diff', 'next.yaml', '--exit-code')).toMatchObject({ code: 1 });
    expect(await policy('diff', 'policy.yaml', '--exit-code')).toMatchObject({
      code: 0,
      stdout: `No kind, field or right changes.\n! ${nobody}\n`,
    });
    expect((await policy('show')).stdout).toBe(POLICY);

    expect(await runJson(place, 'policy', 'apply', 'next.yaml', '--yes')).toEqual({
      version: 2,
      is_new: true,
      changes: [{ what: 'kind card', before: 'digits, keep_last 4', after: 'digits, keep_last 2' }],
      consequences: [nobody],
      in_force_within_s: 5,
    });
    expect((await policy('show', '1')).stdout).toBe(POLICY);
    expect((await runJson(place, 'policy', 'show')).version).toBe(2);
    expect(await failure('show', '3')).toContain('There is no version 3');
    const listed = await runJson(place, 'policy', 'show', '--versions');
    expect(listed).toEqual(
      [2, 1].map((version) => ({
        version,
        applied_at: expect.stringMatching(/^\d{4}-\d\d-\d\dT/),
        applied_by: expect.stringMatching(/./),
      })),
    );
    const table = (await policy('show', '--versions')).stdout;
    expect(table).toMatch(/^VERSION +APPLIED +BY\n2 .*Z +\w+\n1 .*Z +\w+\n$/);
  });

  test('are applied only on the version that a script expects, and two at once do not overtake each other', async () => {
    const newest = (await runJson(place, 'policy', 'show')).version as number;
    write(place, 'a.yaml', `${POLICY}# a\n`);
    write(place, 'b.yaml', `${POLICY}# b\n`);
    const wrong = await failure('apply', 'a.yaml', '--yes', '--if-version', String(newest - 1));
    expect(wrong).toContain(`The newest version of the policy is ${newest}, not ${newest - 1}: `);
    const both = await Promise.all(
      ['a.yaml', 'b.yaml'].map((file) =>
        policy('apply', file, '--yes', '--if-version', String(newest)),
      ),
    );
    expect(both.map(({ code }) => code).toSorted()).toEqual([0, 1]);
    const won = both[0]!.code === 0 ? 'a' : 'b';
    expect((await policy('show')).stdout).toBe(`${POLICY}# ${won}\n`);
    expect((await runJson(place, 'policy', 'show')).version).toBe(newest + 1);
    // A script that did not get the answer can ask again.
    const again = await policy('apply', `${won}.yaml`, '--if-version', String(newest));
    expect(again).toMatchObject({ code: 0, stdout: expect.stringContaining('Nothing changed') });
  });

  test('with mistakes are neither applied nor compared', async () => {
    const before = (await policy('show')).stdout;
    write(place, 'bad.yaml', 'version: 1\nfields: { a: card }\nelsewhere: pass\n');
    for (const command of ['apply', 'diff'])
      expect(await failure(command, 'bad.yaml')).toBe(
        'standin: The policy has mistakes:\nbad.yaml:2:14: the kind card is not known: choose text, email, digits, date, uuid, word\n',
      );
    expect((await policy('show')).stdout).toBe(before);
  });

  test('check --clients shows what each client will see, and names those that are not there', async () => {
    await runJson(place, 'client', 'create', '--name', 'support');
    await runJson(place, 'client', 'create', '--name', 'reports');
    await runJson(place, 'client', 'create', '--name', 'intake', '--can', 'tokenize');
    write(place, 'rights.yaml', `${POLICY}  suport: { "*": full }\n`);
    const consequences = [
      'No client of the vault is called suport (did you mean support?): nobody will have these rights.',
    ];
    const { code, stdout } = await policy('check', 'rights.yaml', '--clients');
    expect(code).toBe(0);
    expect(stdout.split('\n\n')[1]!.trimEnd().split('\n')).toEqual([
      expect.stringMatching(/^CLIENT +text +email +card +code$/),
      expect.stringMatching(/^support +full +full +masked +full$/),
      expect.stringMatching(/^reports +masked +none +none +none$/),
      ...consequences.map((text) => `! ${text}`),
    ]);
    const checked = await runJson(place, 'policy', 'check', 'rights.yaml', '--clients');
    expect(checked.clients[0]).toMatchObject({
      name: 'support',
      sees: { text: 'full', email: 'full', card: 'masked', code: 'full' },
    });
    expect([checked.clients.length, checked.consequences]).toEqual([2, consequences]);
  });

  test('of a newer release cannot be compared, and can be replaced', async () => {
    const pool = openTestPool(place);
    const text = `insert into standin.policies (version, document)
      select max(version) + 1, 'version: 2' from standin.policies`;
    await pool.query(text, [], soon());
    await pool.end();
    expect((await policy('show')).stdout).toBe('version: 2');
    const doctor = () => runCli(['doctor'], place);
    expect((await doctor()).stdout).toMatch(
      /^PROBLEM {2}policy: Version \d+ of the policy cannot/m,
    );
    const diff = await policy('diff', 'policy.yaml');
    expect(diff.stdout).toMatch(/^Version \d+ of the policy cannot be read by this program: /);
    expect(diff.stdout).toContain('\n+ kind card: digits, keep_last 4\n');
    expect((await policy('apply', 'policy.yaml', '--yes')).code).toBe(0);
    expect((await policy('show')).stdout).toBe(POLICY);
    expect((await doctor()).stdout).toMatch(/^ok {7}policy: version \d+$/m);
  });
});

describe('control characters in a policy', () => {
  const evil = '\u001b]0;pwned\u0007\nforged\u202e\u009b31m\u2028';
  /** What no terminal may get; line ends are ours. */
  const raw = /(?!\n)[\p{Cc}\p{Zl}\p{Zp}\p{Bidi_Control}]/u;
  const escaped = (text: string) =>
    text.replaceAll(/[^ -~]/g, (one) => `\\u${one.charCodeAt(0).toString(16).padStart(4, '0')}`);
  let place: Place;
  beforeAll(async () => {
    place = await usualPlace();
    await makeVault(place);
  });
  afterAll(() => place.remove());

  test('that are escaped are shown escaped by every command', async () => {
    const path = escaped(JSON.stringify(`["${escaped(evil)}"]`));
    const name = `"${escaped(evil)}"`;
    write(
      place,
      'good.json',
      `{"version":1,"fields":{${path}:"text"},"elsewhere":"pass","rights":{${name}:{"*":"none"}}}`,
    );
    write(place, 'bad.json', `{"version":1,${name}:1,"fields":{${name}:${name}}}`);
    for (const [command, file] of [
      ...['diff', 'check', 'apply'].map((one) => [one, 'good.json'] as const),
      ...['diff', 'check', 'apply'].map((one) => [one, 'bad.json'] as const),
    ]) {
      const yes = command === 'apply' ? ['--yes'] : [];
      const { code, stdout, stderr } = await runCli(['policy', command, file, ...yes], place);
      expect([command, file, code]).toEqual([command, file, file === 'good.json' ? 0 : 1]);
      expect(stdout + stderr).not.toMatch(raw);
      expect(stdout + stderr).not.toMatch(/^forged/m);
    }
  });

  test.runIf(hasTerminal)('that somebody wrote into the database reach no terminal', async () => {
    const pool = openTestPool(place);
    const text = 'insert into standin.policies (version, document) values (9, $1)';
    await pool.query(text, [`version: 1 # ${evil}`], soon());
    await pool.end();
    expect(runOnTerminal(['policy', 'show'], place).replaceAll(COLOURS, '')).not.toMatch(raw);
    expect((await runCli(['policy', 'show'], place)).stdout).toBe(`version: 1 # ${evil}`);
  });
});

test('without a vault, commands that need one say where they looked', async () => {
  const place = await usualPlace();
  write(place, 'policy.yaml', POLICY);
  for (const args of [['apply', 'policy.yaml'], ['show'], ['diff', 'policy.yaml']]) {
    const { code, stderr } = await runCli(['policy', ...args], place);
    expect([code, stderr]).toEqual([1, expect.stringContaining('There is no vault in ')]);
  }
  place.remove();
});

test.skipIf(!usualKinds().includes('server'))(
  'the user of the service may read policies, and not change them',
  async () => {
    const place = await leastPrivilegePlace();
    write(place, 'policy.yaml', POLICY);
    const asService = (...args: string[]) => runCli(['policy', ...args], place, place.service!.env);
    const refused = await asService('apply', 'policy.yaml', '--yes');
    expect(refused.code).toBe(1);
    expect(refused.stderr).toContain('The user of DATABASE_URL may not change the policy.');
    expect((await runCli(['policy', 'apply', 'policy.yaml', '--yes'], place)).code).toBe(0);
    expect((await asService('show')).stdout).toBe(POLICY);
    const rows = await query(place.env.DATABASE_URL!, 'select version from standin.policies');
    expect(rows).toEqual([{ version: 1 }]);
    place.remove();
  },
);
