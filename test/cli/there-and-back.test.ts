import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import {
  call,
  createClient,
  makeVault,
  newPlace,
  type Place,
  runJson,
  type Service,
  startService,
  usualKinds,
} from '../support/service.ts';
import { detokenizeAll, tokenizeAll } from '../support/vault.ts';

const VALUES_A_KIND = 500;
const KINDS: Readonly<Record<string, string>> = {
  number: '{ shape: digits }',
  card: '{ shape: digits, keep_last: 4, check_digits: luhn, suffix: false }',
  mail: '{ shape: email, keep: domain, normalize: [trim, lower_case] }',
  day: '{ shape: date, keep: year }',
  code: '{ shape: word, length: 6 }',
  id: '{ shape: uuid, suffix: false }',
  note: '{ shape: text, tokens: random }',
};
const POLICY = `version: 1
kinds:
${Object.entries(KINDS)
  .map(([name, kind]) => `  ${name}: ${kind}\n`)
  .join(
    '',
  )}fields: { ${[...Object.keys(KINDS), 'text'].map((name) => `"${name}[*]": ${name}`).join(', ')} }
elsewhere: refuse
`;
/** Draws other tokens for some kinds, accepts less, and spells more. */
const NEXT_POLICY = POLICY.replace('keep_last: 4', 'keep_last: 2')
  .replace('shape: word, length: 6', 'shape: email')
  .replace('keep: year', 'keep: nothing')
  .replace(
    '  note: { shape: text, tokens: random',
    '  note: { shape: text, normalize: [lower_case]',
  );

/** A value of a kind, another for each number. */
function exampleOf(kind: string, i: number): string {
  const digits = String((i * 7_919) % 999_983).padStart(6, '0');
  switch (kind) {
    case 'number':
      return digits;
    case 'card':
      return `4${digits.padStart(15, '1')}`;
    case 'mail':
      return `person.${i}@example${i % 97}.com`;
    case 'day':
      return new Date(Date.UTC(1900, 0, i + 1)).toISOString().slice(0, 10);
    case 'text':
      return ['', 'Ann\tLee ', ' é€😀 ', 'a @ b.c ', '-- ', '0'][i % 6]! + i;
    default:
      return `Any ${kind} ${i}`;
  }
}

describe.each(usualKinds())('an export goes whole into an empty vault, on %s', (kind) => {
  let place: Place;
  let other: Place;
  beforeEach(async () => {
    [place, other] = [await newPlace(kind), await newPlace(kind)];
    await makeVault(place);
    await makeVault(other);
  });
  afterEach(() => {
    place.remove();
    other.remove();
  });

  /** Exports all pairs and imports them into the other vault, after a dry run that must agree. */
  async function move(pairs: number): Promise<void> {
    const folder = join(place.folder, 'pairs');
    const made = await runJson(place, 'export', '-o', folder, '--plain', '--part-size', '1000');
    expect(made).toMatchObject({ pairs, without_token: 0, bad: 0 });
    for (const options of [['--dry-run'], []]) {
      const rejects = join(other.folder, `rejects-${options.length}.csv`);
      expect(
        await runJson(other, 'import', folder, '--rejects', rejects, ...options),
      ).toMatchObject({
        ...{ rows: pairs, imported: pairs, already_known: 0 },
        ...{ rejected: 0, detokenize_only: 0 },
      });
    }
  }

  test('F43: all four-digit numbers', async () => {
    const values = Array.from({ length: 10_000 }, (_, i) => String(i).padStart(4, '0'));
    const service = await startService(place);
    const tokens = await tokenizeAll(service, values);
    await service.stop();
    await move(values.length);
    const there = await startService(other);
    try {
      expect(await detokenizeAll(there, tokens)).toEqual(values);
      expect(await tokenizeAll(there, values)).toEqual(tokens);
    } finally {
      await there.stop();
    }
  });

  test('F43: values of every kind and two spaces, also when the kinds have changed', async () => {
    for (const { folder } of [place, other]) {
      writeFileSync(join(folder, 'policy.yaml'), POLICY);
      writeFileSync(join(folder, 'next.yaml'), NEXT_POLICY);
    }
    const names = [...Object.keys(KINDS), 'text'];
    const all = names.map((name) =>
      Array.from({ length: VALUES_A_KIND }, (_, i) => exampleOf(name, i)),
    );
    await runJson(place, 'policy', 'apply', 'policy.yaml', '--yes');
    const service = await startService(place);
    const keys = [service.api_key, (await createClient(place, '--space', 'Tenant-1')).api_key];
    const tokens: string[][][] = [];
    for (const key of keys) {
      tokens.push([]);
      for (const [n, name] of names.entries())
        tokens.at(-1)!.push(await ofKind(service, 'tokenize', name, all[n]!, key));
    }
    await service.stop();
    await runJson(place, 'policy', 'apply', 'next.yaml', '--yes');
    await runJson(other, 'policy', 'apply', 'next.yaml', '--yes');
    await move(2 * names.length * VALUES_A_KIND);
    // Back to the kinds that drew the tokens: what the next ones can give, tokenize gives.
    const there = await startService(other);
    try {
      const tenant = (await createClient(other, '--space', 'Tenant-1')).api_key;
      for (const [k, key] of [there.api_key, tenant].entries())
        for (const [n, name] of names.entries()) {
          const own = tokens[k]![n]!;
          expect(await ofKind(there, 'detokenize', name, own, key), name).toEqual(all[n]);
          if (['note', 'code'].includes(name)) continue;
          expect(await ofKind(there, 'tokenize', name, all[n]!, key), name).toEqual(own);
        }
    } finally {
      await there.stop();
    }
    expect(await runJson(other, 'verify')).toMatchObject({ bad: 0 });
  });

  async function ofKind(
    service: Service,
    operation: 'tokenize' | 'detokenize',
    name: string,
    values: readonly string[],
    apiKey: string,
  ): Promise<string[]> {
    const done: string[] = [];
    for (let at = 0; at < values.length; at += 10_000) {
      const data = { [name]: values.slice(at, at + 10_000) };
      const { status, body } = await call(service, operation, data, apiKey);
      expect(status, `${name}: ${body.message}`).toBe(200);
      done.push(...body.data[name]);
    }
    return done;
  }
});
