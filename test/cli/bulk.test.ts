import { execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { openSync, readFileSync, statSync, symlinkSync, writeFileSync } from 'node:fs';
import { gunzipSync, gzipSync } from 'node:zlib';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { BulkRuns, csvOf } from '../support/bulk-run.ts';
import { samples } from '../support/samples.ts';
import {
  CLI,
  createClient,
  type Place,
  type Service,
  startService,
  usualPlace,
} from '../support/service.ts';

let place: Place;
let service: Service;
let runs: BulkRuns;
beforeAll(async () => {
  place = await usualPlace();
  service = await startService(place);
  runs = new BulkRuns(place, service);
});
afterAll(async () => {
  await service.stop();
  place.remove();
  expect(runs.stderr).not.toContain(service.api_key);
  expect(runs.stderr).not.toContain('@example.org');
});

const TOKEN = /^[a-z0-9.]+@[a-z]+\.[a-z]+_tok$/;

test('a CSV there and back is the same file; what is not named stays as it was', async () => {
  const input = csvOf(5_000, 'thereandback');
  runs.write('a.csv', input);
  const there = await runs.run('tokenize a.csv --fields email,name -o a.out.csv --json');
  expect(there).toMatchObject({ code: 0 });
  expect(JSON.parse(there.stdout)).toMatchObject({
    is_complete: true,
    rows: 5_000,
    values: 10_000,
    rejected: 0,
  });
  const lines = runs.read('a.out.csv').split('\r\n');
  expect(lines).toHaveLength(5_002);
  expect(lines[0]).toBe('id,email,name');
  for (const i of [1, 2_500, 5_000]) {
    const [id, email, ...name] = lines[i]!.split(',');
    expect(id).toBe(String(i));
    expect(email).toMatch(TOKEN);
    expect(name.join(',')).toMatch(/^"[a-z]{3} ""[a-z ]+"", \d+_tok"$/);
  }
  const back = await runs.run('detokenize a.out.csv --fields name,email -o a.back.csv');
  expect(back).toMatchObject({ code: 0 });
  expect(back.stdout).toMatch(
    /^detokenized 10,000 values in .* 5,000 rows, none rejected; replaced: email 5,000, name 5,000\.\n$/,
  );
  expect(runs.read('a.back.csv')).toBe(input);
  expect(statSync(runs.path('a.back.csv')).mode & 0o777).toBe(0o600);
  expect(runs.exists('a.back.csv.partial') || runs.exists('a.back.csv.checkpoint')).toBe(false);
});

test.each(samples)(
  'all columns of the sample $name there and back',
  async ({ name, csv, rows }) => {
    runs.write(name, csv);
    const fields = Object.keys(rows[0]!).slice(1).join(',');
    const there = `tokenize ${name} --format csv --fields ${fields} -o there --force`;
    expect(await runs.run(there)).toMatchObject({ code: 0 });
    expect(runs.read('there')).not.toBe(csv);
    const back = `detokenize there --format csv --fields ${fields} -o back --force`;
    expect(await runs.run(back)).toMatchObject({ code: 0 });
    expect(runs.read('back')).toBe(csv);
  },
);

test('NDJSON in gzip there and back, the file with its numbers and spaces', async () => {
  const rows = Array.from(
    { length: 3_000 },
    (_, i) =>
      `{ "n": ${i}.10, "customer": {"emails": ["a${i}@example.org", ""], "name": "Ann ${i}"}}\n`,
  );
  runs.write('b.ndjson.gz', gzipSync(rows.join('')));
  const fields = 'customer.emails[*],customer.name';
  await runs.run(`tokenize b.ndjson.gz --fields ${fields} -o b.out.jsonl.gz`);
  const there = gunzipSync(readFileSync(runs.path('b.out.jsonl.gz')))
    .toString()
    .split('\n');
  expect(there[7]).toMatch(
    /^\{ "n": 7\.10, "customer": \{"emails": \["[a-z0-9@.]+_tok", ""\], "name"/,
  );
  await runs.run(`detokenize b.out.jsonl.gz --fields ${fields} -o b.back.ndjson`);
  expect(runs.read('b.back.ndjson')).toBe(rows.join(''));
});

test('standard input to standard output; what was told goes to standard error', async () => {
  const input = 'a\tb\nann@example.org\t"1\n';
  const command = 'tokenize - --format tsv --fields a -o -';
  const there = await runs.run(command, input);
  expect(there).toMatchObject({ code: 0 });
  expect(there.stdout).toMatch(/^a\tb\n\S+_tok\t"1\n$/);
  expect(there.stderr).toContain('tokenized 1 value in');
  const back = await runs.run('detokenize - --format tsv --fields a -o -', there.stdout);
  expect(back.stdout).toBe(input);
  expect((await runs.run(command, gzipSync(input))).stdout).toBe(there.stdout);
});

test('a pipe with a name is read once', async () => {
  execFileSync('mkfifo', [runs.path('pipe.csv')]);
  runs.write('piped.csv', csvOf(5_000, 'piped'));
  const writer = spawn('sh', ['-c', 'cat piped.csv > pipe.csv'], { cwd: runs.folder });
  const { code } = await runs.run('tokenize pipe.csv --fields email -o piped.out.csv');
  expect(code).toBe(0);
  writer.kill();
  expect(runs.read('piped.out.csv').split('\r\n')).toHaveLength(5_002);
});

test('a pipe that stays open gets the rows that are done', async () => {
  const child = runs.start('tokenize - --format ndjson --fields a -o -');
  const ended = runs.end(child);
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
  const child = runs.start('tokenize c.csv --fields a -o c.out.csv', { NODE_DEBUG: 'esm' });
  const { code, stderr } = await runs.end(child);
  expect(code).toBe(0);
  expect(stderr).toContain('/node_modules/commander/');
  expect(stderr).not.toMatch(
    /node_modules\/(pg|fastify|@electric-sql|@redis|jose|pino|prom-client)\//,
  );
});

describe('bad rows', () => {
  const input = 'id,email\n1,a@example.org\n2\n3,"\n,",\n4,d@example.org\n';

  test('the first one ends the run, and --resume with --rejects goes on', async () => {
    runs.write('d.csv', input);
    const command = 'tokenize d.csv --fields email -o d.out.csv';
    const stopped = await runs.run(command);
    expect(stopped.code).toBe(1);
    expect(stopped.stderr).toContain('Line 3: the row has 1 cell instead of 2. To leave bad rows');
    expect(runs.exists('d.out.csv')).toBe(false);
    const files = '--rejects d.rejects.csv --rejected-rows d.bad.csv';
    const { code, stdout } = await runs.run(`${command} --resume ${files} --json`);
    expect(code).toBe(3);
    expect(JSON.parse(stdout)).toMatchObject({
      is_complete: true,
      rows: 4,
      values: 2,
      rejected: 2,
    });
    expect(runs.read('d.rejects.csv')).toBe(
      'line,field,reason\n3,,has 1 cell instead of 2\n4,,has 3 cells instead of 2\n',
    );
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

  test('unknown tokens are found among the others; what is no token is not asked for', async () => {
    runs.write('e.csv', csvOf(1_000, 'some unknown'));
    await runs.run('tokenize e.csv --fields email -o e.out.csv');
    const lines = runs.read('e.out.csv').split('\r\n');
    const unknown = [5, 6, 700, 1_000];
    for (const i of unknown) lines[i] = `${i},qqqqqqq.qqqqq@qqqqq.qqq_tok,x`;
    lines[9] = '9,never.was@example.org,x';
    runs.write('e.bad.csv', lines.join('\r\n'));
    const first = await runs.run('detokenize e.bad.csv --fields email -o e.none.csv');
    expect(first.stderr).toContain('Line 6: the field "email" is not a known token');
    const all = await runs.run(
      'detokenize e.bad.csv --fields email -o e.back.csv --rejects e.rejects.csv',
    );
    expect(all.code).toBe(3);
    expect(runs.read('e.rejects.csv').split('\n').slice(1, -1)).toEqual([
      '6,email,is not a known token',
      '7,email,is not a known token',
      '10,email,is not a token',
      '701,email,is not a known token',
      '1001,email,is not a known token',
    ]);
    const good = csvOf(1_000, 'some unknown').split('\r\n');
    const kept = good.filter((_, i) => ![...unknown, 9].includes(i));
    expect(runs.read('e.back.csv')).toBe(kept.join('\r\n'));
  });
});

describe('it refuses', () => {
  beforeAll(() => {
    runs.write('f.csv', 'a\nx\n');
    symlinkSync('f.csv', runs.path('link.csv'));
    runs.write('there.csv', '');
    runs.write('h.csv.partial', 'a\nx\n');
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
    [
      'f.csv --fields a -o g.csv --rejects none/r.csv',
      '--rejects: the folder none does not exist: make it',
    ],
    ['none.csv --fields a -o g.csv', 'none.csv cannot be read (ENOENT)'],
    ['. --fields a -o g.csv', 'add --format'],
    ['. --format csv --fields a -o g.csv', 'is a folder'],
    ['- --fields a -o g.csv', 'add --format csv, tsv, ndjson or json'],
    ['- --format csv --fields a -o g.csv --resume', 'Only a run from a file to a file'],
    ['f.csv --fields a -o g.csv --format ndjson --no-header', 'are for csv and tsv'],
    ['f.csv --fields b -o g.csv', 'f.csv has no field b; its fields are: a'],
    ['f.csv --fields a -o g.csv --api-key-file none', 'The file none cannot be read (ENOENT)'],
  ])('tokenize %s', async (args, message) => {
    const { code, stdout, stderr } = await runs.run(`tokenize ${args}`);
    expect(stderr).toContain(message);
    expect({ code, stdout }).toEqual({ code: 1, stdout: '' });
    for (const kept of ['f.csv', 'h.csv.partial']) expect(runs.read(kept)).toBe('a\nx\n');
    for (const left of ['g.csv', 'g.csv.partial', 'g.csv.checkpoint'])
      expect(runs.exists(left)).toBe(false);
  });

  test.each([
    [
      'f.csv',
      'the file f.csv needs --fields or --policy, and --output; for the text itself, add --value',
    ],
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
  ])('as wrong usage: %s', async (args, message) => {
    const { code, stderr } = await runs.run(`tokenize ${args}`);
    expect(stderr).toContain(message);
    expect(code).toBe(2);
  });

  test('keys that are missing, malformed, unknown or not allowed to, in words', async () => {
    const message = async (env: Record<string, string>) => {
      const child = runs.start('tokenize f.csv --fields a -o g.csv --force', env);
      const { code, stderr } = await runs.end(child);
      expect(code).toBe(1);
      return stderr;
    };
    expect(await message({ STANDIN_API_KEY: '' })).toContain('set STANDIN_API_KEY');
    expect(await message({ STANDIN_API_KEY: 'x' })).toContain('STANDIN_API_KEY is not an API key');
    expect(await message({ STANDIN_URL: 'x' })).toContain('STANDIN_URL is not an http://');
    const unknown = `stk_${'a'.repeat(34)}`;
    expect(await message({ STANDIN_API_KEY: unknown })).toContain('401');
    const { api_key: apiKey } = await createClient(place, '--can', 'detokenize');
    expect(await message({ STANDIN_API_KEY: apiKey })).toContain('403');
  });

  test('an API key is taken from a file', async () => {
    writeFileSync(runs.path('key'), `${service.api_key}\n`, { mode: 0o600 });
    const child = runs.start('tokenize f.csv --fields a -o k.csv --api-key-file key', {
      STANDIN_API_KEY: '',
    });
    expect((await runs.end(child)).code).toBe(0);
  });
});

test('a client with a low limit is served by waiting', async () => {
  const { api_key: apiKey } = await createClient(place, '--rate-limit', '3');
  runs.write('h.csv', csvOf(10_000, 'limited'));
  const child = runs.start('tokenize h.csv --fields email,name -o h.out.csv', {
    STANDIN_API_KEY: apiKey,
  });
  const { code, stdout } = await runs.end(child);
  expect(code).toBe(0);
  expect(stdout).toContain('20,000 values');
});

test('a reader that goes away, or a full device, ends it with a word', async () => {
  runs.write('i.csv', csvOf(20_000, 'unread'));
  const child = runs.start('tokenize i.csv --fields email -o -');
  child.stdout!.once('data', () => child.stdout!.destroy());
  const gone = await runs.end(child);
  expect(gone.code).toBe(1);
  expect(gone.stderr).toContain('standard output cannot be written (the reader is gone, EPIPE)');
  const full = spawn(process.execPath, [CLI, ...'tokenize f.csv --fields a -o -'.split(' ')], {
    cwd: runs.folder,
    env: { PATH: process.env.PATH, ...runs.env },
    stdio: ['ignore', openSync('/dev/full', 'w'), 'pipe'],
  });
  let stderr = '';
  full.stderr!.on('data', (chunk) => {
    stderr += chunk;
  });
  const [code] = await once(full, 'close');
  expect(code).toBe(1);
  expect(stderr).toContain('the disk is full');
});

test('gzip data that is cut off is a failure, after the rows before it', async () => {
  const whole = gzipSync(csvOf(20_000, 'cut off'));
  runs.write('j.csv.gz', whole.subarray(0, whole.length - 1_000));
  const { code, stderr } = await runs.run('tokenize j.csv.gz --fields email -o j.out.csv');
  expect(code).toBe(1);
  expect(stderr).toContain('The gzip data of j.csv.gz is damaged or cut off');
  expect(runs.exists('j.out.csv')).toBe(false);
  expect(runs.read('j.out.csv.partial').split('\r\n').length).toBeGreaterThan(2);
});

test('an empty NDJSON file, and a file with a header alone, are done at once', async () => {
  runs.write('k.ndjson', '');
  runs.write('l.csv', 'a,b');
  expect((await runs.run('tokenize k.ndjson --fields a -o k.out.ndjson')).code).toBe(0);
  expect(runs.read('k.out.ndjson')).toBe('');
  expect((await runs.run('tokenize l.csv --fields a -o l.out.csv')).code).toBe(0);
  expect(runs.read('l.out.csv')).toBe('a,b');
});
