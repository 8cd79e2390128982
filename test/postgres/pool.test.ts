import pg from 'pg';
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest';
import { Unavailable } from '../../src/errors.ts';
import { OldPrimary } from '../../src/store/database-error.ts';
import { type Address, Pool } from '../../src/store/pool.ts';
import { PrimaryFinder, Timeline } from '../../src/store/primary.ts';
import { serverFacts } from '../../src/store/server.ts';
import { PostgresCluster, postgresBin, query } from '../support/postgres.ts';
import { until } from '../support/service.ts';
import { soon } from '../support/vault.ts';

describe.skipIf(postgresBin === undefined)('a pool of connections', () => {
  let cluster: PostgresCluster;
  beforeAll(async () => {
    cluster = await PostgresCluster.start();
  });
  afterAll(() => cluster.stop());

  function newPool(connections: number, locate: () => Promise<Address>): Pool {
    const pool = new Pool({ connections, locate });
    onTestFinished(() => pool.end());
    return pool;
  }

  const toPostgres = async () => ({ url: cluster.directUrl('postgres') });
  const pidOf = async (pool: Pool) =>
    (await pool.query('select pg_backend_pid() as pid', [], soon())).rows[0]!.pid;

  /** A statement that is under way on the server, and the way to have the server cancel it. */
  async function underWay(pool: Pool, name: string) {
    const ended = pool.query(`select pg_sleep(60) as ${name}`, [], soon()).then(
      () => undefined,
      (error) => error,
    );
    const find = () =>
      query(
        cluster.directUrl('postgres'),
        `select pid from pg_stat_activity where state = 'active' and query like '%as ${name}'`,
      );
    await until(async () => (await find()).length === 1, 'the statement');
    const [{ pid }] = (await find()) as [{ pid: number }];
    const cancel = async () => {
      await query(cluster.directUrl('postgres'), 'select pg_cancel_backend($1)', [pid]);
      expect(await ended).toBeInstanceOf(Unavailable);
    };
    return { pid, cancel };
  }

  test('a connection whose statement failed as unavailable is never used again', async () => {
    const pool = newPool(1, toPostgres);
    const { pid, cancel } = await underWay(pool, 'one');
    await cancel();
    expect(await pidOf(pool)).not.toBe(String(pid));
  });

  test('after a failure the primary is looked for again', async () => {
    let looks = 0;
    const pool = newPool(1, () => {
      looks++;
      return toPostgres();
    });
    const { cancel } = await underWay(pool, 'looked_for');
    expect(looks).toBe(1);
    await cancel();
    await pidOf(pool);
    expect(looks).toBe(2);
  });

  test('of servers of one timeline, the one that takes writes is the primary', async () => {
    const url = cluster.directUrl('postgres');
    const readOnly = { name: 'a', url: `${url}?options=-c%20default_transaction_read_only%3Don` };
    const writable = { name: 'b', url };
    for (const hosts of [
      [readOnly, writable],
      [writable, readOnly],
    ])
      expect(await new PrimaryFinder(hosts, new Timeline()).locate()).toBe(writable);
  });

  test('the setting of the role outranks that of the database, also for sessions to come', async () => {
    const pool = newPool(1, toPostgres);
    await pool.query('select 1', [], soon());
    const alter = (whose: string, how: string) =>
      query(cluster.directUrl('postgres'), `alter ${whose} postgres ${how}`);
    for (const [ofRole, ofDatabase, expected] of [
      ['off', 'on', ['synchronous_commit=off']],
      ['on', 'off', []],
    ] as const) {
      await alter('database', `set synchronous_commit = ${ofDatabase}`);
      await alter('role', `set synchronous_commit = ${ofRole}`);
      expect((await serverFacts(pool, soon())).unsafeSettings).toEqual(expected);
    }
    for (const whose of ['role', 'database']) await alter(whose, 'reset synchronous_commit');
  });

  test('a transaction that fails leaves none open', async () => {
    const pool = newPool(1, toPostgres);
    const failing = pool.transaction(soon(), async (query) => {
      await query('select 1');
      throw new Error('ours');
    });
    await expect(failing).rejects.toThrow('ours');
    const text = 'select (now() = statement_timestamp())::text as is_own';
    expect((await pool.query(text, [], soon())).rows[0]!.is_own).toBe('true');
  });

  test('a grant without effect, 01007, leaves the outcome of its transaction known', async () => {
    const admin = cluster.directUrl('postgres');
    await query(admin, 'create schema theirs; create role outsider login; create role other');
    await query(admin, 'grant usage on schema theirs to outsider');
    const url = new URL(admin);
    url.username = 'outsider';
    const warnings: (string | undefined)[] = [];
    const client = new pg.Client({ connectionString: url.href });
    client.on('notice', ({ code }) => warnings.push(code));
    await client.connect();
    await client.query('grant usage on schema theirs to other');
    await client.end();
    expect(warnings).toEqual(['01007']);
    const pool = newPool(1, async () => ({ url: url.href }));
    const pid = await pidOf(pool);
    await pool.transaction(soon(), (ask) => ask('grant usage on schema theirs to other'));
    expect(await pidOf(pool)).toBe(pid);
  });

  test('a connection that is open is not used any more once another pool has seen a newer primary', async () => {
    const timeline = new Timeline();
    const pool = new Pool({ connections: 1, locate: toPostgres, timeline });
    onTestFinished(() => pool.end());
    await pidOf(pool);
    timeline.see(2);
    await expect(pidOf(pool)).rejects.toBeInstanceOf(OldPrimary);
  });

  async function waitFor(standby: string): Promise<void> {
    const admin = cluster.directUrl('postgres');
    await query(admin, `alter system set synchronous_standby_names = '${standby}'`);
    await query(admin, 'select pg_reload_conf()');
    const inForce = () => query(admin, 'show synchronous_standby_names');
    await until(
      async () => (await inForce())[0]!.synchronous_standby_names === standby,
      'the setting',
    );
    // The checkpointer tells all sessions.
    await query(admin, 'checkpoint');
  }

  /** Until the test ends, commits wait for a standby that does not exist. */
  async function loseStandby(): Promise<void> {
    onTestFinished(() => waitFor(''));
    await waitFor('nobody');
  }

  async function cancelWait(): Promise<void> {
    const admin = cluster.directUrl('postgres');
    const find = () =>
      query(admin, "select pid from pg_stat_activity where wait_event = 'SyncRep'");
    await until(async () => (await find()).length === 1, 'a commit that waits');
    const [{ pid }] = (await find()) as [{ pid: number }];
    await query(admin, 'select pg_cancel_backend($1)', [pid]);
  }

  test('what durably only reads waits for the standby; a cancelled wait leaves it uncertain', async () => {
    const pool = newPool(1, toPostgres);
    await loseStandby();
    const read = () => pool.durably(soon(), (ask) => ask('select 1 as one'));
    const outcome = expect(read()).rejects.toBeInstanceOf(Unavailable);
    await cancelWait();
    await outcome;
    await waitFor('');
    expect(await read()).toEqual({ rows: [{ one: '1' }] });
  });

  test('a cancelled wait for the standby, 01000, leaves the outcome unknown', async () => {
    const admin = cluster.directUrl('postgres');
    await query(admin, 'create table public.waited (n int)');
    await loseStandby();

    const client = new pg.Client({ connectionString: admin });
    const warnings: (string | undefined)[] = [];
    client.on('notice', ({ code }) => warnings.push(code));
    await client.connect();
    await Promise.all([client.query('insert into public.waited values (1)'), cancelWait()]);
    await client.end();
    expect(warnings).toEqual(['01000']);

    const pool = newPool(1, toPostgres);
    const pid = await pidOf(pool);
    const outcome = expect(
      pool.query('insert into public.waited values (2)', [], soon()),
    ).rejects.toBeInstanceOf(Unavailable);
    await cancelWait();
    await outcome;
    expect(await pidOf(pool)).not.toBe(pid);
    expect(await query(admin, 'select n from public.waited order by n')).toEqual([
      { n: 1 },
      { n: 2 },
    ]);
  });

  test('an older look for the primary that ends late does not put the older address back', async () => {
    await query(cluster.directUrl('postgres'), 'create database newer');
    const newer = { url: cluster.directUrl('newer') };
    const older: { answer?: (address: Address) => void } = {};
    const looks = [
      toPostgres,
      () => new Promise<Address>((resolve) => (older.answer = resolve)),
      async () => newer,
    ];
    const pool = newPool(2, () => looks.shift()!());
    const databaseOf = async () =>
      (await pool.query('select current_database() as name', [], soon())).rows[0]!.name;
    const first = await underWay(pool, 'first');
    const second = await underWay(pool, 'second');
    await first.cancel();
    const late = databaseOf();
    await until(() => older.answer !== undefined, 'the older look');
    await second.cancel();
    expect(await databaseOf()).toBe('newer');
    older.answer!(await toPostgres());
    expect(await late).toBe('newer');
    expect(await databaseOf()).toBe('newer');
  });

  test('a standby is not asked: not even for what it could read', async () => {
    const standby = await PostgresCluster.start();
    onTestFinished(() => standby.stop());
    standby.demote();
    const pool = newPool(1, async () => ({ url: standby.directUrl('postgres') }));
    await expect(pool.query('select 1 as one', [], soon())).rejects.toMatchObject({
      code: '25006',
    });
  });

  test('options of the URL stay, and cannot take the settings of the service away', async () => {
    const url = new URL(cluster.directUrl('postgres'));
    url.searchParams.set('options', '-c work_mem=7MB -c bytea_output=escape');
    const pool = newPool(1, async () => ({ url: url.href }));
    const { rows } = await pool.query(
      "select current_setting('work_mem') as work_mem, '\\x00ff'::bytea as bytes",
      [],
      soon(),
    );
    expect(rows).toEqual([{ work_mem: '7MB', bytes: '\\x00ff' }]);
  });
});
