import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { Pool } from '../../src/store/pool.ts';
import { countRecords } from '../../src/store/record-counts.ts';
import { distribute, migrate } from '../../src/store/schema.ts';
import { VaultSizes } from '../../src/vault/vault-size.ts';
import { kinds, newPlace, type Place } from '../support/service.ts';
import { openTestPool, soon } from '../support/vault.ts';

describe.each(kinds())('the number of records on the %s database', (kind) => {
  let place: Place;
  let pool: Pool;
  beforeAll(async () => {
    place = await newPlace(kind);
    pool = openTestPool(place);
    await migrate(pool, soon());
    await distribute(pool, soon());
  });
  afterAll(async () => {
    await pool.end();
    place.remove();
  });

  /** Rows with the fingerprints of these numbers: any hash does for the keyed one. */
  async function add(first: number, last: number): Promise<void> {
    await pool.query(
      `insert into standin.records (token_fingerprint, value_fingerprint, key_version, sealed)
       select md5(n::text)::uuid, md5('')::uuid, 1, '' from generate_series($1::integer, $2::integer) n`,
      [first, last],
      performance.now() + 100_000,
    );
  }

  test('is exact while they are few, and right within a tenth when they are many', async () => {
    expect(await countRecords(pool, soon())).toEqual({ records: 0, isExact: true });
    await add(1, 20_001);
    expect(await countRecords(pool, soon())).toEqual({ records: 20_001, isExact: true });
    await add(20_002, 400_000);
    const { records: many } = await countRecords(pool, soon());
    expect(many).not.toBe(400_000);
    expect(Math.abs(many - 400_000)).toBeLessThan(40_000);
    const sizes = new VaultSizes(pool);
    const { isEstimate, bytes } = await sizes.read();
    expect(isEstimate).toBe(true);
    // 73 bytes of the table and 41 of the index for a row without a value, or a little more.
    expect(bytes! / 400_000).toBeGreaterThan(100);
    expect(bytes! / 400_000).toBeLessThan(250);
    expect(sizes.growth).toEqual([{ atMs: expect.any(Number), records: expect.any(Number) }]);
  });

  test('is asked for again after it could not be counted', async () => {
    const sizes = new VaultSizes(pool);
    await pool.query('alter table standin.records rename to away', [], soon());
    await expect(sizes.read()).rejects.toThrow();
    await pool.query('alter table standin.away rename to records', [], soon());
    expect((await sizes.read()).bytes).toBeGreaterThan(0);
  });
});
