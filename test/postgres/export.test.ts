import { randomBytes } from 'node:crypto';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import type { DrawSource, Keyring } from '../../src/crypto/keyring.ts';
import { scopeOf } from '../../src/crypto/scope.ts';
import { NO_POLICY } from '../../src/policy/policy.ts';
import { policyOf } from '../../src/policy/policy-follower.ts';
import { type Kind, PolicyRules } from '../../src/policy/rules.ts';
import { OLDER_TEXT } from '../../src/shape/kind.ts';
import { hexOf } from '../../src/store/record-walk.ts';
import { Tokenizer } from '../../src/tokens/tokenizer.ts';
import type { Token, TokenFingerprint, Value, ValueFingerprint } from '../../src/types.ts';
import { LeasedKeyring } from '../../src/vault/leased-keyring.ts';
import { ownVault } from '../support/own.ts';
import { pairsFile, pairsIn } from '../support/pairs.ts';
import { applyPolicy } from '../support/policy.ts';
import { Random } from '../support/random.ts';
import { openedVault, plainKeys, soon, sql } from '../support/vault.ts';

const VERSIONS = 6;
const VALUES_A_VERSION = 60;
/** More than the first part of an export has. */
const LOST = 1_200;
const VALUES: Readonly<Record<string, readonly string[]>> = {
  card: ['4111111111111111', '5500005555555559', '4012888888881881', 'AB-1234-5678-9012'],
  mail: ['ann@example.com', 'Bob.Lee@Example.org ', 'x.y@mail.example.co.uk'],
  day: ['1985-03-21', '21.03.1985', '2001-12-31'],
  name: ['Ann Lee', 'Bo', '', 'é€😀', 'a text of some length, with a comma'],
  text: ['Ann Lee', 'ann@example.com', '+49 30 901820'],
};

/** A kind as some version of a policy may have it. */
function anyKind(random: Random, name: string): string {
  const suffix = random.pick(['true', 'false']);
  const tokens = random.pick(['', ', tokens: random', ', tokens: deterministic']);
  switch (name) {
    case 'card': {
      const keep = random.pick([
        'keep_last: 4',
        'keep_last: 2, keep_first: 4',
        'begins_with: "99"',
      ]);
      const check = random.pick(['none', 'luhn']);
      return `{ shape: digits, ${keep}, check_digits: ${check}, suffix: ${suffix}${tokens} }`;
    }
    case 'mail': {
      const keep = random.pick(['nothing', 'domain', 'top_level_domain']);
      const normalize = random.pick(['[]', '[trim]', '[trim, lower_case]']);
      return `{ shape: email, keep: ${keep}, normalize: ${normalize}${tokens} }`;
    }
    case 'day':
      return `{ shape: date, keep: ${random.pick(['nothing', 'year'])}${tokens} }`;
    default: {
      const length = 5 + random.below(8);
      const shape = random.pick([`word, length: ${length}`, 'uuid', 'text']);
      return `{ shape: ${shape}${tokens} }`;
    }
  }
}

function anyPolicy(random: Random): string {
  const names = Object.keys(VALUES).filter((name) => name !== 'text' && random.below(6) > 0);
  const kinds = names.map((name) => `  ${name}: ${anyKind(random, name)}\n`);
  return `version: 1\n${kinds.length > 0 ? `kinds:\n${kinds.join('')}` : ''}`;
}

interface Known {
  readonly token: string | null;
  readonly value: string;
  readonly kind: string;
  readonly space: string;
  /** What the kind draws that drew the token; undefined: another vault, or a random draw. */
  readonly drawnBy: string | undefined;
}

/** A vault, and what makes tokens of it as an engine does. */
async function newVault() {
  const { place, json, run } = await ownVault({ nodes: 0 });
  await json('migrate');
  const { records, keyring: makeKeys } = openedVault(place);
  await makeKeys();
  const keys = await plainKeys(place);
  const leased = { keys, asOfMs: Infinity, isDurable: true, failure: undefined };
  const engine = new LeasedKeyring(leased, () => {});
  const tokenizer = new Tokenizer(records, engine, 'tok', () => {});
  const folder = join(place.folder, 'pairs');
  const exported = (...options: string[]) => json(['export', '-o', folder, '--plain', ...options]);
  return { place, run, json, records, keyring: engine.keyring, tokenizer, folder, exported };
}

