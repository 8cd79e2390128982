import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { OperatorError } from '../../src/errors.ts';
import { migrate, readMigrations, schemaVersion } from '../../src/store/migrate.ts';
import type { Pool } from '../../src/store/pool.ts';
import { kinds, newPlace, type Place } from '../support/service.ts';
import { openTestPool, soon } from '../support/store.ts';

describe.each(kinds())('migrations on the %s database', (kind) => {
  let place: Place;
  let pool: Pool;
  beforeEach(async () => {
    place = await newPlace(kind);
    pool = openTestPool(place);
  });
  afterEach(async () => {
    await pool.end();
    place.remove();
  });

  const newest = readMigrations().at(-1)!.version;
  const next = { version: newest + 1, name: 'next', sql: 'create table standin.next (a integer)' };

  async function tables(): Promise<string[]> {
    const { rows } = await pool.query(
      "select table_name as name from information_schema.tables where table_schema = 'standin' order by 1",
      [],
      soon(),
    );
    return rows.map((row) => row.name!);
  }

  test('bring an empty database to the newest version, once', async () => {
    expect(await schemaVersion(pool, soon())).toBe(0);
    expect(await migrate(pool, soon())).toHaveLength(newest);
    expect(await schemaVersion(pool, soon())).toBe(newest);
    expect(await migrate(pool, soon())).toEqual([]);
  });

  test('started by eight nodes at once, each file is applied by one of them', async () => {
    const pools = Array.from({ length: 8 }, () => openTestPool(place, 1));
    const applied = await Promise.all(pools.map((one) => migrate(one, soon())));
    await Promise.all(pools.map((one) => one.end()));
    expect(applied.flat()).toEqual(readMigrations().map((migration) => migration.name));
  });

  test('a file that fails leaves the schema as it was', async () => {
    await migrate(pool, soon());
    const before = await tables();
    const broken = { ...next, sql: `${next.sql}; select 1 / 0` };
    await expect(migrate(pool, soon(), [...readMigrations(), broken])).rejects.toThrow();
    expect(await tables()).toEqual(before);
    expect(await schemaVersion(pool, soon())).toBe(newest);
  });

  test('an older program refuses a newer schema', async () => {
    await migrate(pool, soon(), [...readMigrations(), next]);
    await expect(migrate(pool, soon())).rejects.toThrow(OperatorError);
    await expect(migrate(pool, soon())).rejects.toThrow(`version ${newest + 1}`);
  });
});
