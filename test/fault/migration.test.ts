import { randomUUID } from 'node:crypto';
import pg from 'pg';
import { describe, expect, onTestFinished, test } from 'vitest';
import { migrate, readMigrations } from '../../src/store/schema.ts';
import { loaded, newVault, SLACK_MS, start, times } from '../support/fault.ts';
import { loop } from '../support/loop.ts';
import { ownCluster, ownPool } from '../support/own.ts';
import { postgresBin, query } from '../support/postgres.ts';
import { until } from '../support/service.ts';
import { soon } from '../support/vault.ts';

const ROWS = times(200_000, 1_000_000);
/** As the program of the schema before the last wrote and read. */
const OLD_INSERT = `insert into standin.records (token_fingerprint, value_fingerprint, key_version, sealed)
  select * from unnest($1::uuid[], $2::uuid[], $3::smallint[], $4::bytea[]) on conflict (token_fingerprint) do nothing`;
const OLD_FIND =
  'select value_fingerprint, key_version, sealed from standin.records where token_fingerprint = any($1::uuid[])';
const OLD_SCHEMA = 2;

describe.skipIf(postgresBin === undefined)('a schema that changes under load', () => {
  test(`F20: two new nodes start at once on ${ROWS} rows while an old program writes: each migration is made once, nobody fails`, async () => {
    const place = await newVault(await ownCluster());
    const url = place.env.DATABASE_URL!;
    await migrate(ownPool(place, 1), soon(), readMigrations().slice(0, OLD_SCHEMA));
    await query(
      url,
      `insert into standin.records (token_fingerprint, value_fingerprint, key_version, sealed)
       select md5(n::text)::uuid, md5('v' || n)::uuid, 1, sha256(n::text::bytea) from generate_series(1, $1::integer) n`,
      [ROWS],
    );
    const client = new pg.Client({ connectionString: url });
    await client.connect();
    onTestFinished(() => client.end());
    const writesMs: number[] = [];
    const old = loop(async () => {
      const token = randomUUID();
      const startedMs = performance.now();
      const row = [[token], [randomUUID()], [1], [Buffer.from(token)]];
      expect((await client.query(OLD_INSERT, row)).rowCount).toBe(1);
      const { rows } = await client.query(OLD_FIND, [[token]]);
      expect(rows[0].sealed.toString()).toBe(token);
      writesMs.push(performance.now() - startedMs);
    });
    const nodes = await Promise.all([start(place), start(place)]);
    const applied = nodes.flatMap((node) => {
      const [line] = node.output().match(/^.*"msg":"schema".*$/m)!;
      return JSON.parse(line).applied as string[];
    });
    const newer = readMigrations().slice(OLD_SCHEMA);
    // Each once, whoever was first.
    expect(applied.toSorted()).toEqual(newer.map(({ name }) => name));
    const migrations = await query(url, 'select version from standin.migrations order by 1');
    expect(migrations.map(({ version }) => version)).toEqual(
      readMigrations().map(({ version }) => version),
    );
    // The old program goes on beside the new ones.
    const rounds = writesMs.length;
    const apiKey = nodes.map((node) => node.api_key).find((key) => key !== '')!;
    const { writers } = await loaded({ place, nodes, api_key: apiKey }, 500);
    await until(() => writesMs.length > rounds + 100, 'the old program');
    await old.stop();
    expect(Math.max(...writesMs)).toBeLessThan(1_000 + SLACK_MS);
    await writers.finish();
    expect([...writers.failures]).toEqual([]);
  });
});
