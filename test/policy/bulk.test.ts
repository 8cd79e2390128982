import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { bulkRuns } from '../support/bulk-run.ts';
import { applyPolicy, inForce, startWithPolicy } from '../support/policy.ts';
import { postgresBin } from '../support/postgres.ts';
import { createClient, kinds, startService, until, usualPlace } from '../support/service.ts';

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
  const runs = bulkRuns(() => startWithPolicy(POLICY));
  let support: { STANDIN_API_KEY: string };
  beforeAll(async () => {
    runs.write('policy.yaml', POLICY);
    const { api_key: apiKey } = await createClient(runs.place, '--name', 'support');
    support = { STANDIN_API_KEY: apiKey };
  });
  afterAll(() => expect(runs.stderr).not.toMatch(/@example\.org|4111/));

  /** Tokenizes a file and turns it back: the same file. */
  async function thereAndBack(name: string, content: string) {
    runs.write(name, content);
    const there = JSON.parse(await runs.ok(`tokenize ${name} --policy -o there.${name} --json`));
    const back = await runs.ok(`detokenize there.${name} --policy -o back.${name}`);
    expect(runs.read(`back.${name}`)).toBe(content);
    return { there, back, tokens: runs.read(`there.${name}`) };
  }

  test('a CSV there and back: each column by its kind, all else as it was', async () => {
    const { there, back, tokens } = await thereAndBack('a.csv', ROWS);
    const fields = { email: 2, '["full name"]': 2, card: 2, born: 2 };
    expect(there).toMatchObject({ rows: 2, values: 6, fields });
    const [head, first, second] = tokens.split('\n');
    expect(head).toBe('id,email,full name,card,born,memo');
    expect(first).toMatch(
      /^1,[a-z]+@example\.org_tok,"[a-z]{3}, [a-z]{3}_tok",\d{4} \d{4} \d{4} 1111,\d{4}-\d\d-\d\d_tok,ann@example\.org$/,
    );
    expect(second).toMatch(/^2,[a-z]+@example\.org_tok,,\d{12}5559,,1985-04-12$/);
    expect(back).toContain('; replaced: email 2, "[\\"full name\\"]" 1, card 2, born 1.');
  });

  test.each([
    ['b.ndjson', (rows: string[]) => `${rows.join('\n')}\n`],
    ['b.json', (rows: string[]) => `[\n${rows.join(',\n')}\n]\n`],
  ])('%s, numbers and nulls byte for byte; equal values by their kinds', async (name, fileOf) => {
    const row = (i: number) =>
      `{"id": 9007199254740993${i}.0, "notes":[null, 1, "same"], "customer": {"email":"c${i}@example.org", "cards":[{"number":"411111111111111${i}","cvc":null}, {}]}, "full name": "same", "x":-0}`;
    const { back, tokens } = await thereAndBack(name, fileOf([row(1), row(2)]));
    expect(back).not.toContain('born');
    expect(tokens).toMatch(/"id": 90071992547409931\.0, "notes":\[null, 1, "[a-z]{10}_tok"\]/);
    expect(tokens).toMatch(
      /"email":"[a-z0-9]+@example\.org_tok".*"number":"\d{12}1111","cvc":null/,
    );
    expect(tokens).toMatch(/"full name": "[a-z]{4,6}_tok", "x":-0/);
  });

  test('masks, and a kind of no right', async () => {
    runs.write('c.csv', 'card,id\n4111 1111 1111 1111,7\n');
    await runs.ok('tokenize c.csv --policy -o c.out.csv');
    await runs.ok('detokenize c.out.csv --policy -o c.back.csv', support);
    expect(runs.read('c.back.csv')).toBe('card,id\n**** 1111,7\n');
    runs.write('d.csv', 'born,id\n1985-04-12,7\n');
    await runs.ok('tokenize d.csv --policy -o d.out.csv');
    const refused = await runs.failure('detokenize d.out.csv --policy -o d.back.csv', support);
    expect(refused).toContain(
      'The client of this API key may not see values of kind date, in the field born (403). An operator can allow it in the policy.',
    );
    expect(runs.exists('d.back.csv')).toBe(false);
    const [, token] = /\n(.*),7/.exec(runs.read('d.out.csv'))!;
    const alone = await runs.failure(`detokenize ${token}`, support);
    expect(alone).toContain('values of kind date (403)');
  });

  test('a column of tokens is found beside others, and before a bad row', async () => {
    runs.write('n.csv', 'card,full name,born\n4111111111111111,abc_tok,1985-02-30\n');
    const command = 'tokenize n.csv --policy -o n.out.csv --rejects n.bad';
    expect(await runs.failure(command)).toContain(
      'The field "[\\"full name\\"]" has tokens already',
    );
  });

  test('what a kind refuses is a bad row, with line, field and reason', async () => {
    runs.write('e.csv', 'id,born,card\n1,1985-04-12,\n2,1985-02-30,\n3,,12\n');
    const command = 'tokenize e.csv --policy -o e.out.csv';
    const words = 'Line 3: the field "born" is not a real date like';
    expect(await runs.failure(command)).toContain(words);
    expect((await runs.run(`${command} --rejects e.rejects.csv`)).code).toBe(3);
    const [, born, card] = runs.read('e.rejects.csv').split('\n');
    expect(born).toMatch(/^3,born,.*is not a real date/);
    expect(card).toMatch(/^4,card,.*has too few digits for kind card/);
    expect(runs.read('e.out.csv').split('\n')).toHaveLength(3);
    runs.write('f.csv', 'card\n4111 1111 1111 9999\nno such token\n');
    const unknown = 'detokenize f.csv --policy -o f.out.csv --rejects f.rejects.csv';
    expect((await runs.run(unknown)).code).toBe(3);
    const reason = 'card,is not a known token\n';
    expect(runs.read('f.rejects.csv')).toBe(`line,field,reason\n2,${reason}3,${reason}`);
  });

  test.each([
    [
      'g.csv',
      'Email;name\na@example.org;b\n',
      /has no field of the policy \(version 1, .*the file has Email, name\. Rename its fields, or name them with --fields, which makes all of them of the kind text/,
    ],
    ['g.ndjson', '{"mail":"a@example.org"}\n', /has no field of the policy .*the file has mail\./],
    ['g.ndjson', '{"customer":{"email":7}}\n', /the field "customer\.email" is a number, not a/],
    ['g.ndjson', '{"customer":"a@example.org"}\n', /the field "customer" is a string, and a field/],
  ])('%s: %s', async (name, content, message) => {
    runs.write(name, content);
    expect(await runs.failure(`tokenize ${name} --policy -o out.g --force`)).toMatch(message);
    expect(runs.left('out.g')).toEqual([]);
  });

  test.each([
    ['--policy --fields email', '--policy names the fields: leave --fields out', 2],
    ['--policy --no-header', '--policy finds columns by their names', 2],
    ['--policy -', '--policy needs the name of a file', 2],
    ['--policy none.yaml', 'none.yaml cannot be read (ENOENT)', 1],
    // In place of an output.
    ['--kind card', '--kind is for one value', 2],
  ])('%s is refused', async (options, message, code) => {
    runs.write('h.csv', ROWS);
    const command = `tokenize h.csv -o h.out.csv ${options}`;
    expect(await runs.failure(command, {}, code)).toContain(message);
  });

  test('one value of a kind', async () => {
    const there = await runs.ok('tokenize 4111111111111111 --kind card');
    expect(there).toMatch(/^\d{12}1111\n$/);
    expect(await runs.ok(`detokenize ${there.trim()}`)).toBe('4111111111111111\n');
    const refused = await runs.failure('tokenize 1985-02-30 --kind date');
    expect(refused).toContain('The argument is not a real date like');
    expect(await runs.failure('tokenize Ann --kind uuid')).toContain(
      'No field of the policy (version 1) has the kind uuid; they have: mail, text, card, word, date.',
    );
  });

  test('without a policy, or without fields in it, the remedy is told', async () => {
    const other = await startService(await usualPlace());
    const env = { STANDIN_URL: other.url, STANDIN_API_KEY: other.api_key };
    runs.write('i.csv', ROWS);
    expect(await runs.failure('tokenize i.csv --policy -o i.out.csv', env)).toContain(
      'has no policy (404): apply one with standin policy apply, or name the fields with --fields.',
    );
    await other.stop();
    other.place.remove();
  });

  /** Applies a version, and resolves when it is in force. */
  async function change(version: number, document: string): Promise<void> {
    await applyPolicy(runs.service, version, document);
    await inForce(runs.service, version);
  }

  test('no run goes on with another policy, and no document of another one is used', async () => {
    const many = Array.from({ length: 3_000 }, (_, i) => `${i},a${i}@example.org\n`).join('');
    const tokenize = (name: string) => `tokenize ${name}.csv --policy -o ${name}.out.csv`;
    const resume = (name: string) => `${tokenize(name)} --resume --rejects ${name}.bad`;
    for (const name of ['j', 'k']) {
      runs.write(`${name}.csv`, `id,email\n${many}7,no address\n`);
      const stopped = await runs.failure(tokenize(name));
      expect(stopped).toContain('Line 3002: the field "email" is not an e-mail address');
      expect(stopped).toContain('with the same options and --resume');
    }
    expect(await runs.run(resume('j'))).toMatchObject({ code: 3 });
    expect(runs.read('j.out.csv').split('\n')).toHaveLength(3_002);
    const { child, ended } = runs.begin('tokenize - --format csv --policy policy.yaml -o l.csv');
    // The run ends before it has read everything.
    child.stdin!.on('error', () => {});
    child.stdin!.write('email\nfirst@example.org\n');
    await until(() => runs.exists('l.csv.partial'), 'the run has begun');
    await change(2, POLICY.replace('email: mail', 'email: text'));
    child.stdin!.end('second@example.org\n'.repeat(20_000));
    const changed = await ended;
    expect(changed.code).toBe(1);
    expect(changed.stderr).toContain('does not use version 1 of the policy any more (412)');
    expect(changed.stderr).not.toContain('--resume');
    expect(await runs.failure(resume('k'))).toMatch(
      /The run to resume used --policy version 1, [0-9a-f]{12}: use the same, or start again with --force/,
    );
    runs.write('m.csv', ROWS);
    expect(await runs.failure('tokenize m.csv --policy policy.yaml -o m.out.csv')).toContain(
      'policy.yaml is not the policy in force, which is version 2. Compare them with standin policy diff policy.yaml;',
    );
    await runs.ok(`${tokenize('k')} --force`);
    await change(3, 'version: 1\n');
    const none = 'Version 3 of the policy names no fields';
    expect(await runs.failure(tokenize('m'))).toContain(none);
  });
});
