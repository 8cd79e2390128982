import { execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync, statSync, symlinkSync } from 'node:fs';
import { gunzipSync, gzipSync } from 'node:zlib';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { bulkRuns, csvOf } from '../support/bulk-run.ts';
import { samples } from '../support/samples.ts';
import { CLI, endOf } from '../support/service.ts';

const runs = bulkRuns();
afterAll(() => expect(runs.stderr).not.toContain('@example.org'));

test('a CSV there and back is the same file; what is not named stays as it was', async () => {
  const input = csvOf(5_000, 'thereandback');
  runs.write('a.csv', input);
  const there = await runs.ok('tokenize a.csv --fields email,name -o a.out.csv --json');
  const counts = { is_complete: true, rows: 5_000, values: 10_000, rejected: 0 };
  const { seconds, values_per_second: rate, ...done } = JSON.parse(there);
  expect([done, rate]).toMatchObject([counts, Math.round(10_000 / seconds)]);
  const lines = runs.read('a.out.csv').split('\r\n');
  expect([lines.length, lines[0]]).toEqual([5_002, 'id,email,name']);
  for (const i of [1, 2_500, 5_000]) {
    const row = `^${i},[a-z0-9.]+@[a-z]+\\.[a-z]+_tok,"[a-z]{3} ""[a-z ]+"", \\d+_tok"$`;
    expect(lines[i]).toMatch(new RegExp(row));
  }
  expect(await runs.ok('detokenize a.out.csv --fields name,email -o a.back.csv')).toMatch(
    /^detokenized 10,000 values in .* 5,000 rows, none rejected; replaced: email 5,000, name 5,000\.\n$/,
  );
  expect(runs.read('a.back.csv')).toBe(input);
  expect(statSync(runs.path('a.back.csv')).mode & 0o777).toBe(0o600);
  expect(runs.left('a.back.csv')).toEqual(['a.back.csv']);
});

const indented = (rows: unknown) => `${JSON.stringify(rows, null, 2)}\n`;
test.each(samples.flatMap((one) => (['csv', 'json'] as const).map((form) => ({ ...one, form }))))(
  'all columns of the sample $name there and back, as $form',
  async ({ csv, rows, form }) => {
    const content = form === 'csv' ? csv : indented(rows);
    runs.write('sample', content);
    const options = `--format ${form} --fields ${Object.keys(rows[0]!).slice(1).join(',')} --force`;
    expect(await runs.ok(`tokenize sample ${options} -o there`)).toMatch(
      new RegExp(`; ${rows.length} rows, none rejected; replaced: .*\\.\n$`),
    );
    for (const { email } of rows) expect(runs.read('there')).not.toContain(email);
    await runs.ok(`detokenize there ${options} -o back`);
    expect(runs.read('back')).toBe(content);
  },
);

test('NDJSON in gzip there and back: the names of the files say so', async () => {
  const rows = '{ "n": 7.10, "emails": ["ann@example.org", ""]}\n'.repeat(3_000);
  runs.write('b.ndjson.gz', gzipSync(rows));
  await runs.ok('tokenize b.ndjson.gz --fields emails[*] -o b.out.jsonl.gz');
  const there = gunzipSync(readFileSync(runs.path('b.out.jsonl.gz'))).toString();
  expect(there).toMatch(/^(\{ "n": 7\.10, "emails": \["[a-z@.]+_tok", ""\]\}\n){3000}$/);
  await runs.ok('detokenize b.out.jsonl.gz --fields emails[*] -o b.back.ndjson');
  expect(runs.read('b.back.ndjson')).toBe(rows);
});

