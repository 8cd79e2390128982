import { expect, test } from 'vitest';
import { Random, randomString } from '../support/random.ts';
import { usualService } from '../support/served.ts';
import { call } from '../support/service.ts';
import { sql } from '../support/vault.ts';

const service = usualService();

/** Returns the tokens of `data`, which come back as it was sent. */
async function roundTrip<T>(data: T): Promise<T> {
  const tokenized = await call(service, 'tokenize', data);
  const restored = await call(service, 'detokenize', tokenized.body.data);
  expect([tokenized.status, restored.status, restored.body.data]).toEqual([200, 200, data]);
  return tokenized.body.data;
}

const BATCH = 2_500;
const tokensOf = async (values: string[]) => (await roundTrip({ values })).values;

test('A02: 100,000 random well-formed strings come back as they were', async () => {
  const random = new Random();
  for (let sent = 0; sent < 100_000; sent += BATCH)
    await tokensOf(Array.from({ length: BATCH }, () => randomString(random)));
});

test('A02: composed and decomposed forms of a text get different tokens', async () => {
  const [composed, decomposed] = await tokensOf(['é'.normalize('NFC'), 'é'.normalize('NFD')]);
  expect(composed).not.toBe(decomposed);
});

test('L15: all 18,278 strings of one to three letters get tokens of their own', async () => {
  const letters = 'abcdefghijklmnopqrstuvwxyz'.split('');
  const two = letters.flatMap((a) => letters.map((b) => a + b));
  const all = [...letters, ...two, ...two.flatMap((a) => letters.map((b) => a + b))];
  const seen = new Set<string>();
  for (let i = 0; i < all.length; i += BATCH)
    for (const token of await tokensOf(all.slice(i, i + BATCH))) seen.add(token);
  expect(seen.size).toBe(18_278);
});

test('F19: one value in 10,000 fields is one token, and one row', async () => {
  const countRows = async () =>
    Number((await sql(service.place, 'select count(*) as n from standin.records'))[0]!.n);
  const before = await countRows();
  const fields = Array.from({ length: 10_000 }, (_, i) => [`f${i}`, 'Ann Lee F19']);
  const tokens = Object.values(await roundTrip(Object.fromEntries(fields)));
  expect([tokens.length, new Set(tokens).size]).toEqual([10_000, 1]);
  expect(await countRows()).toBe(before + 1);
});
