import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { OLDER_TEXT } from '../../src/shape/kind.ts';
import type { Value } from '../../src/types.ts';
import { admin, adminPlace } from '../support/admin.ts';
import { commandsOf } from '../support/command.ts';
import { governed } from '../support/policy.ts';
import { runCli, runJson } from '../support/service.ts';
import { openedVault, sql } from '../support/vault.ts';

const FIELDS = 'fields: { card: card, nick: nick, mail: mail, code: code, note: text }';
const FIRST = `version: 1
kinds:
  card: { shape: digits, keep_last: 4 }
  nick: { shape: word }
  mail: { shape: email }
  code: { shape: digits }
${FIELDS}
`;
/** No nick, another token of card, mail normalized (in an old word), and code is random. */
const SECOND = `version: 1
kinds:
  card: { shape: digits, keep_last: 2 }
  mail: { shape: email, spelling: [trim, lower_case] }
  code: { shape: digits, tokens: random }
${FIELDS.replace('nick: nick', 'nick: text')}
`;
const NOT_DRAWN = expect.stringMatching(/^tokens that no version .* --values FILE --scan$/);
const OTHERWISE = expect.stringMatching(/^values stored in another spelling.* --scan$/);

const at = governed(
  undefined,
  { random: ['--token-mode', 'random'], tenant: ['--space', 'tenant'] },
  {},
  adminPlace,
);
let version = 0;

async function apply(document: string) {
  await at.apply(document);
  version++;
}
async function tokenOf(name: string, value: string, who?: string): Promise<string> {
  const { status, body } = await at.send('tokenize', { [name]: value }, who);
  expect([status, body.error]).toEqual([200, undefined]);
  return body.data[name];
}
async function tokensOf(values: string[]): Promise<string[]> {
  return (await at.send('tokenize', { values })).body.data.values;
}
async function importPairs(...lines: string[]) {
  const file = join(at.service.place.folder, 'pairs.csv');
  writeFileSync(file, `token,value,use\n${lines.join('\n')}\n`);
  expect((await runJson(at.service.place, 'import', file)).rejected).toBe(0);
}
/** The tokens that open. */
async function open(...tokens: string[]): Promise<string[]> {
  const answers = await Promise.all(
    tokens.map((token) => at.send('detokenize', { values: [token] })),
  );
  return tokens.filter((_, i) => answers[i]!.status === 200);
}
async function forget(body: object) {
  const { status, body: answer } = await admin(at.service.opsUrl, 'POST', '/forget', body);
  expect([status, answer.error]).toEqual([200, undefined]);
  return answer;
}
/** The exit code and the result of `forget --values`. */
async function scan(values: string[], ...options: string[]) {
  const file = join(at.service.place.folder, 'values.ndjson');
  writeFileSync(file, `\ufeff${values.map((value) => `${JSON.stringify(value)}\n`).join('')}`);
  const args = ['forget', '--values', file, '--json', ...options];
  const { code, stdout } = await runCli(args, at.service.place);
  return [code, JSON.parse(stdout)] as const;
}

test('finds the tokens of older versions, removed kinds, other spellings, imports and their names', async () => {
  await apply(FIRST);
  const card = '4111111111111111';
  const mail = 'Ann.Lee@Example.com';
  const all = async (name: string) => [
    await tokenOf('card', card),
    await tokenOf(name, 'Annie'),
    await tokenOf('mail', mail),
  ];
  const first = await all('nick');
  await importPairs('given_tok,Annie,both');
  await apply(SECOND);
  const second = await all('note');
  const tokens = [...first, ...second];
  expect(second[1]).toBe('given_tok');
  expect(new Set(tokens).size).toBe(6);
  expect(await open(...tokens)).toEqual(tokens);
  const request = { values: [card, mail, 'Annie', 'mistyped'] };
  const rest = { unknown: ['values[3]'], not_searched: [NOT_DRAWN, OTHERWISE] };
  const dry = { is_dry_run: true, known: 6, forgotten: 0, already_forgotten: 0, ...rest };
  expect(await forget({ ...request, dry_run: true })).toEqual(dry);
  expect(await forget(request)).toEqual({ ...dry, is_dry_run: false, forgotten: 6 });
  expect(await open(...tokens)).toEqual([]);
  expect(await forget(request)).toMatchObject({ known: 0, already_forgotten: 6, ...rest });
  expect(await forget({ tokens })).toMatchObject({ already_forgotten: 6, not_searched: [] });
});

