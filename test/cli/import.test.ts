import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { userInfo } from 'node:os';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { naughtyStrings } from '../support/samples.ts';
import {
  call as callService,
  createClient,
  kinds,
  type Place,
  runCli,
  runJson,
  type Service,
  servedVault,
  usualKinds,
} from '../support/service.ts';

interface Pair {
  readonly token: string;
  readonly value: string;
}

/** As Vault's transform and transit engines, Skyflow, and Standin itself make them. */
const FOREIGN: Pair[] = [
  { token: '4929-0000-1111-2222', value: '4111-1111-1111-1111' },
  { token: 'vault:v1:8SDd3WHDOjf7mq69CyCqYjBXAiQQAVZRkFM13ok481zoCmHnSeDX9vyf7w==', value: 'a' },
  { token: '2c8b1a3e-0d5f-4f0e-9d5b-0c1d2e3f4a5b', value: 'ann@example.com' },
  { token: 'qkw@zhtrlpa.mfc_tok', value: 'bob@example.com' },
  { token: '"a, b" \'c\' <d>', value: 'a "quoted", value\nof two lines' },
  { token: 'x', value: 'é€😀' },
  { token: 'blank', value: '' },
];

/** Asks for one string, or several. */
async function call(
  service: Service,
  operation: 'tokenize' | 'detokenize',
  data: string | readonly string[],
  apiKey = service.api_key,
) {
  const { status, body } = await callService(service, operation, { data }, apiKey);
  return { status, body: { data: body.data?.data } };
}

let files = 0;

function fileOf(place: Place, text: string, ending = 'ndjson'): string {
  const path = join(place.folder, `pairs-${++files}.${ending}`);
  writeFileSync(path, text);
  return path;
}

function ndjson(pairs: readonly object[]): string {
  return pairs.map((pair) => `${JSON.stringify(pair)}\n`).join('');
}

async function importPairs(place: Place, pairs: readonly object[], ...options: string[]) {
  return runJson(place, 'import', fileOf(place, ndjson(pairs)), ...options);
}

async function expectPairs(service: Service, pairs: readonly Pair[], apiKey = service.api_key) {
  const tokens = await call(
    service,
    'tokenize',
    pairs.map(({ value }) => value),
    apiKey,
  );
  expect(tokens.body.data).toEqual(pairs.map(({ token }) => token));
  const values = await call(
    service,
    'detokenize',
    pairs.map(({ token }) => token),
    apiKey,
  );
  expect(values.body.data).toEqual(pairs.map(({ value }) => value));
}

describe.each(kinds())('import into the %s database', (kind) => {
  const at = servedVault(kind);

  test('A49: tokens of other vaults go on working, both ways, and a second run changes nothing', async () => {
    expect(await importPairs(at.place, FOREIGN)).toMatchObject({
      ...{ is_complete: true, rows: 7, rejected: 0 },
      ...{ imported: 7, already_known: 0, detokenize_only: 0 },
    });
    await expectPairs(at.service, FOREIGN);
    expect(await importPairs(at.place, FOREIGN)).toMatchObject({
      ...{ imported: 0, already_known: 7, detokenize_only: 0, rejected: 0 },
    });
    await expectPairs(at.service, FOREIGN);
    expect(await runJson(at.place, 'verify')).toMatchObject({ bad: 0, aliases: 7 });
  });

  test('a value that has a token of this vault keeps it; the old one is detokenized', async () => {
    const value = 'carla@example.com';
    const own = (await call(at.service, 'tokenize', value)).body.data;
    expect(await importPairs(at.place, [{ token: 'carla-1', value }])).toMatchObject({
      ...{ imported: 1, detokenize_only: 1 },
    });
    await expectPairs(at.service, [{ token: own, value }]);
    expect((await call(at.service, 'detokenize', 'carla-1')).body.data).toBe(value);
  });

  test('of two tokens of a value, the first in the file is the one that tokenize gives', async () => {
    const value = 'dora@example.com';
    const pairs = ['dora-1', 'dora-2', 'dora-1'].map((token) => ({ token, value }));
    expect(await importPairs(at.place, pairs, '--dry-run')).toMatchObject({
      ...{ imported: 2, already_known: 1, detokenize_only: 1 },
    });
    expect(await importPairs(at.place, pairs)).toMatchObject({ detokenize_only: 1, rejected: 0 });
    await expectPairs(at.service, [{ token: 'dora-1', value }]);
    expect((await call(at.service, 'detokenize', 'dora-2')).body.data).toBe(value);
  });
});

