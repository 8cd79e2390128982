import { randomUUID } from 'node:crypto';
import pg from 'pg';
import { describe, expect, onTestFinished, test } from 'vitest';
import { migrate, readMigrations } from '../../src/store/schema.ts';
import { newCluster, newVault, newWriters, SLACK_MS, start, times } from '../support/fault.ts';
import { postgresBin, query } from '../support/postgres.ts';
import { until } from '../support/service.ts';
import { openTestPool, soon } from '../support/vault.ts';

const ROWS = times(200_000, 1_000_000);
/** As the program of the schema before the last wrote and read. */
const OLD_INSERT = `insert into standin.records (token_fingerprint, value_fingerprint, key_version, sealed)
  select * from unnest($1::uuid[], $2::uuid[], $3::smallint[], $4::bytea[]) on conflict (token_fingerprint) do nothing`;
const OLD_FIND =
  'select value_fingerprint, key_version, sealed from standin.records where token_fingerprint = any($1::uuid[])';
const OLD_SCHEMA = 2;

/** An old program that goes on, with a connection of its own: writes a row and reads it back. */
class OldProgram {
  readonly #client: pg.Client;
  readonly #done: Promise<void>;
  #isOver = false;
  rounds = 0;
  slowestMs = 0;

  constructor(client: pg.Client) {
    this.#client = client;
    this.#done = this.#run();
    // A failure is thrown by stop.
    this.#done.catch(() => {});
  }

  async stop(): Promise<void> {
    this.#isOver = true;
    await this.#done;
  }

  async #run(): Promise<void> {
    while (!this.#isOver) {
      const token = randomUUID();
      const startedMs = performance.now();
      const row = [[token], [randomUUID()], [1], [Buffer.from(token)]];
      expect((await this.#client.query(OLD_INSERT, row)).rowCount).toBe(1);
      const { rows } = await this.#client.query(OLD_FIND, [[token]]);
      expect(rows[0].sealed.toString()).toBe(token);
      this.slowestMs = Math.max(this.slowestMs, performance.now() - startedMs);
      this.rounds++;
    }
  }
}

describe.skipIf(postgresBin === undefined)('a schema that changes under load', () => {
  test(`F20: two new nodes start at once on ${ROWS} rows while an old program writes: each migration is made once, nobody fails`, async () => {
    const cluster = await newCluster();
    const place = await newVault(cluster);
    const url = place.env.DATABASE_URL!;
    const pool = openTestPool(place, 1);
    await migrate(pool, soon(), readMigrations().slice(0, OLD_SCHEMA));
    await pool.end();
    await query(
      url,
      `insert into standin.records (token_fingerprint, value_fingerprint, key_version, sealed)
       select md5(n::text)::uuid, md5('v' || n)::uuid, 1, sha256(n::text::bytea) from generate_series(1, $1::integer) n`,
      [ROWS],
    );
    const client = new pg.Client({ connectionString: url });
    await client.connect();
    onTestFinished(() => client.end());
    const old = new OldProgram(client);
    const starts = Promise.all([start(place), start(place)]);
    const nodes = await starts;
    const applied = nodes.flatMap(
      (node) =>
        JSON.parse(
          node
            .output()
            .split('\n')
            .find((line) => line.includes('"msg":"schema"'))!,
        ).applied as string[],
    );
    const newer = readMigrations().slice(OLD_SCHEMA);
    // Each once, whoever was first.
    expect(applied.toSorted()).toEqual(newer.map(({ name }) => name));
    const migrations = await query(url, 'select version from standin.migrations order by 1');
    expect(migrations.map(({ version }) => version)).toEqual(
      readMigrations().map(({ version }) => version),
    );
    // The old program goes on beside the new ones.
    const { rounds } = old;
    const apiKey = nodes.map((node) => node.api_key).find((key) => key !== '')!;
    let n = 0;
    const writers = newWriters(() => nodes[n++ % 2]!, apiKey, place);
    await writers.progress(500);
    await until(() => old.rounds > rounds + 100, 'the old program');
    await writers.stop();
    await old.stop();
    console.log(`longest block ${old.slowestMs.toFixed()} ms`);
    expect(old.slowestMs).toBeLessThan(1_000 + SLACK_MS);
    expect([...writers.failures]).toEqual([]);
    await writers.verify(nodes[0]!, apiKey);
    await writers.verifyRows(place);
  });
});
