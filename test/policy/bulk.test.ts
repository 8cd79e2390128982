import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { BulkRuns } from '../support/bulk-run.ts';
import { applyPolicy, startWithPolicy } from '../support/policy.ts';
import { postgresBin } from '../support/postgres.ts';
import { samples } from '../support/samples.ts';
import {
  createClient,
  kinds,
  type Service,
  startService,
  until,
  usualPlace,
} from '../support/service.ts';

const POLICY = `
version: 1
kinds:
  card: { shape: digits, keep_last: 4, suffix: false }
  mail: { shape: email, keep: domain }
fields:
  email: mail
  ["full name"]: text
  customer.email: mail
  customer.cards[*].number: card
  notes[2]: word
  card: card
  born: date
  full_name: text
  last_name: text
  address: word
  phone: text
elsewhere: pass
rights:
  support: { card: masked, date: none, "*": full }
  "*": { "*": full }
`.replace('["full name"]:', '\'["full name"]\':');

const ROWS = [
  'id,email,full name,card,born,memo',
  '1,ann@example.org,"Lee, Ann",4111 1111 1111 1111,1985-04-12,ann@example.org',
  '2,bo@example.org,,5500005555555559,,1985-04-12',
  '',
].join('\n');

describe.skipIf(postgresBin === undefined || !kinds().includes('server'))('with a policy', () => {
  let service: Service;
  let runs: BulkRuns;
  let support: string;

  beforeAll(async () => {
    service = await startWithPolicy(POLICY);
    runs = new BulkRuns(service.place, service);
    runs.write('policy.yaml', POLICY);
    support = (await createClient(service.place, '--name', 'support')).api_key;
  });
  afterAll(async () => {
    await service.stop();
    expect(runs.stderr).not.toMatch(/@example\.org|4111|stk_/);
  });

  const asSupport = (command: string) =>
    runs.end(runs.start(command, { STANDIN_API_KEY: support }));

  test('a CSV there and back: each column by its kind, all else as it was', async () => {
    runs.write('a.csv', ROWS);
    const there = await runs.run('tokenize a.csv --policy policy.yaml -o a.out.csv --json');
    expect(there).toMatchObject({ code: 0 });
    expect(JSON.parse(there.stdout)).toMatchObject({
      rows: 2,
      values: 6,
      fields: { email: 2, '["full name"]': 2, card: 2, born: 2 },
    });
    const [head, first, second] = runs.read('a.out.csv').split('\n');
    expect(head).toBe('id,email,full name,card,born,memo');
    expect(first).toMatch(
      /^1,[a-z]+@example\.org_tok,"[a-z]{3}, [a-z]{3}_tok",\d{4} \d{4} \d{4} 1111,\d{4}-\d\d-\d\d_tok,ann@example\.org$/,
    );
    expect(second).toMatch(/^2,[a-z]+@example\.org_tok,,\d{12}5559,,1985-04-12$/);
    const back = await runs.run('detokenize a.out.csv --policy -o a.back.csv');
    expect(back).toMatchObject({ code: 0 });
    expect(back.stdout).toContain('; replaced: email 2, "[\\"full name\\"]" 1, card 2, born 1.');
    expect(runs.read('a.back.csv')).toBe(ROWS);
  });

  test.each(samples)(
    'all customers of the sample $name there and back, as CSV and as NDJSON with ids that are numbers',
    async ({ name, csv, rows }) => {
      const records = rows.map(({ customer_id: id, fax, ...row }) => {
        const members = JSON.stringify({ ...row, fax: fax || null }).slice(1);
        return `{"id": 90071992547409930${id}, ${members}\n`;
      });
      for (const [file, content] of [
        [`${name}.csv`, csv],
        [`${name}.ndjson`, records.join('')],
      ] as const) {
        runs.write(file, content);
        const there = await runs.run(`tokenize ${file} --policy -o there.${file} --json`);
        const { fields, rejected } = JSON.parse(there.stdout);
        expect([fields.email, fields.phone, rejected]).toEqual([records.length, records.length, 0]);
        const tokens = runs.read(`there.${file}`);
        for (const { email } of rows) expect(tokens).not.toContain(email);
        await runs.run(`detokenize there.${file} --policy -o back.${file}`);
        expect(runs.read(`back.${file}`)).toBe(content);
      }
    },
  );

  test('NDJSON and JSON, numbers and nulls byte for byte; equal values by their kinds', async () => {
    const row = (i: number) =>
      `{"id": 9007199254740993${i}.0, "notes":[null, 1, "same"], "customer": {"email":"c${i}@example.org", "cards":[{"number":"411111111111111${i}","cvc":null}, {}]}, "full name": "same", "x":-0}`;
    runs.write('b.ndjson', `${row(1)}\n${row(2)}\n`);
    runs.write('b.json', `[\n${row(1)},\n${row(2)}\n]\n`);
    for (const name of ['b.ndjson', 'b.json']) {
      const there = await runs.run(`tokenize ${name} --policy -o there.${name}`);
      expect(there).toMatchObject({ code: 0 });
      expect(there.stdout).not.toContain('born');
      const rows = runs.read(`there.${name}`);
      expect(rows).toMatch(/"id": 90071992547409931\.0, "notes":\[null, 1, "[a-z]{10}_tok"\]/);
      expect(rows).toMatch(
        /"email":"[a-z0-9]+@example\.org_tok".*"number":"\d{12}1111","cvc":null/,
      );
      expect(rows).toMatch(/"full name": "[a-z]{4,6}_tok", "x":-0/);
      expect(await runs.run(`detokenize there.${name} --policy -o back.${name}`)).toMatchObject({
        code: 0,
      });
      expect(runs.read(`back.${name}`)).toBe(runs.read(name));
    }
  });

  test('masks, and a kind of no right', async () => {
    runs.write('c.csv', 'card,id\n4111 1111 1111 1111,7\n');
    await runs.run('tokenize c.csv --policy -o c.out.csv');
    expect(await asSupport('detokenize c.out.csv --policy -o c.back.csv')).toMatchObject({
      code: 0,
    });
    expect(runs.read('c.back.csv')).toBe('card,id\n**** 1111,7\n');
    runs.write('d.csv', 'born,id\n1985-04-12,7\n');
    await runs.run('tokenize d.csv --policy -o d.out.csv');
    const refused = await asSupport('detokenize d.out.csv --policy -o d.back.csv');
    expect(refused.code).toBe(1);
    expect(refused.stderr).toContain(
      'The client of this API key may not see values of kind date, in the field born (403). An operator can allow it in the policy.',
    );
    expect(runs.exists('d.back.csv')).toBe(false);
  });

  test('what a kind refuses is a bad row, with line, field and reason', async () => {
    runs.write('e.csv', 'id,born,card\n1,1985-04-12,\n2,1985-02-30,\n3,,12\n');
    const stopped = await runs.run('tokenize e.csv --policy -o e.out.csv');
    expect(stopped.stderr).toContain('Line 3: the field "born" is not a real date like');
    const ended = await runs.run('tokenize e.csv --policy -o e.out.csv --rejects e.rejects.csv');
    expect(ended.code).toBe(3);
    const [, born, card] = runs.read('e.rejects.csv').split('\n');
    expect(born).toMatch(/^3,born,.*is not a real date/);
    expect(card).toMatch(/^4,card,.*has too few digits for kind card/);
    expect(runs.read('e.out.csv').split('\n')).toHaveLength(3);
    runs.write('f.csv', 'card\n4111 1111 1111 9999\nno such token\n');
    const unknown = await runs.run(
      'detokenize f.csv --policy -o f.out.csv --rejects f.rejects.csv',
    );
    expect(unknown.code).toBe(3);
    expect(runs.read('f.rejects.csv')).toBe(
      'line,field,reason\n2,card,is not a known token\n3,card,is not a known token\n',
    );
  });

  test.each([
    [
      'g.csv',
      'Email;name\na@example.org;b\n',
      /has no field of the policy \(version 1, .*the file has Email, name\. Rename its fields, or name them with --fields, which makes all of them of the kind text/,
    ],
    ['g.ndjson', '{"mail":"a@example.org"}\n', /has no field of the policy .*the file has mail\./],
    [
      'g.ndjson',
      '{"customer":{"email":7}}\n',
      /Line 1: the field "customer\.email" is a number, not a string/,
    ],
    [
      'g.ndjson',
      '{"customer":"a@example.org"}\n',
      /the field "customer" is a string, and a field is named inside it/,
    ],
  ])('%s: %s', async (name, content, message) => {
    runs.write(name, content);
    const refused = await runs.run(`tokenize ${name} --policy -o g.out --force`);
    expect(refused.code).toBe(1);
    expect(refused.stderr).toMatch(message);
    expect(runs.exists('g.out') || runs.exists('g.out.partial')).toBe(false);
  });

  test.each([
    ['--policy --fields email', '--policy names the fields: leave --fields out'],
    ['--policy --no-header', '--policy finds columns by their names'],
    ['--policy -', '--policy needs the name of a file'],
    ['--policy none.yaml', 'none.yaml cannot be read (ENOENT)'],
  ])('%s is refused', async (options, message) => {
    runs.write('h.csv', ROWS);
    const refused = await runs.run(`tokenize h.csv -o h.out.csv ${options}`);
    expect(refused.code).toBe(message.startsWith('none') ? 1 : 2);
    expect(refused.stderr).toContain(message);
  });

  test('one value of a kind', async () => {
    const there = await runs.run('tokenize 4111111111111111 --kind card');
    expect([there.code, there.stdout]).toEqual([0, expect.stringMatching(/^\d{12}1111\n$/)]);
    const back = await runs.run(`detokenize ${there.stdout.trim()}`);
    expect(back.stdout).toBe('4111111111111111\n');
    const refused = await runs.run('tokenize 1985-02-30 --kind date');
    expect(refused.stderr).toContain('The argument is not a real date like');
    const unknown = await runs.run('tokenize Ann --kind uuid');
    expect(unknown.stderr).toContain(
      'No field of the policy (version 1) has the kind uuid; they have: mail, text, card, word, date.',
    );
    runs.write('o.csv', ROWS);
    expect((await runs.run('tokenize o.csv --kind card')).stderr).toContain(
      '--kind is for one value',
    );
  });

  test('without a policy, or without fields in it, the remedy is told', async () => {
    const other = await startService(await usualPlace());
    const env = { STANDIN_URL: other.url, STANDIN_API_KEY: other.api_key };
    runs.write('i.csv', ROWS);
    const refused = await runs.end(runs.start('tokenize i.csv --policy -o i.out.csv', env));
    expect(refused.stderr).toContain(
      'has no policy (404): apply one with standin policy apply, or name the fields with --fields.',
    );
    await other.stop();
    other.place.remove();
  });

  /** Applies a version, and resolves when it is in force. */
  async function change(version: number, document: string): Promise<void> {
    await applyPolicy(service, version, document);
    const headers = { authorization: `Bearer ${service.api_key}` };
    const newest = async () =>
      ((await (await fetch(`${service.url}/api/v1/policy`, { headers })).json()) as any).version;
    await until(async () => (await newest()) === version, 'the policy is in force');
  }

  test('no run goes on with another policy, and no document of another one is used', async () => {
    const many = Array.from({ length: 3_000 }, (_, i) => `${i},a${i}@example.org\n`).join('');
    const input = `id,email\n${many}7,no address\n`;
    runs.write('j.csv', input);
    runs.write('k.csv', input);
    for (const name of ['j', 'k']) {
      const stopped = await runs.run(`tokenize ${name}.csv --policy -o ${name}.out.csv`);
      expect(stopped.stderr).toContain('Line 3002: the field "email" is not an e-mail address');
      expect(stopped.stderr).toContain('with the same options and --resume');
    }
    const resume = (name: string) =>
      runs.run(`tokenize ${name}.csv --policy -o ${name}.out.csv --resume --rejects ${name}.bad`);
    expect(await resume('j')).toMatchObject({ code: 3 });
    expect(runs.read('j.out.csv').split('\n')).toHaveLength(3_002);
    const child = runs.start('tokenize - --format csv --policy policy.yaml -o l.csv');
    // The run ends before it has read everything.
    child.stdin!.on('error', () => {});
    child.stdin!.write('email\nfirst@example.org\n');
    await until(() => runs.exists('l.csv.partial'), 'the run has begun');
    await change(2, POLICY.replace('email: mail', 'email: text'));
    child.stdin!.end('second@example.org\n'.repeat(20_000));
    const changed = await runs.end(child);
    expect(changed.code).toBe(1);
    expect(changed.stderr).toContain('does not use version 1 of the policy any more (412)');
    expect(changed.stderr).not.toContain('--resume');
    const refused = await resume('k');
    expect(refused.stderr).toMatch(
      /The run to resume used --policy version 1, [0-9a-f]{12}: use the same, or start again with --force/,
    );
    const older = await runs.run('tokenize a.csv --policy policy.yaml -o m.out.csv');
    expect(older.stderr).toContain(
      'policy.yaml is not the policy in force, which is version 2. Compare them with standin policy diff policy.yaml;',
    );
    expect(await runs.run('tokenize k.csv --policy -o k.out.csv --force')).toMatchObject({
      code: 0,
    });
    await change(3, 'version: 1\n');
    const none = await runs.run('tokenize a.csv --policy -o n.out.csv');
    expect(none.stderr).toContain('Version 3 of the policy names no fields');
  });
});