test('under one kind, also a removed one, forgets only that', async () => {
  expect(version).toBe(2);
  const [text, email] = [await tokenOf('note', 'a@b.cd'), await tokenOf('mail', 'a@b.cd')];
  expect(await forget({ values: ['a@b.cd'], kind: 'mail' })).toMatchObject({ forgotten: 1 });
  expect(await open(text, email)).toEqual([text]);
  expect((await forget({ values: ['Annie'], kind: 'nick' })).already_forgotten).toBe(1);
  const unknown = { values: ['x'], kind: 'nothing' };
  const { status, body } = await admin(at.service.opsUrl, 'POST', '/forget', unknown);
  expect([status, body.message]).toEqual([400, expect.stringMatching(/^kind: /)]);
});

test('with --scan finds every other token in its space, and says what does not open', async () => {
  expect(version).toBe(2);
  // Stored before mail was normalized: no version of the policy draws it from the address in lower case.
  await apply(FIRST);
  const raw = await tokenOf('mail', 'Twice@Example.com');
  await apply(SECOND);
  await importPairs('one_tok,twice@example.com,both', 'two_tok,twice@example.com,both');
  await importPairs('three_tok,twice@example.com,detokenize');
  const tokens = [
    ...['one_tok', 'two_tok', 'three_tok', raw],
    await tokenOf('code', '87654321'),
    await tokenOf('code', '87654321'),
    await tokenOf('note', '87654321', 'random'),
    await tokenOf('card', '87654321'),
  ];
  const others = [await tokenOf('note', '876543210'), await tokenOf('code', '8765432')];
  const elsewhere = await tokenOf('note', '87654321', 'tenant');
  expect(await open(...tokens, ...others)).toEqual([...tokens, ...others]);
  const values = ['twice@example.com', '87654321'];
  const left = { unknown: [], not_searched: [NOT_DRAWN, OTHERWISE] };
  expect(await forget({ values })).toMatchObject({ forgotten: 2, ...left });
  expect(await open(...tokens)).toHaveLength(6);
  const [, dry] = await scan([...values, 'mistyped'], '--scan', '--dry-run');
  const found = { known: 6, already_forgotten: 2, unknown: 1, unknown_lines: [3] };
  expect(dry).toMatchObject({ ...found, not_searched: [] });
  const done = { is_dry_run: false, is_complete: true, forgotten: 6, already_forgotten: 2 };
  const nothing = { unknown: 0, unknown_lines: [], not_searched: [] };
  expect(await scan(values, '--scan', '--yes')).toEqual([0, { ...done, ...nothing }]);
  expect(await open(...tokens, ...others)).toEqual(others);
  const { body } = await at.send('detokenize', { note: elsewhere }, 'tenant');
  expect(body.data.note).toBe('87654321');
  const inSpace = await scan(values, '--yes', '--space', 'tenant');
  expect(inSpace).toMatchObject([1, { forgotten: 1, unknown: 1, unknown_lines: [1] }]);
});

test('forgets a damaged record by value; a scan says how many it cannot open', async () => {
  const { place } = at.service;
  const rows = await sql(place, 'select token_fingerprint as id from standin.records');
  await tokenOf('note', 'damaged');
  await tokenOf('note', 'damaged', 'random');
  const fresh = "where sealed <> '' and token_fingerprint <> all($1::uuid[])";
  const ids = [rows.map(({ id }) => id)];
  await sql(place, `update standin.records set sealed = sealed || '\\x00'::bytea ${fresh}`, ids);
  const answer = await forget({ values: ['damaged'] });
  const behind = expect.stringMatching(/^imported tokens behind damaged records \(1\): .* --scan$/);
  expect(answer).toMatchObject({ forgotten: 1, not_searched: [NOT_DRAWN, OTHERWISE, behind] });
  const bad = expect.stringMatching(/^records that do not open \(1\): .* standin verify$/);
  const scanned = { forgotten: 0, already_forgotten: 1, not_searched: [bad] };
  expect(await scan(['damaged'], '--scan', '--yes')).toMatchObject([0, scanned]);
  await sql(place, `delete from standin.records ${fresh}`, ids);
});