describe.each(usualKinds())('import, on %s', (kind) => {
  const at = servedVault(kind);

  /** The reasons in the rejects file, by line. */
  async function rejected(pairs: readonly object[], ...options: string[]) {
    const rejects = join(at.place.folder, `rejects-${++files}.csv`);
    const file = fileOf(at.place, ndjson(pairs));
    const { code, stdout } = await runCli(
      ['import', file, '--rejects', rejects, '--json', ...options],
      at.place,
    );
    expect(code).toBe(3);
    const lines = readFileSync(rejects, 'utf8').trim().split('\n').slice(1);
    return { counts: JSON.parse(stdout), lines };
  }

  test('A48: each conflict is rejected with its line and the remedy; the rest is imported', async () => {
    const own = (await call(at.service, 'tokenize', 'own@example.com')).body.data;
    await importPairs(at.place, [
      { token: 'taken', value: 'first' },
      { token: 'gone', value: 'forgotten' },
    ]);
    await runJson(at.place, 'forget', 'gone', '--yes');
    const pairs = [
      { token: 'taken', value: 'second' },
      { token: 'gone', value: 'another' },
      { token: own, value: 'other@example.com' },
      { token: 'twice', value: 'one' },
      { token: 'twice', value: 'two' },
      { token: 'same', value: 'same' },
      { token: 'é', value: 'value' },
      { token: ' edge', value: 'value' },
      { token: 'x'.repeat(1_001), value: 'value' },
      { token: null, value: 'value' },
      { token: 'no-value', value: null },
      { token: 'short_tok', value: 'x'.repeat(37) },
      { token: 'short', value: 'x'.repeat(1_025) },
      { token: 'other-kind', value: 'value', kind: 'card' },
      { token: 'other-space', value: 'value', space: 'no name' },
      { token: 'late', value: 'value', expires_at: '2020-01-01T00:00:00Z' },
      { token: 'good', value: 'good value' },
      { token: 'l'.repeat(256), value: 'long'.repeat(16_384) },
    ];
    const found = await rejected(pairs);
    const fields = found.lines.map((line) => line.split(',').slice(0, 2).join(' '));
    expect(fields).toEqual([
      ...['1 token', '2 token', '3 token', '5 token', '6 token', '7 token', '8 token', '9 token'],
      ...['10 token', '11 value', '12 value', '13 value', '14 kind', '15 space'],
      '16 expires_at',
    ]);
    expect(found.lines[0]).toContain(
      'stands for another value: keep one of the two; tokenize the other here',
    );
    expect(found.lines[1]).toContain('was forgotten');
    expect(found.lines[2]).toContain('was drawn by this vault for another value');
    expect(found.counts).toMatchObject({ rows: 18, rejected: 15, imported: 3 });
    expect((await call(at.service, 'detokenize', 'twice')).body.data).toBe('one');
    await expectPairs(at.service, [{ token: 'good', value: 'good value' }, pairs.at(-1) as Pair]);
  });

  test('A48: a dry run finds the same, names the other line, and writes nothing', async () => {
    const before = await runJson(at.place, 'verify');
    const pairs = [
      { token: 'dry', value: 'one' },
      { token: 'taken', value: 'third' },
      { token: 'dry', value: 'two' },
    ];
    const { counts, lines } = await rejected(pairs, '--dry-run');
    expect(lines[1]).toContain('stands for another value on line 1');
    expect(counts).toMatchObject({ is_dry_run: true, rejected: 2, imported: 1 });
    const { seconds: _, ...after } = await runJson(at.place, 'verify');
    expect(before).toMatchObject(after);
  });

  test('without --rejects, the first bad row ends the run with its line', async () => {
    const file = fileOf(
      at.place,
      ndjson([
        { token: 'fine', value: 'v' },
        { token: '', value: 'v' },
      ]),
    );
    const { code, stderr } = await runCli(['import', file], at.place);
    expect(code).toBe(1);
    expect(stderr).toContain('Line 2: the field "token" is empty');
    expect(existsSync(`${file}.checkpoint`)).toBe(false);
  });

  test('`import` finds columns by name or number, and paths in JSON by JSONPath', async () => {
    const named = fileOf(at.place, 'old?;"e-mail";sort\nn-1;a@example.com;\n', 'csv');
    await runJson(at.place, 'import', named, '--token-field', 'old?', '--value-field', 'e-mail');
    const items = fileOf(at.place, '[{"t":"n-3","v":"c@example.com"}]', 'json');
    await runJson(at.place, 'import', items, '--token-field', '$[*].t', '--value-field', '$.v');
    const numbered = fileOf(at.place, 'b@example.com\tn-2\n', 'tsv');
    const fields = ['--no-header', '--token-field', '2', '--value-field', '1'];
    await runJson(at.place, 'import', numbered, ...fields);
    await expectPairs(at.service, [
      { token: 'n-1', value: 'a@example.com' },
      { token: 'n-2', value: 'b@example.com' },
      { token: 'n-3', value: 'c@example.com' },
    ]);
  });

  test('in a space, the token is known there only; with --random, it is never given', async () => {
    const tenant = await createClient(at.place, '--space', 'tenant');
    const pair = { token: 'spaced', value: 'fred@example.com' };
    await importPairs(at.place, [pair], '--space', 'tenant');
    await expectPairs(at.service, [pair], tenant.api_key);
    expect((await call(at.service, 'detokenize', 'spaced')).status).toBe(400);
    const random = { token: 'random-1', value: 'gina@example.com' };
    const first = await importPairs(at.place, [random], '--random');
    expect(first).toMatchObject({ imported: 1, detokenize_only: 0 });
    expect(await importPairs(at.place, [random], '--random')).toMatchObject({ already_known: 1 });
    expect((await call(at.service, 'detokenize', 'random-1')).body.data).toBe(random.value);
    expect((await call(at.service, 'tokenize', random.value)).body.data).toMatch(/_tok$/);
  });

  test('a row can say that tokenize must not give its token', async () => {
    const rows = 'own_1,gus@example.com,detokenize\nown_2,gus@example.com,both\n';
    const file = fileOf(at.place, `token,value,use\n${rows}own_3,gus@example.com,\n`, 'csv');
    expect(await runJson(at.place, 'import', file, '--use-field', 'use')).toMatchObject({
      ...{ imported: 3, detokenize_only: 1 },
    });
    await expectPairs(at.service, [{ token: 'own_2', value: 'gus@example.com' }]);
    const { body } = await call(at.service, 'detokenize', ['own_1', 'own_3']);
    expect(body.data).toEqual(Array(2).fill('gus@example.com'));
    const { lines } = await rejected([{ token: 'own_4', value: 'v', use: 'tokenize' }]);
    expect(lines).toEqual(['1,use,is not both or detokenize']);
  });

  test('a token expires at the time in its row, and tokenize extends it', async () => {
    const soon = new Date(Date.now() + 3_600_000).toISOString();
    await importPairs(at.place, [{ token: 'ends', value: 'hugo@example.com', expires_at: soon }]);
    const { body } = await call(at.service, 'detokenize', 'ends');
    expect(body.data).toBe('hugo@example.com');
    await expectPairs(at.service, [{ token: 'ends', value: 'hugo@example.com' }]);
  });

  test('C37: guesses at imported tokens without suffix count, and detokenize FILE takes them', async () => {
    await importPairs(at.place, [{ token: 'bare-1', value: 'ida@example.com' }]);
    const guesser = await createClient(at.place, '--unknown-token-limit', '0.05');
    const guess = (i: number) => call(at.service, 'detokenize', `bare-${i}`, guesser.api_key);
    const statuses = [];
    for (let i = 100; i < 110; i++) statuses.push((await guess(i)).status);
    expect(statuses.slice(0, 2)).toEqual([400, 400]);
    expect(statuses).toContain(429);
    const file = fileOf(at.place, '{"a":"bare-1"}\n');
    const out = join(at.place.folder, 'bare.ndjson');
    const env = { STANDIN_URL: at.service.url, STANDIN_API_KEY: at.service.api_key };
    const args = ['detokenize', file, '--fields', 'a', '-o', out];
    expect((await runCli(args, at.place, env)).stderr).toContain('is not a token');
    expect((await runCli([...args, '--bare'], at.place, env)).code).toBe(0);
    expect(readFileSync(out, 'utf8')).toBe('{"a":"ida@example.com"}\n');
  });

  test('C36: the audit log says who imported how much, and without it nothing is written', async () => {
    const log = join(at.place.folder, 'audit.log');
    const good = fileOf(at.place, ndjson([{ token: 'audited', value: 'jo@example.com' }]));
    const torn = fileOf(at.place, ndjson([{ token: 'fine', value: 'v' }, { token: '' }]));
    const audited = { AUDIT_LOG: log };
    const codes = [];
    for (const args of [[good, '--dry-run', '--space', 'tenant'], [good], [torn]])
      codes.push((await runCli(['import', ...args], at.place, audited)).code);
    expect(codes).toEqual([0, 0, 1]);
    const about = { event: 'import', user: userInfo().username, kind: 'text', space: '' };
    const counts = { imported: 1, already_known: 0, rejected: 0 };
    const dry = { ...about, space: 'tenant', is_dry_run: true, input: good };
    const real = { ...about, is_dry_run: false, input: good };
    expect(linesOf(log)).toMatchObject([
      { ...dry, outcome: 'started' },
      { ...dry, outcome: 'success', ...counts },
      { ...real, outcome: 'started' },
      { ...real, outcome: 'success', ...counts },
      { ...real, outcome: 'started', input: torn },
      { ...real, outcome: 'failed', input: torn },
    ]);
    expect(readFileSync(log, 'utf8')).not.toContain('jo@example.com');
    expect((await runCli(['audit', 'verify', log], at.place)).code).toBe(0);

    const blocked = fileOf(at.place, ndjson([{ token: 'blocked', value: 'v' }]));
    const nowhere = { AUDIT_LOG: '/proc/none/audit.log' };
    const { code, stderr } = await runCli(['import', blocked], at.place, nowhere);
    expect([code, stderr]).toEqual([1, expect.stringContaining('so nothing was imported')]);
    expect((await call(at.service, 'detokenize', 'blocked')).status).toBe(400);
  });

  function linesOf(log: string): unknown[] {
    const lines = readFileSync(log, 'utf8').trim().split('\n');
    return lines.map((line) => JSON.parse(line));
  }

  test('any string can be the value of an old token', async () => {
    const distinct = [...new Set(naughtyStrings)].filter(
      (value) => value !== '' && value.length < 250,
    );
    const pairs = distinct.map((value, i) => ({ token: `naughty ${i}`, value }));
    expect(await importPairs(at.place, pairs)).toMatchObject({
      imported: pairs.length,
      rejected: 0,
    });
    const tokens = pairs.map(({ token }) => token);
    expect((await call(at.service, 'detokenize', tokens)).body.data).toEqual(distinct);
  });
});
