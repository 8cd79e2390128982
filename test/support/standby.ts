import { onTestFinished } from 'vitest';
import { newCluster, newProxy, newVault, start } from './fault.ts';
import type { FaultProxy } from './fault-proxy.ts';
import { type PostgresCluster, query } from './postgres.ts';
import { call, type Place, type Service, until } from './service.ts';

export interface Pair {
  readonly primary: PostgresCluster;
  readonly standby: PostgresCluster;
  /** Between the two. */
  readonly proxy: FaultProxy;
  readonly place: Place;
  readonly nodes: readonly Service[];
  readonly api_key: string;
}

/** Nodes on a primary and its synchronous standby. */
export async function newPair(nodes = 2, env: Record<string, string> = {}): Promise<Pair> {
  const primary = await newCluster();
  const place = await newVault(primary);
  const proxy = await newProxy(primary);
  const standby = await primary.startStandby(proxy.through(primary.directUrl('postgres')));
  onTestFinished(() => standby.stop());
  place.env.DATABASE_URL = place.env.DATABASE_URL!.replace(
    /@[^/]*/,
    `@127.0.0.1:${primary.port},127.0.0.1:${standby.port}`,
  );
  const started: Service[] = [];
  while (started.length < nodes) started.push(await start(place, env));
  return { primary, standby, proxy, place, nodes: started, api_key: started[0]!.api_key };
}

/** Process ids of the backends of the service, and of its commands, that wait for the standby. */
export async function waiting({ primary }: Pair): Promise<number[]> {
  const rows = await query(
    primary.directUrl('postgres'),
    "select pid from pg_stat_activity where application_name = 'standin' and wait_event = 'SyncRep'",
  );
  return rows.map((row) => row.pid);
}

/** What an administrator can do to a backend that waits. */
export const ENDS = ['pg_terminate_backend', 'pg_cancel_backend'] as const;

export async function end(
  { primary }: Pair,
  pids: readonly number[],
  how: (typeof ENDS)[number] = 'pg_terminate_backend',
): Promise<void> {
  for (const pid of pids) await query(primary.directUrl('postgres'), `select ${how}($1)`, [pid]);
}

/** The standby becomes the primary, and the old one is gone for good. */
export async function failOver(pair: Pair): Promise<void> {
  const { primary, standby, nodes, api_key: apiKey } = pair;
  await primary.crash();
  standby.promote();
  for (const node of nodes) {
    const works = async () =>
      (await call(node, 'tokenize', { a: 'there again' }, apiKey)).status === 200;
    await until(works, 'the new primary');
  }
}

/** An administrator who ends waits for the standby. */
export class WaitsEnded {
  /** Waits ended so far. */
  count = 0;
  #isOver = false;
  readonly #ended: Promise<void>;

  constructor(pair: Pair, how: (typeof ENDS)[number]) {
    const look = async () => {
      const pids = await waiting(pair);
      await end(pair, pids, how);
      this.count += pids.length;
      return this.#isOver;
    };
    this.#ended = until(look, 'the end of the fault', 3_600_000);
  }

  async stop(): Promise<void> {
    this.#isOver = true;
    await this.#ended;
  }
}

/** Resolves when a standby that receives nothing more shows everything that it has received. */
export async function replayed({ standby }: Pair): Promise<void> {
  const text = 'select pg_last_wal_replay_lsn() >= pg_last_wal_receive_lsn() as is_done';
  const isDone = async () =>
    (await query(standby.directUrl('postgres'), text))[0]!.is_done === true;
  await until(isDone, 'the standby to replay what it has');
}
