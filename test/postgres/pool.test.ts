import pg from 'pg';
import { beforeAll, describe, expect, onTestFinished, test, vi } from 'vitest';
import { Unavailable } from '../../src/errors.ts';
import type { Address } from '../../src/store/connection.ts';
import { OldPrimary, ReadOnlyServer } from '../../src/store/database-error.ts';
import { Pool } from '../../src/store/pool.ts';
import { PrimaryFinder, Timeline } from '../../src/store/primary.ts';
import { serverFacts } from '../../src/store/server.ts';
import { ownCluster } from '../support/own.ts';
import { PostgresCluster, postgresBin, query } from '../support/postgres.ts';
import { until } from '../support/service.ts';
import { soon } from '../support/vault.ts';

describe.skipIf(postgresBin === undefined)('a pool of connections', () => {
  let cluster: PostgresCluster;
  beforeAll(async () => {
    cluster = await PostgresCluster.start();
    return () => cluster.stop();
  });

  const url = () => cluster.directUrl('postgres');
  const admin = (text: string, values?: unknown[]) => query(url(), text, values);
  const toPostgres = async () => ({ url: url() });

  function newPool(locate: () => Promise<Address> = toPostgres, connections = 1, more = {}): Pool {
    const pool = new Pool({ connections, locate, ...more });
    onTestFinished(() => pool.end());
    return pool;
  }

  /** The one row of a statement. */
  const ask = async (pool: Pool, text: string) => (await pool.query(text, [], soon())).rows[0]!;
  const pidOf = async (pool: Pool) => (await ask(pool, 'select pg_backend_pid() as pid')).pid;

  /** The process id of the one backend with this condition. */
  async function backend(condition: string): Promise<number> {
    const find = () => admin(`select pid from pg_stat_activity where ${condition}`);
    await until(async () => (await find()).length === 1, condition);
    return (await find())[0]!.pid;
  }

  /** A statement that is under way on the server, and the way to have the server cancel it. */
  async function underWay(pool: Pool, name: string) {
    const running = pool.query(`select pg_sleep(60) as ${name}`, [], soon());
    const ended = running.catch((error) => error);
    const pid = await backend(`state = 'active' and query like '%as ${name}'`);
    const cancel = async () => {
      await admin('select pg_cancel_backend($1)', [pid]);
      expect(await ended).toBeInstanceOf(Unavailable);
    };
    return { pid, cancel };
  }

  /** A connection that collects the codes of warnings. */
  async function warned(at: string, text: string, during: () => Promise<void> = async () => {}) {
    const client = new pg.Client({ connectionString: at });
    const warnings: (string | undefined)[] = [];
    client.on('notice', ({ code }) => warnings.push(code));
    await client.connect();
    await Promise.all([client.query(text), during()]);
    await client.end();
    return warnings;
  }

  test('after a failure as unavailable, the connection is never used again, and the primary is looked for', async () => {
    let looks = 0;
    const pool = newPool(() => {
      looks++;
      return toPostgres();
    });
    const { pid, cancel } = await underWay(pool, 'one');
    expect(looks).toBe(1);
    await cancel();
    expect(await pidOf(pool)).not.toBe(String(pid));
    expect(looks).toBe(2);
  });

  test('after a server took no writes, each open connection is asked again whether it leads to the primary', async () => {
    const timeline = new Timeline();
    const pool = newPool(toPostgres, 2, { timeline });
    const { cancel } = await underWay(pool, 'first');
    const looked = vi.spyOn(timeline, 'require');
    const write = 'do $$ begin set transaction read only; create table public.never (); end $$';
    const failing = pool.transaction(soon(), async (query) => {
      await cancel();
      await pidOf(pool);
      expect(looked).toHaveBeenCalledTimes(2);
      await query(write);
    });
    await expect(failing).rejects.toBeInstanceOf(ReadOnlyServer);
    await pidOf(pool);
    expect(looked).toHaveBeenCalledTimes(3);
  });

  test('a statement that is late is cancelled, also over a Unix socket', async () => {
    const socket = `postgres://postgres@${encodeURIComponent(cluster.folder)}:${cluster.port}/postgres`;
    const pool = newPool(async () => ({ url: socket }));
    await pidOf(pool);
    const late = pool.query('select pg_sleep(600) as late', [], performance.now() + 50);
    await expect(late).rejects.toBeInstanceOf(Unavailable);
    const left = "select 1 from pg_stat_activity where query like '%600% as late'";
    await until(async () => (await admin(left)).length === 0, 'the end of the statement');
  });

  test('a user who may not read the timeline is served, by one server and by several', async () => {
    await admin('create role hosted login');
    await admin('revoke execute on function pg_walfile_name from public');
    onTestFinished(() =>
      admin('grant execute on function pg_walfile_name to public').then(() => {}),
    );
    const hosts = ['127.0.0.1', 'localhost'].map((name) => ({
      ...{ name, url: url().replace('postgres@127.0.0.1', `hosted@${name}`) },
    }));
    const pool = newPool(async () => hosts[0]!);
    expect(await ask(pool, 'select 1 as one')).toEqual({ one: '1' });
    expect(hosts).toContain(await new PrimaryFinder(hosts, new Timeline()).locate());
  });

  test('of servers of one timeline, the one that takes writes is the primary', async () => {
    const readOnly = { name: 'a', url: `${url()}?options=-c%20default_transaction_read_only%3Don` };
    const writable = { name: 'b', url: url() };
    for (const hosts of [
      [readOnly, writable],
      [writable, readOnly],
    ])
      expect(await new PrimaryFinder(hosts, new Timeline()).locate()).toBe(writable);
  });

  test('the setting of the role outranks that of the database, also for sessions to come', async () => {
    const pool = newPool();
    await ask(pool, 'select 1');
    const alter = (whose: string, how: string) => admin(`alter ${whose} postgres ${how}`);
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
    const pool = newPool();
    const failing = pool.transaction(soon(), async (query) => {
      await query('select 1');
      throw new Error('ours');
    });
    await expect(failing).rejects.toThrow('ours');
    const text = 'select (now() = statement_timestamp())::text as is_own';
    expect(await ask(pool, text)).toEqual({ is_own: 'true' });
  });

  test('a grant without effect, 01007, leaves the outcome of its transaction known', async () => {
    await admin('create schema theirs; create role outsider login; create role other');
    await admin('grant usage on schema theirs to outsider');
    const outsider = url().replace('postgres@', 'outsider@');
    const grant = 'grant usage on schema theirs to other';
    expect(await warned(outsider, grant)).toEqual(['01007']);
    const pool = newPool(async () => ({ url: outsider }));
    const pid = await pidOf(pool);
    await pool.transaction(soon(), (query) => query(grant));
    expect(await pidOf(pool)).toBe(pid);
  });

  test('a connection that is open is not used any more once another pool has seen a newer primary', async () => {
    const timeline = new Timeline();
    const pool = newPool(toPostgres, 1, { timeline });
    await pidOf(pool);
    timeline.see(2);
    await expect(pidOf(pool)).rejects.toBeInstanceOf(OldPrimary);
  });

  describe('while commits wait for a standby that does not exist', () => {
    async function waitFor(standby: string): Promise<void> {
      const name = 'synchronous_standby_names';
      await cluster.alterSystem(`set ${name} = '${standby}'`);
      const inForce = async () => (await admin(`show ${name}`))[0]![name] === standby;
      await until(inForce, 'the setting');
      // The checkpointer notifies all sessions.
      await admin('checkpoint');
    }

    async function cancelWait(): Promise<void> {
      await admin('select pg_cancel_backend($1)', [await backend("wait_event = 'SyncRep'")]);
    }

    test('what durably only reads waits for the standby; a cancelled wait leaves it uncertain', async () => {
      const pool = newPool();
      onTestFinished(() => waitFor(''));
      await waitFor('nobody');
      const read = () => pool.durably(soon(), (query) => query('select 1 as one'));
      const outcome = expect(read()).rejects.toBeInstanceOf(Unavailable);
      await cancelWait();
      await outcome;
      await waitFor('');
      expect(await read()).toEqual({ rows: [{ one: '1' }] });
    });

    test('a cancelled wait, 01000, leaves the outcome unknown', async () => {
      await admin('create table public.waited (n int)');
      onTestFinished(() => waitFor(''));
      await waitFor('nobody');
      const insert = (n: number) => `insert into public.waited values (${n})`;
      expect(await warned(url(), insert(1), cancelWait)).toEqual(['01000']);

      const pool = newPool();
      const pid = await pidOf(pool);
      const outcome = expect(ask(pool, insert(2))).rejects.toBeInstanceOf(Unavailable);
      await cancelWait();
      await outcome;
      expect(await pidOf(pool)).not.toBe(pid);
      const rows = await admin('select n from public.waited order by n');
      expect(rows).toEqual([{ n: 1 }, { n: 2 }]);
    });
  });

  test('an older look for the primary that ends late does not put the older address back', async () => {
    await admin('create database newer');
    let answerOlder: ((address: Address) => void) | undefined;
    const looks = [
      toPostgres,
      () =>
        new Promise<Address>((resolve) => {
          answerOlder = resolve;
        }),
      async () => ({ url: cluster.directUrl('newer') }),
    ];
    const pool = newPool(() => looks.shift()!(), 2);
    const nameOf = async () => (await ask(pool, 'select current_database() as name')).name;
    const first = await underWay(pool, 'first');
    const second = await underWay(pool, 'second');
    await first.cancel();
    const late = nameOf();
    await until(() => answerOlder !== undefined, 'the older look');
    await second.cancel();
    expect(await nameOf()).toBe('newer');
    answerOlder!(await toPostgres());
    expect([await late, await nameOf()]).toEqual(['newer', 'newer']);
  });

  test('a standby is not asked: not even for what it could read', async () => {
    const standby = await ownCluster();
    standby.demote();
    const pool = newPool(async () => ({ url: standby.directUrl('postgres') }));
    await expect(ask(pool, 'select 1 as one')).rejects.toMatchObject({ code: '25006' });
  });

  test('options of the URL stay, and cannot take the settings of the service away', async () => {
    const options = encodeURIComponent('-c work_mem=7MB -c bytea_output=escape');
    const pool = newPool(async () => ({ url: `${url()}?options=${options}` }));
    const text = "select current_setting('work_mem') as work_mem, '\\x00ff'::bytea as bytes";
    expect(await ask(pool, text)).toEqual({ work_mem: '7MB', bytes: '\\x00ff' });
  });
});
