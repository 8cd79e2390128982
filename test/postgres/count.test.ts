import { describe, expect, test } from 'vitest';
import { recordsFrom } from '../../src/records/record-scan.ts';
import { countRecords } from '../../src/store/record-counts.ts';
import type { Vault } from '../../src/vault/vault.ts';
import { VaultSizes } from '../../src/vault/vault-size.ts';
import { blockVault } from '../support/own.ts';
import { kinds } from '../support/service.ts';
import { soon } from '../support/vault.ts';

describe.each(kinds())('the number of records on the %s database', (kind) => {
  const at = blockVault(kind, []);

  /** Rows with the fingerprints of these numbers: any hash does for the keyed one. */
  async function add(first: number, last: number): Promise<void> {
    const text = `insert into standin.records (token_fingerprint, value_fingerprint, key_version, sealed)
       select md5(n::text)::uuid, md5('')::uuid, 1, '' from generate_series($1::integer, $2::integer) n`;
    await at.pool.query(text, [first, last], soon());
  }

  test('is exact while they are few, and right within a tenth when they are many', async () => {
    expect(await countRecords(at.pool, soon())).toEqual({ records: 0, isExact: true });
    await add(1, 20_001);
    expect(await countRecords(at.pool, soon())).toEqual({ records: 20_001, isExact: true });
    // What is left of a scan that begins at the last quarter of the fingerprints.
    const vault = { pool: at.pool } as Vault;
    expect(await recordsFrom(vault, 'c'.padEnd(32, '0'))).toBe(5_000);
    expect(await recordsFrom(vault, undefined)).toBe(20_001);
    await add(20_002, 400_000);
    const { records: many } = await countRecords(at.pool, soon());
    expect(many).not.toBe(400_000);
    expect(Math.abs(many - 400_000)).toBeLessThan(40_000);
    const sizes = new VaultSizes(at.pool);
    const { isEstimate, bytes } = await sizes.read();
    expect(isEstimate).toBe(true);
    // 73 bytes of the table and 41 of the index for a row without a value, or a little more.
    expect(bytes! / 400_000).toBeGreaterThan(100);
    expect(bytes! / 400_000).toBeLessThan(250);
    expect(sizes.growth.points).toEqual([
      { atMs: expect.any(Number), records: expect.any(Number) },
    ]);
  });

  test('is asked for again after it could not be counted', async () => {
    const sizes = new VaultSizes(at.pool);
    await at.pool.query('alter table standin.records rename to away', [], soon());
    await expect(sizes.read()).rejects.toThrow();
    await at.pool.query('alter table standin.away rename to records', [], soon());
    expect((await sizes.read()).bytes).toBeGreaterThan(0);
  });
});