test('C34: an export has the right token of every record, under whatever policy it was drawn', async () => {
  const random = new Random();
  const { place, records, keyring, tokenizer, folder, exported } = await newVault();
  const known = new Map<string, Known>();
  let rules = new PolicyRules(NO_POLICY);
  for (let version = 0; version <= VERSIONS; version++) {
    if (version > 0) {
      const document = anyPolicy(random);
      rules = new PolicyRules(policyOf({ version, document } as never));
      await applyPolicy({ place }, version, document);
    }
    for (let i = 0; i < VALUES_A_VERSION; i++) {
      const kind = rules.kind(random.pick(rules.kinds).settings.name);
      const { name } = kind.settings;
      const accepted = kind.accept(random.pick(VALUES[name] ?? VALUES.name!));
      if ('reason' in accepted) continue;
      const { value } = accepted;
      const space = random.pick(['', 'tenant']);
      const scope = scopeOf(name, space);
      const asked = random.pick(['random', 'deterministic'] as const);
      const mode = kind.settings.tokens ?? asked;
      const source = keyring.deterministicDraws(value, scope);
      const terms = { token_mode: mode, time_to_live_s: null, kind, scope };
      if (random.below(8) === 0) {
        // Another vault's token in the place of the first draw: the value gets a later one.
        const { token } = kind.drawToken(value, 'tok', source.draws, 0)!;
        const place = keyring.tokenFingerprint(token, scope?.spaceBytes);
        const { value_fingerprint: fingerprint } = keyring.randomDraws();
        const other = `other ${i}` as Value;
        const [outcome] = await records.insert([
          keyring.seal(other, place, fingerprint, scope, token),
        ]);
        const pair = { token, value: other, kind: name, space, drawnBy: undefined };
        if (outcome === 'stored') known.set(`${space} ${token}`, pair);
      }
      const [token] = await tokenizer.tokenize([value], terms, soon());
      const drawnBy = mode === 'random' ? undefined : drawsOf(kind, value, source);
      known.set(`${space} ${token}`, { token: token!, value, kind: name, space, drawnBy });
    }
  }
  // As older programs stored it: neither the token nor its draw is anywhere.
  const lost = Array.from({ length: LOST }, (_, i) => {
    const value = `lost ${i}` as Value;
    const fields = { value, kind: 'text', space: '', drawnBy: undefined };
    known.set(value, { token: null, ...fields });
    const [token, fingerprint] = [0, 0].map(() => randomBytes(16).toString('latin1'));
    return keyring.seal(value, token as TokenFingerprint, fingerprint as ValueFingerprint);
  });
  await records.insert(lost);

  const made = await exported('--part-size', '1000');
  const counts = { pairs: known.size, without_token: LOST };
  expect(made).toMatchObject({ files: 2, ...counts, bad: 0 });
  const lines = (await pairsIn(folder)).map((pair) => JSON.stringify(pair));
  const expected = [...known.values()].map((one) => {
    const { drawnBy, ...pair } = one;
    const use = useOf(one, [...known.values()], rules, keyring);
    return JSON.stringify({ ...pair, expires_at: null, use });
  });
  expect(lines.toSorted()).toEqual(expected.toSorted());
});

test('an export has the tokens of older shapes, and says which of them tokenize gives', async () => {
  const { records, keyring, tokenizer, folder, exported } = await newVault();
  const values = ['ann\tlee', 'ann\u00a0lee', 'ann lee@example.com'] as Value[];
  const older = values.map((value) => {
    const { draws, value_fingerprint: fingerprint } = keyring.deterministicDraws(value);
    const { token } = OLDER_TEXT.drawToken(value, 'tok', draws, 0)!;
    return { token, record: keyring.seal(value, keyring.tokenFingerprint(token), fingerprint) };
  });
  await records.insert(older.map(({ record }) => record));
  const terms = { token_mode: 'deterministic', time_to_live_s: null } as const;
  const [now] = await tokenizer.tokenize(values.slice(0, 1), terms, soon());
  expect(await exported()).toMatchObject({ pairs: 4, without_token: 0 });
  const pairs = (await pairsIn(folder)).map(({ token, value, use }) => [token, value, use]);
  const expected = [
    [now, values[0], 'both'],
    ...older.map(({ token }, i) => [token, values[i], i === 0 ? 'detokenize' : 'both']),
  ];
  expect(pairs.toSorted()).toEqual(expected.toSorted());
});

test('damaged aliases keep no pair out of an export', async () => {
  const { place, run, json, keyring, folder } = await newVault();
  const pairs = ['Ann Lee', 'Bo Ray'].map((value, i) => ({ token: `old${i}_tok`, value }));
  await json(`import ${pairsFile(place, pairs)}`);
  const damage = `update standin.records set sealed = sealed || '\\x00'::bytea
    where token_fingerprint <> all ($1::uuid[])`;
  const own = pairs.map(({ token }) => hexOf(keyring.tokenFingerprint(token as Token)));
  await sql(place, damage, [own]);
  const { code, stderr } = await run(`export -o ${folder} --plain`);
  const words = '2 records did not open and are missing in the export: see standin verify.';
  expect([code, stderr]).toEqual([1, expect.stringContaining(words)]);
  const found = (await pairsIn(folder)).map(({ token, value }) => ({ token, value }));
  expect(found.toSorted((a, b) => (a.value < b.value ? -1 : 1))).toEqual(pairs);
});

/** The first tokens that a kind draws for a value: other settings may draw the same. */
function drawsOf(kind: Kind, value: Value, { draws }: DrawSource): string {
  return JSON.stringify([0, 1, 2].map((from) => kind.drawToken(value, 'tok', draws, from)));
}

/** Whether tokenize gives the token now, by what was drawn, not by what is stored. */
function useOf(known: Known, all: readonly Known[], rules: PolicyRules, keyring: Keyring) {
  const { drawnBy, kind, value, space } = known;
  if (drawnBy === undefined) return 'detokenize';
  const now = rules.byName.get(kind);
  if (now === undefined) return 'both';
  const accepted = now.accept(value);
  if (!('value' in accepted) || accepted.value !== value) return 'detokenize';
  if (now.settings.tokens === 'random') return 'both';
  const source = keyring.deterministicDraws(accepted.value, scopeOf(kind, space));
  const draws = drawsOf(now, accepted.value, source);
  if (drawnBy === draws) return 'both';
  const isGiven = (one: Known) =>
    one.kind === kind && one.value === value && one.space === space && one.drawnBy === draws;
  return all.some(isGiven) ? 'detokenize' : 'both';
}
