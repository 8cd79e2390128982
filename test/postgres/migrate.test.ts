import { isDeepStrictEqual } from 'node:util';
import { beforeEach, describe, expect, test } from 'vitest';
import { OperatorError } from '../../src/errors.ts';
import { byteaArray } from '../../src/store/bytea-array.ts';
import type { Pool } from '../../src/store/pool.ts';
import { RecordStore } from '../../src/store/records.ts';
import { migrate, readMigrations, schemaVersion } from '../../src/store/schema.ts';
import { ownPlace, ownPool } from '../support/own.ts';
import { kinds, type Place } from '../support/service.ts';
import { addKeyVersions, randomRecord, soon } from '../support/vault.ts';

describe.each(kinds())('migrations on the %s database', (kind) => {
  let place: Place;
  let pool: Pool;
  beforeEach(async () => {
    place = await ownPlace(kind);
    pool = ownPool(place);
  });

  const ask = async (text: string, values: unknown[] = []) =>
    (await pool.query(text, values, soon())).rows;

  const newest = readMigrations().at(-1)!.version;
  const next = { version: newest + 1, name: 'next', sql: 'create table standin.next (a integer)' };

  const tables = async () => {
    const text = "select tablename as name from pg_tables where schemaname = 'standin' order by 1";
    return (await ask(text)).map((row) => row.name!);
  };

  test('a file that fails leaves the schema as it was', async () => {
    await migrate(pool, soon());
    const before = await tables();
    const broken = { ...next, sql: `${next.sql}; select 1 / 0` };
    await expect(migrate(pool, soon(), [...readMigrations(), broken])).rejects.toThrow();
    expect(await tables()).toEqual(before);
    expect(await schemaVersion(pool, soon())).toBe(newest);
  });

  test('0002 keeps every record of an older vault, its day and the rights on the table', async () => {
    await migrate(pool, soon(), readMigrations().slice(0, 1));
    const made = Array.from({ length: 1_000 }, (_, i) =>
      randomRecord({ key_version: 1 + (i % 3) }),
    );
    await ask(
      `insert into standin.records (token_fingerprint, value_fingerprint, key_version, sealed, created_at)
       select *, '2020-03-01 23:30:00-02'::timestamptz from unnest($1::bytea[], $2::bytea[], $3::integer[], $4::bytea[])`,
      [
        byteaArray(made.map((record) => record.token_fingerprint)),
        byteaArray(made.map((record) => record.value_fingerprint)),
        made.map((record) => record.key_version),
        byteaArray(made.map((record) => record.sealed)),
      ],
    );
    await ask('grant insert on standin.records to public');
    await migrate(pool, soon());
    await addKeyVersions(pool, 1);
    const records = new RecordStore(pool);
    expect(await records.find(made.map((record) => record.token_fingerprint))).toEqual(made);
    expect(await records.insert([...made, randomRecord()])).toEqual(Array(1_001).fill('stored'));
    const rows = await ask(
      `select count(*) as rows, min(created_at) as first, max(created_at) > '2026-01-01' as new_is_later,
         bool_or(has_table_privilege('pg_monitor', 'standin.records', 'insert')) as is_granted from standin.records`,
    );
    expect(rows).toEqual([
      { rows: '1001', first: '2020-03-02', new_is_later: 't', is_granted: 't' },
    ]);
  });

  test.each([
    [4, 'api_key_uses'],
    [6, 'policies'],
  ])(
    '000%i leaves all that a program of before uses as it is: one that runs goes on',
    async (version, table) => {
      const columns = async () => {
        const rows = await ask(
          `select table_name, column_name, data_type, is_nullable, column_default
         from information_schema.columns where table_schema = 'standin' order by 1, 2`,
        );
        return rows.filter(({ table_name: tableName }) => tableName !== table);
      };
      const insert = async (clientId: string) => {
        const text =
          'insert into standin.clients (client_id, name, token_mode) values ($1, $1, $1)';
        await ask(text, [clientId]);
      };
      await migrate(pool, soon(), readMigrations().slice(0, version - 1));
      const before = await columns();
      await insert('before');
      await migrate(pool, soon(), readMigrations().slice(0, version));
      await insert('after');
      expect(await tables()).toContain(table);
      const after = await columns();
      const isOld = (one: unknown) => before.some((old) => isDeepStrictEqual(one, old));
      expect(after.filter(isOld)).toEqual(before);
      for (const added of after.filter((one) => !isOld(one)))
        expect(added.is_nullable === 'YES' || added.column_default !== null).toBe(true);
    },
  );

  test('an older program refuses a newer schema', async () => {
    await migrate(pool, soon(), [...readMigrations(), next]);
    await expect(migrate(pool, soon())).rejects.toThrow(OperatorError);
    await expect(migrate(pool, soon())).rejects.toThrow(`version ${newest + 1}`);
  });
});
