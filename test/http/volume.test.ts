import { afterAll, beforeAll, expect, test } from 'vitest';
import { Random, randomString } from '../support/random.ts';
import { call, leastPrivilegePlace, type Service, startService } from '../support/service.ts';
import { sql } from '../support/vault.ts';

const BATCH = 2_500;
let service: Service;
beforeAll(async () => {
  service = await startService(await leastPrivilegePlace());
});
afterAll(async () => {
  await service.stop();
  service.place.remove();
});

async function tokens(values: string[]): Promise<string[]> {
  const { status, body } = await call(service, 'tokenize', { values });
  expect(status).toBe(200);
  return body.data.values;
}

test('A02: 100,000 random well-formed strings come back as they were', async () => {
  const random = new Random();
  for (let sent = 0; sent < 100_000; sent += BATCH) {
    const values = Array.from({ length: BATCH }, () => randomString(random));
    const { status, body } = await call(service, 'detokenize', { values: await tokens(values) });
    expect(status).toBe(200);
    expect(body.data.values).toEqual(values);
  }
});

test('A02: composed and decomposed forms of a text get different tokens', async () => {
  const [composed, decomposed] = await tokens(['é'.normalize('NFC'), 'é'.normalize('NFD')]);
  expect(composed).not.toBe(decomposed);
});

test('L15: all 18,278 strings of one to three letters get tokens of their own', async () => {
  const letters = 'abcdefghijklmnopqrstuvwxyz'.split('');
  const two = letters.flatMap((a) => letters.map((b) => a + b));
  const all = [...letters, ...two, ...two.flatMap((a) => letters.map((b) => a + b))];
  expect(all).toHaveLength(18_278);
  const seen = new Set<string>();
  for (let i = 0; i < all.length; i += BATCH)
    for (const token of await tokens(all.slice(i, i + BATCH))) seen.add(token);
  expect(seen.size).toBe(18_278);
});

test('F19: one value in 10,000 fields is one token, and one row', async () => {
  const count = async () =>
    Number((await sql(service.place, 'select count(*) as n from standin.records'))[0]!.n);
  const before = await count();
  const data = Object.fromEntries(
    Array.from({ length: 10_000 }, (_, i) => [`f${i}`, 'Ann Lee F19']),
  );
  const { status, body } = await call(service, 'tokenize', data);
  expect(status).toBe(200);
  expect(Object.keys(body.data)).toHaveLength(10_000);
  expect(new Set(Object.values(body.data)).size).toBe(1);
  expect(await count()).toBe(before + 1);
});