test('standard input to standard output; what was told goes to standard error', async () => {
  const input = 'a\tb\nann@example.org\t"1\n';
  const command = 'tokenize - --format tsv --fields a -o -';
  const there = await runs.feed(command, input);
  expect(there).toMatchObject({ code: 0, stdout: expect.stringMatching(/^a\tb\n\S+_tok\t"1\n$/) });
  expect(there.stderr).toContain('tokenized 1 value in');
  expect((await runs.feed(`de${command}`, there.stdout)).stdout).toBe(input);
  expect((await runs.feed(command, gzipSync(input))).stdout).toBe(there.stdout);
});

test('a pipe with a name is read once', async () => {
  execFileSync('mkfifo', [runs.path('pipe.csv')]);
  runs.write('piped.csv', csvOf(5_000, 'piped'));
  const cwd = runs.place.folder;
  const writer = spawn('sh', ['-c', 'cat piped.csv > pipe.csv'], { cwd });
  await runs.ok('tokenize pipe.csv --fields email -o piped.out.csv');
  writer.kill();
  expect(runs.read('piped.out.csv').split('\r\n')).toHaveLength(5_002);
});

test('a pipe that stays open gets the rows that are done', async () => {
  const { child, ended } = runs.begin('tokenize - --format ndjson --fields a -o -');
  for (const name of ['one', 'two']) {
    child.stdin!.write(`{"a":"${name}"}\n`);
    const [chunk] = await once(child.stdout!, 'data');
    expect(String(chunk)).toMatch(/^\{"a":"[a-z]{3}\w*_tok"\}\n$/);
  }
  child.stdin!.end();
  expect((await ended).code).toBe(0);
});

test('it loads what it needs, and needs no vault', async () => {
  runs.write('c.csv', 'a\nx\n');
  const command = 'tokenize c.csv --fields a -o c.out.csv';
  const { code, stderr } = await runs.begin(command, { NODE_DEBUG: 'esm' }).ended;
  expect(code).toBe(0);
  expect(stderr).toContain('/node_modules/commander/');
  const others = /node_modules\/(pg|fastify|@electric-sql|@redis|jose|pino|prom-client)\//;
  expect(stderr).not.toMatch(others);
});

describe('bad rows', () => {
  test('the first one ends the run, and --resume with --rejects goes on', async () => {
    runs.write('d.csv', 'id,email\n1,a@example.org\n2\n3,"\n,",\n4,d@example.org\n');
    const command = 'tokenize d.csv --fields email -o d.out.csv';
    const words = 'Line 3: the row has 1 cell instead of 2. To leave bad rows';
    expect(await runs.failure(command)).toContain(words);
    expect(runs.exists('d.out.csv')).toBe(false);
    const files = '--rejects d.rejects.csv --rejected-rows d.bad.csv';
    const { code, stdout } = await runs.run(`${command} --resume ${files} --json`);
    expect(code).toBe(3);
    const counts = { is_complete: true, rows: 4, values: 2, rejected: 2 };
    expect(JSON.parse(stdout)).toMatchObject(counts);
    const faults = '3,,has 1 cell instead of 2\n4,,has 3 cells instead of 2\n';
    expect(runs.read('d.rejects.csv')).toBe(`line,field,reason\n${faults}`);
    expect(runs.read('d.bad.csv')).toBe('id,email\n2\n3,"\n,",\n');
    expect(statSync(runs.path('d.bad.csv')).mode & 0o777).toBe(0o600);
    expect(runs.read('d.out.csv')).toMatch(/^id,email\n1,\S+_tok\n4,\S+_tok\n$/);
  });

  test('a rejects file is CSV, whatever the name of a field has in it', async () => {
    runs.write('q.csv', '"a\rb"\nx\n');
    const files = '--rejects q.rejects.csv -o q.out.csv';
    expect((await runs.run(`detokenize q.csv --fields "a\rb" ${files}`)).code).toBe(3);
    expect(runs.read('q.rejects.csv')).toBe('line,field,reason\n3,"a\rb",is not a token\n');
  });

  test('unknown tokens, and what is no token, are bad rows in words of their own', async () => {
    const token = await runs.ok('tokenize ann@example.org');
    runs.write('e.csv', `email\n${token}qqqqqqq.qqqqq@qqqqq.qqq_tok\nnever.was@example.org\n`);
    const command = 'detokenize e.csv --fields email -o e.back.csv';
    const words = 'Line 3: the field "email" is not a known token';
    expect(await runs.failure(command)).toContain(words);
    expect((await runs.run(`${command} --rejects e.rejects.csv`)).code).toBe(3);
    const faults = '3,email,is not a known token\n4,email,is not a token\n';
    expect(runs.read('e.rejects.csv')).toBe(`line,field,reason\n${faults}`);
    expect(runs.read('e.back.csv')).toBe('email\nann@example.org\n');
  });

  test.each([[[1]], [[0, 1]], [[1, 2]], [[0]], [[2]], [[0, 1, 2]]])(
    'the items %j of an array are left out, and both files are arrays',
    async (bad) => {
      const emails = ['a@example.org', 'b@example.org', 'c@example.org'];
      const rows = emails.map((email, i) => ({ email: bad.includes(i) ? i : email }));
      runs.write('p.json', JSON.stringify(rows, null, 1));
      const files = '--rejects p.rejects --rejected-rows p.bad.json -o p.out.json --force';
      expect((await runs.run(`tokenize p.json --fields email ${files}`)).code).toBe(3);
      expect(JSON.parse(runs.read('p.out.json'))).toHaveLength(3 - bad.length);
      expect(JSON.parse(runs.read('p.bad.json'))).toEqual(bad.map((i) => ({ email: i })));
      const faults = bad.map((i) => `${3 * i + 2},email,"is a number, not a string"\n`);
      expect(runs.read('p.rejects')).toBe(`line,field,reason\n${faults.join('')}`);
    },
  );
});

describe('it refuses', () => {
  beforeAll(() => {
    runs.write('f.csv', 'a\nx\n');
    symlinkSync('f.csv', runs.path('link.csv'));
    runs.write('there.csv', '');
    runs.write('h.csv.partial', 'a\nx\n');
    runs.write('a.xlsx', 'PK');
  });

  test.each([
    ['f.csv --fields a -o f.csv', 'are the same file'],
    ['f.csv --fields a -o link.csv --force', 'are the same file'],
    ['f.csv --fields a -o g.csv --rejects g.csv', '--rejects and --output are the same file'],
    ['h.csv.partial --format csv --fields a -o h.csv --force', 'are the same file'],
    ['f.csv --fields a -o g.csv --rejects g.csv.checkpoint', 'are the same file'],
    ['f.csv --fields a -o there.csv', 'there.csv exists: name another, or replace it with --force'],
    ['f.csv --fields a -o /dev/null --force', '/dev/null is not a file'],
    ['f.csv --fields a -o none/g.csv', '--output: the folder none does not exist: make it'],
    ['f.csv --fields a -o g.csv --rejects none/r.csv', '--rejects: the folder none does not exist'],
    ['none.csv --fields a -o g.csv', 'none.csv cannot be read (ENOENT)'],
    ['. --fields a -o g.csv', 'add --format'],
    ['. --format csv --fields a -o g.csv', 'is a folder'],
    ['- --fields a -o g.csv', 'add --format csv, tsv, ndjson or json'],
    ['- --format csv --fields a -o g.csv --resume', 'Only a run from a file to a file'],
    ['f.csv --fields a -o g.csv --format ndjson --no-header', 'are for csv and tsv'],
    ['f.csv --fields b -o g.csv', 'f.csv has no field b; its fields are: a'],
    ['f.csv --fields a -o g.csv --api-key-file none', 'The file none cannot be read (ENOENT)'],
    ['a.xlsx --fields a -o g.csv', 'a.xlsx is not a text file: save it as CSV, TSV, NDJSON or'],
  ])('tokenize %s', async (args, message) => {
    expect(await runs.failure(`tokenize ${args}`)).toContain(message);
    for (const kept of ['f.csv', 'h.csv.partial']) expect(runs.read(kept)).toBe('a\nx\n');
    expect(runs.left('g.csv')).toEqual([]);
  });

  test.each([
    ['f.csv', 'the file f.csv needs --fields or --policy, and --output; for the text itself, add'],
    ['f.csv -o g.csv', '--fields'],
    ['f.csv --fields a', '--output'],
    ['-', 'standard input needs --fields or --policy, and --output'],
    ['none.csv --resume', 'the file none.csv needs'],
    ['x --value --fields a', '--value takes no options for files'],
    ['f.csv --fields a -o g.csv --resume --force', 'give one'],
    ['f.csv --fields a -o g.csv --rejected-rows h.csv', 'needs --rejects'],
    ['f.csv --fields a -o g.csv --delimiter ab', 'one ASCII character'],
    ['f.csv --fields a -o g.csv --timeout 0', 'whole number of seconds'],
    ['f.csv --fields a -o - --json', 'needs standard output for itself'],
    ['f.csv --fields a -o g.csv --rejects -', 'need names of files'],
    ['f.csv --fields a -o g.csv --rejects r --rejected-rows -', 'need names of files'],
  ])('as wrong usage: %s', async (args, message) => {
    expect(await runs.failure(`tokenize ${args}`, {}, 2)).toContain(message);
  });

  test.each([
    [{ STANDIN_API_KEY: '' }, 'set STANDIN_API_KEY'],
    [{ STANDIN_API_KEY: 'x' }, 'STANDIN_API_KEY is not an API key'],
    [{ STANDIN_URL: 'x' }, 'STANDIN_URL is not an http://'],
  ])('settings that are missing or malformed: %j', async (env, words) => {
    expect(await runs.failure('tokenize f.csv --fields a -o g.csv --force', env)).toContain(words);
  });

  test('an API key is taken from a file', async () => {
    runs.write('key', `${runs.service.api_key}\n`, 0o600);
    const command = 'tokenize f.csv --fields a -o k.csv --api-key-file key';
    await runs.ok(command, { STANDIN_API_KEY: '' });
    runs.write('key', '\n', 0o600);
    expect(await runs.failure(`${command} --force`)).toContain('is empty. Write the API key into');
  });
});

test('a reader that goes away, or a full device, ends it with a word', async () => {
  runs.write('i.csv', csvOf(20_000, 'unread'));
  const command = 'tokenize i.csv --fields email -o -';
  const { child, ended } = runs.begin(command);
  child.stdout!.once('data', () => child.stdout!.destroy());
  const gone = await ended;
  const words = 'standard output cannot be written (the reader is gone, EPIPE)';
  expect(gone).toMatchObject({ code: 1, stderr: expect.stringContaining(words) });
  runs.write('none.json', '[]');
  for (const args of [command, 'tokenize none.json --fields email -o -']) {
    const full = spawn('sh', ['-c', `"${process.execPath}" "${CLI}" ${args} > /dev/full`], {
      cwd: runs.place.folder,
      env: { ...process.env, STANDIN_URL: runs.service.url, STANDIN_API_KEY: runs.service.api_key },
    });
    const stderr = expect.stringMatching(/^standin: .*the disk is full.*\n$/m);
    expect(await endOf(full)).toMatchObject({ code: 1, stderr });
  }
});

test('gzip data that is cut off is a failure, after the rows before it', async () => {
  const whole = gzipSync(csvOf(20_000, 'cut off'));
  runs.write('j.csv.gz', whole.subarray(0, whole.length - 1_000));
  const stderr = await runs.failure('tokenize j.csv.gz --fields email -o j.out.csv');
  expect(stderr).toMatch(/The gzip data of j\.csv\.gz is damaged or cut off(?!.*--resume)/);
  expect(runs.exists('j.out.csv')).toBe(false);
  expect(runs.read('j.out.csv.partial').split('\r\n').length).toBeGreaterThan(2);
});
