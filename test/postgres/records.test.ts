import { describe, expect, test } from 'vitest';
import { scan } from '../../src/records/record-scan.ts';
import { RecordStore } from '../../src/store/records.ts';
import { forgetTokens } from '../../src/store/removal.ts';
import type { Sealed, SealedRecord } from '../../src/types.ts';
import { blockVault } from '../support/own.ts';
import { kinds } from '../support/service.ts';
import { randomRecord, soon } from '../support/vault.ts';

const some = (count: number) => Array.from({ length: count }, () => randomRecord());
const tokensOf = (records: readonly SealedRecord[]) => records.map((one) => one.token_fingerprint);

describe.each(kinds())('records on the %s database', (kind) => {
  const at = blockVault(kind, [1, 2, 3]);
  const batches: number[] = [];
  const newStore = () => new RecordStore(at.pool, { onBatch: (_, size) => batches.push(size) });
  const insert = (records: ReturnType<typeof some>) => newStore().insert(records);
  const find = (records: readonly SealedRecord[]) => newStore().find(tokensOf(records));

  async function count(): Promise<number> {
    const { rows } = await at.pool.query('select count(*) as n from standin.records', [], soon());
    return Number(rows[0]!.n);
  }

  test('no statement has a name: a pooler in transaction mode may stand between', async () => {
    const text = 'select name from pg_prepared_statements';
    expect((await at.pool.query(text, [], soon())).rows).toEqual([]);
  });

  test('what was inserted is found, in the order of the question', async () => {
    const made = some(5);
    expect(await insert(made)).toEqual(Array(5).fill('stored'));
    expect(await find([made[3]!, randomRecord(), made[0]!])).toEqual([made[3], undefined, made[0]]);
  });

  test('inserting again changes nothing, and gives back what is there', async () => {
    const first = randomRecord();
    await insert([first]);
    const again = randomRecord({ ...first, sealed: randomRecord().sealed });
    const before = await count();
    expect(await insert([again, randomRecord()])).toEqual([first, 'stored']);
    expect(await count()).toBe(before + 1);
    expect(await find([first])).toEqual([first]);
  });

  test('large records that are inserted or looked up at once share no statement', async () => {
    const made = some(3);
    const records = newStore();
    await insert(made);
    batches.length = 0;
    const sealed = Buffer.alloc(1_200_000) as Sealed;
    await Promise.all(some(3).map((one) => records.insert([{ ...one, sealed }])));
    expect(batches.splice(0)).toEqual([1, 1, 1]);
    const findAll = (bytes: number) =>
      Promise.all(made.map((one) => records.find(tokensOf([one]), bytes)));
    await findAll(10);
    expect(batches.splice(0)).toEqual([3]);
    expect((await findAll(1_500_000)).flat()).toEqual(made);
    expect(batches).toEqual([1, 1, 1]);
  });

  test('a token that stands for another value is a collision, across and within batches', async () => {
    const first = randomRecord();
    const rival = randomRecord({ token_fingerprint: first.token_fingerprint });
    const outcomes = await insert([first, rival, first]);
    expect(outcomes.toSorted()).toEqual(['collision', 'stored', 'stored']);
    expect(await insert([rival])).toEqual(['collision']);
    expect(await find([first])).toEqual([first]);
  });

  test('concurrent calls share statements, and each gets its own answers', async () => {
    batches.length = 0;
    const records = newStore();
    const calls = Array.from({ length: 200 }, () => some(3));
    const outcomes = await Promise.all(calls.map((call) => records.insert(call)));
    expect(outcomes).toEqual(Array(200).fill(['stored', 'stored', 'stored']));
    expect(batches.reduce((sum, size) => sum + size)).toBe(600);
    expect(batches.length).toBeLessThan(20);
    expect(await Promise.all(calls.map((call) => records.find(tokensOf(call))))).toEqual(calls);
  });

  test('a pass notes all records, also those that it leaves out', async () => {
    const [forgotten, other] = [randomRecord(), randomRecord()];
    await insert([forgotten, other]);
    await forgetTokens(at.pool, tokensOf([forgotten]), soon());
    let [noted, seen] = [0, 0];
    const end = await scan({
      ...{ pool: at.pool, stop: new AbortController().signal },
      onProgress: (some) => {
        noted += some;
      },
      work: async (some) => {
        seen += some.length;
      },
    });
    const all = await count();
    expect({ end, noted, seen }).toEqual({ end: { next: undefined }, noted: all, seen: all - 1 });
  });
});
