import { execFile } from 'node:child_process';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { beforeAll, describe, expect, inject, test } from 'vitest';
import { blocksUnder } from '../support/docs.ts';
import { loop } from '../support/loop.ts';
import { createDatabase, postgresBin, query } from '../support/postgres.ts';
import { served } from '../support/served.ts';
import { call, kinds, newPlace, startService, typed } from '../support/service.ts';
import { detokenizeAll } from '../support/vault.ts';

const GUIDE = 'docs/guides/migrate-existing-data.md';
const ROWS = 25_000;

const exec = promisify(execFile);

/** What the application of the guide knows: the value of each row. */
const expected = new Map<string, string>();

describe.skipIf(postgresBin === undefined || !kinds().includes('server'))(
  'the guide to migrating existing data',
  () => {
    const service = served(async () => startService(await newPlace('embedded')));
    let customersUrl: string;
    let changes = 0;
    beforeAll(async () => {
      customersUrl = await createDatabase(inject('serverUrl'));
      await query(
        customersUrl,
        'create table customers (id bigint generated always as identity primary key, email varchar(80))',
      );
      await query(
        customersUrl,
        `insert into customers (email) select case n % 100 when 0 then null when 1 then ''
          else 'Person "' || n || E'", of\\n' || n || '@example.com' end from generate_series(1, ${ROWS}) n`,
      );
      await remember();
    });

    async function remember(): Promise<void> {
      for (const { id, email } of await query(customersUrl, 'select id, email from customers'))
        if (email) expected.set(id, email);
    }

    /** The commands under a heading. */
    const run = (heading: string, index = 0) =>
      typed(service, blocksUnder(GUIDE, heading)[index]!, {}, customersUrl);

    /** Statement by statement, as psql sends them. */
    async function runSql(heading: string, index = 0): Promise<Record<string, any>[]> {
      const rows: Record<string, any>[] = [];
      for (const statement of blocksUnder(GUIDE, heading)[index]!.split(/;\n/).filter(Boolean))
        rows.push(...(await query(customersUrl, statement)));
      return rows;
    }

    /** A change by the application, which writes both columns. */
    async function change(n: number): Promise<void> {
      const email = `changed-${n}@example.com`;
      const { body } = await call(service, 'tokenize', { email });
      const [row] = await query(
        customersUrl,
        n % 4 === 0
          ? 'insert into customers (email, email_token) values ($1, $2) returning id'
          : `update customers set email = $1, email_token = $2
              where id = 1 + (${n} * 7919) % ${ROWS} returning id`,
        [email, body.data.email],
      );
      expected.set(row!.id, email);
      changes++;
    }

    test('brings every row to its token while the application writes, and none to a wrong one', async () => {
      const [look] = await runSql('Look');
      expect(look).toMatchObject({ different: String(ROWS * 0.98 + 1), blank: String(ROWS / 100) });
      await runSql('Expand');

      const running = loop(change);
      await run('Backfill').finally(running.stop);
      expect(changes).toBeGreaterThan(10);

      expect(await runSql('Check')).toEqual([{ missing: '0' }, { different: '0' }]);
      expect((await run('Check', 1)).trim().split('\n').at(-1)).toBe('0');
      await runSql('Check', 2);
      await runSql('Contract');
      const rows = await query(
        customersUrl,
        "select * from customers where email_token <> '' order by id",
      );
      expect(Object.keys(rows[0]!)).toEqual(['id', 'email_token']);
      expect(rows.length).toBe(expected.size);
      const tokens = rows.map((row) => row.email_token);
      const values = rows.map((row) => expected.get(row.id));
      expect(await detokenizeAll(service, tokens)).toEqual(values);
    });

    test('leaves no file with values behind', async () => {
      const { stdout } = await exec('ls', ['-a', join(service.place.folder)]);
      expect(stdout).not.toMatch(/\.csv/);
    });
  },
);
