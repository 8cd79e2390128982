import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { Decrypter } from 'age-encryption';
import { expect } from 'vitest';
import type { Keyring } from '../../src/crypto/keyring.ts';
import { scopeOf } from '../../src/crypto/scope.ts';
import { drawToken } from '../../src/shape/kind.ts';
import type { Token, Value } from '../../src/types.ts';
import { type Place, runJson, type Service } from './service.ts';
import { detokenizeAll, tokenizeAll } from './vault.ts';

/** A line of an export. */
export interface ExportedPair {
  readonly token: string | null;
  readonly value: string;
  readonly kind: string;
  readonly space: string;
  readonly expires_at: string | null;
  readonly use: string;
}

/** The names of the parts in a folder. */
export function partsIn(folder: string): string[] {
  return readdirSync(folder)
    .filter((name) => name !== 'manifest.json')
    .sort();
}

/** The pairs in all parts of a folder, which its manifest counts. */
export async function pairsIn(folder: string, identity?: string): Promise<ExportedPair[]> {
  const pairs: ExportedPair[] = [];
  const { parts, ...counts } = JSON.parse(readFileSync(join(folder, 'manifest.json'), 'utf8'));
  expect(parts.map(({ file }: { file: string }) => file)).toEqual(partsIn(folder));
  for (const [i, name] of partsIn(folder).entries()) {
    let bytes: Uint8Array = readFileSync(join(folder, name));
    if (identity !== undefined) {
      expect(name).toMatch(/^pairs-\d{4}\.ndjson\.age$/);
      const decrypter = new Decrypter();
      decrypter.addIdentity(identity);
      bytes = await decrypter.decrypt(bytes);
    }
    const lines = Buffer.from(bytes).toString().trim().split('\n');
    expect(parts[i].pairs).toBe(lines.length);
    pairs.push(...lines.map((line) => JSON.parse(line)));
  }
  const without = pairs.filter(({ token }) => token === null).length;
  expect(counts).toMatchObject({ pairs: pairs.length, without_token: without });
  return pairs;
}

/**
 * Imports tokens of another vault, twice, beside own ones, and exports all of them.
 * @returns the values that were imported
 */
export async function expectThereAndBack(place: Place, service: Service): Promise<string[]> {
  const values = Array.from({ length: 2_000 }, (_, i) => `imported ${i}`);
  const tokens = values.map((_, i) => `old-${i}_tok`);
  const own = values.map((value) => `own ${value}`);
  const ownTokens = await tokenizeAll(service, own);
  const file = pairsFile(
    place,
    values.map((value, i) => ({ token: tokens[i], value })),
  );
  const counts = { rejected: 0, detokenize_only: 0 };
  const imported = { ...counts, imported: values.length, already_known: 0 };
  expect(await runJson(place, 'import', file)).toMatchObject(imported);
  const again = { ...counts, imported: 0, already_known: values.length };
  expect(await runJson(place, 'import', file)).toMatchObject(again);
  expect(await tokenizeAll(service, values)).toEqual(tokens);
  expect(await detokenizeAll(service, tokens)).toEqual(values);
  const folder = join(place.folder, 'exported');
  await runJson(place, 'export', '-o', folder, '--plain');
  const pairs = await pairsIn(folder);
  const found = pairs.map(({ token, value, use }) => `${token} ${value} ${use}`);
  const lines = [...tokens, ...ownTokens].map(
    (token, i) => `${token} ${[...values, ...own][i]} both`,
  );
  expect(found.toSorted()).toEqual(lines.toSorted());
  return values;
}

/** The token that a vault would draw for a value, from this draw on. */
export function drawn(keyring: Keyring, value: string, from = 0, space = ''): Token {
  const { draws } = keyring.deterministicDraws(value as Value, scopeOf('text', space));
  return drawToken(value as Value, 'tok', draws, from)!.token;
}

let files = 0;

/** A new file with pairs to import. */
export function pairsFile({ folder }: Place, pairs: readonly object[]): string {
  const path = join(folder, `pairs-${++files}.ndjson`);
  writeFileSync(path, pairs.map((pair) => `${JSON.stringify(pair)}\n`).join(''));
  return path;
}
