import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { passOver } from '../../src/records/record-pass.ts';
import type { Pool } from '../../src/store/pool.ts';
import { RecordStore } from '../../src/store/records.ts';
import { forgetTokens } from '../../src/store/removal.ts';
import { distribute, migrate } from '../../src/store/schema.ts';
import { kinds, newPlace, type Place } from '../support/service.ts';
import { addKeyVersions, openTestPool, randomRecord, soon } from '../support/vault.ts';

describe.each(kinds())('records on the %s database', (kind) => {
  let place: Place;
  let pool: Pool;
  const batches: number[] = [];
  let records: RecordStore;
  beforeAll(async () => {
    place = await newPlace(kind);
    pool = openTestPool(place);
    await migrate(pool, soon());
    await distribute(pool, soon());
    await addKeyVersions(pool, 1, 2, 3);
    records = newStore();
  });
  afterAll(async () => {
    await pool.end();
    place.remove();
  });

  function newStore(): RecordStore {
    return new RecordStore(pool, { patienceMs: 20_000, onBatch: (_, size) => batches.push(size) });
  }

  async function count(): Promise<number> {
    const { rows } = await pool.query('select count(*) as n from standin.records', [], soon());
    return Number(rows[0]!.n);
  }

  test('what was inserted is found, in the order of the question', async () => {
    const made = Array.from({ length: 5 }, () => randomRecord());
    expect(await records.insert(made)).toEqual(Array(5).fill('stored'));
    const asked = [made[3]!, randomRecord(), made[0]!].map((record) => record.token_fingerprint);
    expect(await records.find(asked)).toEqual([made[3], undefined, made[0]]);
  });

  test('inserting again changes nothing, and gives back what is there', async () => {
    const first = randomRecord();
    await records.insert([first]);
    const again = randomRecord({ ...first, sealed: randomRecord().sealed });
    const before = await count();
    expect(await records.insert([again, randomRecord()])).toEqual([first, 'stored']);
    expect(await count()).toBe(before + 1);
    expect(await records.find([first.token_fingerprint])).toEqual([first]);
  });

  test('large records that are looked up at once share no statement', async () => {
    const made = [randomRecord(), randomRecord(), randomRecord()];
    await records.insert(made);
    batches.length = 0;
    const find = (bytes: number) =>
      Promise.all(made.map((one) => records.find([one.token_fingerprint], bytes)));
    await find(10);
    expect(batches.splice(0)).toEqual([3]);
    expect((await find(1_500_000)).flat()).toEqual(made);
    expect(batches).toEqual([1, 1, 1]);
  });

  test('a token that stands for another value is a collision, across and within batches', async () => {
    const first = randomRecord();
    const { token_fingerprint: tokenFingerprint } = first;
    const rival = randomRecord({ token_fingerprint: tokenFingerprint });
    const outcomes = await records.insert([first, rival, first]);
    expect(outcomes.toSorted()).toEqual(['collision', 'stored', 'stored']);
    expect(await records.insert([rival])).toEqual(['collision']);
    expect(await records.find([tokenFingerprint])).toEqual([first]);
  });

  test('concurrent calls share statements, and each gets its own answers', async () => {
    batches.length = 0;
    const calls = Array.from({ length: 200 }, () => [
      randomRecord(),
      randomRecord(),
      randomRecord(),
    ]);
    const outcomes = await Promise.all(calls.map((call) => records.insert(call)));
    expect(outcomes).toEqual(Array(200).fill(['stored', 'stored', 'stored']));
    expect(batches.reduce((sum, size) => sum + size)).toBe(600);
    expect(batches.length).toBeLessThan(20);
    const found = await Promise.all(
      calls.map((call) => records.find(call.map((record) => record.token_fingerprint))),
    );
    expect(found).toEqual(calls);
  });

  test('two nodes that insert the same records in opposite orders both get done', async () => {
    const made = Array.from({ length: 500 }, () => randomRecord());
    const nodes = [newStore(), newStore()];
    const outcomes = await Promise.all(
      Array.from({ length: 20 }, (_, i) => {
        const part = made.slice(i * 20, i * 20 + 100);
        return nodes[i % 2]!.insert(i % 2 === 0 ? part : part.toReversed());
      }),
    );
    // Both sealed the same bytes: who was second has nothing else to give back.
    expect(new Set(outcomes.flat())).toEqual(new Set(['stored']));
  });

  test('a pass tells of all records, also of those that it leaves out', async () => {
    const [forgotten, other] = [randomRecord(), randomRecord()];
    await records.insert([forgotten, other]);
    await forgetTokens(pool, [forgotten.token_fingerprint], soon());
    let [told, seen] = [0, 0];
    const end = await passOver({
      pool,
      stop: new AbortController().signal,
      onProgress: (some) => {
        told += some;
      },
      work: async (some) => {
        seen += some.length;
      },
    });
    const all = await count();
    expect({ end, told, seen }).toEqual({ end: { next: undefined }, told: all, seen: all - 1 });
  });

  test('no statement has a name: a pooler in transaction mode may stand between', async () => {
    const { rows } = await pool.query('select name from pg_prepared_statements', [], soon());
    expect(rows).toEqual([]);
  });
});
