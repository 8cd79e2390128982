import { readdirSync } from 'node:fs';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { BulkRuns } from '../support/bulk-run.ts';
import {
  createClient,
  type Place,
  runCli,
  type Service,
  startService,
  usualPlace,
} from '../support/service.ts';
import { kinds } from '../support/terminal.ts';

let place: Place;
let service: Service;
let runs: BulkRuns;
beforeAll(async () => {
  place = await usualPlace();
  service = await startService(place);
  runs = new BulkRuns(place, service);
  runs.write('a.csv', 'id,name,email,"a, b"\n1,Ann Lee,ann@example.org,x\n2,Bo Ray,,y\n');
});
afterAll(async () => {
  await service.stop();
  place.remove();
});

const left = (name: string) => readdirSync(runs.folder).filter((file) => file.startsWith(name));

/** Words may have spaces. */
const tokenize = (...words: string[]) => runCli(['tokenize', ...words], place, runs.env);

describe('options that are repeated', () => {
  test.each([
    ['--fields', 'name', '--fields', 'email'],
    ['--fields', ' name, email '],
  ])('fields add up, and spaces around them count as nothing: %s', async (...fields) => {
    const { code, stdout } = await tokenize(runs.path('a.csv'), ...fields, '-o', '-');
    expect(stdout).toMatch(
      /^id,name,email,"a, b"\n1,[a-z]{3} [a-z]{3}_tok,[a-z@.]+_tok,x\n2,[a-z]{2} [a-z]{3,}_tok,,y\n$/,
    );
    expect(code).toBe(0);
  });

  test.each([
    ['tokenize a.csv --fields email -o b.csv -o c.csv', "'-o, --output <file>'"],
    ['tokenize ann --kind text --kind email', "'--kind <kind>'"],
    ['client create --name a --can tokenize --can detokenize', "'--can <operations>'"],
    ['forget --file a --space one --space two', "'--space <name>'"],
  ])('any other is refused, since one of its values would be lost: %s', async (command, option) => {
    const { code, stderr } = await runs.run(command);
    expect(stderr).toContain(`error: option ${option} is given twice: give it once\n`);
    expect(code).toBe(2);
  });
});

describe('the last line of a run names the fields that it replaced', () => {
  test('with their counts, of this run and those that it continues', async () => {
    const quoted = ['--fields', 'name,email,"a, b"'];
    const first = await tokenize(runs.path('a.csv'), ...quoted, '-o', runs.path('d.csv'));
    expect(kinds(first.stdout)).toBe(
      'tokenized 5 values in id; 2 rows, none rejected; replaced: name 2, email 1, "a, b" 2.',
    );
    const rows = Array.from({ length: 3_000 }, (_, i) => `${i},name ${i},a${i}@b.org,x\n`);
    runs.write('e.csv', `id,name,email,c\n${rows.join('')}bad\n`);
    const command = 'tokenize e.csv --fields name,email -o e.out';
    expect((await runs.run(command)).code).toBe(1);
    const { stdout } = await runs.run(`${command} --resume --rejects e.bad --json`);
    expect(JSON.parse(stdout)).toMatchObject({ replaced: { name: 3_000, email: 3_000 } });
  });

  test('or that there was nothing to replace', async () => {
    runs.write('f.csv', 'email\n""\n');
    const { stdout } = await runs.run('tokenize f.csv --fields email -o f.out');
    expect(kinds(stdout)).toContain('1 row, none rejected; replaced: nothing.');
  });
});

describe('what is a token already', () => {
  test('a field of tokens ends the run before it writes; --retokenize makes tokens of them', async () => {
    await runs.run('tokenize a.csv --fields name -o g.csv');
    const again = 'tokenize g.csv --fields email,name -o h.csv';
    const { code, stderr } = await runs.run(again);
    expect(stderr).toBe(
      'standin: The field "name" has tokens already: all values in the first rows end in _tok, as tokens of this vault do. Leave the field out, or add --retokenize to make tokens of tokens.\n',
    );
    expect([code, left('h.csv')]).toEqual([1, []]);
    expect((await runs.run(`${again} --retokenize`)).code).toBe(0);
    expect((await runs.run('detokenize h.csv --fields email,name -o i.csv')).code).toBe(0);
    expect(runs.read('i.csv')).toBe(runs.read('g.csv'));
  });

  test('a client that may only tokenize is told as well; one value among others is none', async () => {
    const { api_key: apiKey } = await createClient(place, '--can', 'tokenize');
    const env = { STANDIN_API_KEY: apiKey };
    runs.write('j.csv', 'email\nurb@waovwde.dhq_tok\n');
    const told = await runs.end(runs.start('tokenize j.csv --fields email -o j.out', env));
    expect(told.stderr).toContain('The field "email" has tokens already');
    runs.write('k.csv', 'email\nurb@waovwde.dhq_tok\nann@example.org\nbo_id\n');
    // A run that has written goes on, whatever comes later.
    const [plain, like] = ['ann@example.org\n', 'urb@waovwde.dhq_tok\n'];
    runs.write('l.csv', `email\n${plain.repeat(6_000)}${like.repeat(12_000)}`);
    for (const name of ['k', 'l']) {
      const command = `tokenize ${name}.csv --fields email -o ${name}.out`;
      expect((await runs.end(runs.start(command, env))).code).toBe(0);
    }
  });

  test('one value that looks like a token is told beside its token', async () => {
    const { code, stdout, stderr } = await runs.run('tokenize lxo_tok');
    expect([code, stdout]).toEqual([0, expect.stringMatching(/^[a-z_]+_tok\n$/)]);
    expect(stderr).toBe('standin: the argument looks like a token already: it ends in _tok\n');
  });
});

describe('the name of a file that is misspelt is not tokenized', () => {
  test.each(['customer.csv', 'orders.NDJSON', 'a.tsv.gz', 'list.txt', 'data/customers', 'x.xlsx'])(
    '%s',
    async (name) => {
      for (const operation of ['tokenize', 'detokenize']) {
        const { code, stdout, stderr } = await runs.run(`${operation} ${name}`);
        expect([code, stdout]).toEqual([2, '']);
        expect(stderr).toContain(
          'error: there is no such file: correct the name; or add --value, if the argument is the text itself\n',
        );
      }
      expect(await runs.run(`tokenize --value ${name}`)).toMatchObject({ code: 0, stderr: '' });
    },
  );

  test('what has a kind is a value, and a token may have a slash', async () => {
    const { stdout } = await runs.run('tokenize --value 03/04/2020');
    expect(await runs.run(`detokenize ${stdout.trim()}`)).toMatchObject({ stdout: '03/04/2020\n' });
    const { stderr } = await runs.run('tokenize 03/04/2020 --kind date');
    expect(stderr).toContain('has no policy (404)');
  });
});