test('finds tokens that only older programs drew', async () => {
  const { records, keyring: current } = openedVault(at.service.place);
  const keyring = await current();
  const value = 'a tab\there' as Value;
  const source = keyring.deterministicDraws(value);
  const { token } = OLDER_TEXT.drawToken(value, 'tok', source.draws, 0)!;
  const fingerprint = keyring.tokenFingerprint(token);
  await records.insert([keyring.seal(value, fingerprint, source.value_fingerprint)]);
  const tokens = [token, await tokenOf('note', value)];
  expect(await open(...tokens)).toEqual([...new Set(tokens)]);
  expect((await forget({ values: [value] })).forgotten).toBe(2);
  expect(await open(...tokens)).toEqual([]);
});

test('finds later draws: those of short values, which collided with others', async () => {
  const values = Array.from({ length: 5_000 }, (_, i) => String(i).padStart(4, '0'));
  const tokens = await tokensOf(values);
  const file = join(at.service.place.folder, 'short.txt');
  writeFileSync(file, values.join('\r\n'));
  const answer = await runJson(at.service.place, 'forget', '--values', file, '--yes');
  expect(answer).toMatchObject({ forgotten: 5_000, unknown: 0, is_complete: true });
  for (const from of [0, 2_500, 4_980])
    expect(await open(...tokens.slice(from, from + 20))).toEqual([]);
});

test('while nodes tokenize the value, another request forgets it and a policy is applied, nothing fails or stays', async () => {
  const value = '4012888888881881';
  const seen = new Set<string>();
  let isOver = false;
  const tokenizing = ['card', 'note', 'code', 'card'].map(async (name) => {
    while (!isOver) seen.add(await tokenOf(name, value));
  });
  const forgetting = [1, 2].map(async () => {
    while (!isOver) await forget({ values: [value] });
  });
  await apply(FIRST);
  await apply(SECOND);
  isOver = true;
  await Promise.all([...tokenizing, ...forgetting]);
  expect(seen.size).toBeGreaterThan(4);
  const [code] = await scan([value], '--scan', '--yes');
  expect([code, await open(...seen)]).toEqual([0, []]);
});

test.each(['SIGINT', 'SIGKILL'] as const)(
  'a scan that %s ended is repeated, and nothing is left',
  async (signal) => {
    const value = `ended by ${signal}`;
    await tokensOf(Array.from({ length: 3_000 }, (_, i) => `${signal} ${i}`));
    const tokens = await Promise.all(
      Array.from({ length: 40 }, () => tokenOf('note', value, 'random')),
    );
    const file = join(at.service.place.folder, 'ended.txt');
    writeFileSync(file, value);
    const args = ['forget', '--values', file, '--scan', '--yes', '--json', '--rate', '1000'];
    const isFirst = async () => (await open(...tokens)).length < 40;
    const { interrupted } = commandsOf(() => at.service.place);
    const { code, stdout } = await interrupted(args, isFirst, signal);
    const left = await open(...tokens);
    expect(left.length).toBeGreaterThan(0);
    if (signal === 'SIGINT') {
      const done = { forgotten: 40 - left.length, not_searched: [NOT_DRAWN, OTHERWISE] };
      expect([code, JSON.parse(stdout)]).toMatchObject([130, { is_complete: false, ...done }]);
    }
    const [, again] = await scan([value], '--scan', '--yes');
    expect(again.forgotten).toBe(left.length);
    expect(await open(...tokens)).toEqual([]);
  },
);
