import { onTestFinished } from 'vitest';
import { backends, newScene, nodesAt } from './fault.ts';
import { type PostgresCluster, query } from './postgres.ts';
import { call, type Place, until } from './service.ts';

/** Nodes on a primary and its standby, which is synchronous if nothing else is said. */
export async function newPair(nodes = 2, env?: Record<string, string>, isSynchronous = true) {
  const { cluster: primary, place, proxy } = await newScene({ nodes: 0 });
  const standby = await primary.startStandby(proxy.through(primary.directUrl('postgres')));
  onTestFinished(() => standby.stop());
  if (!isSynchronous) await primary.alterSystem('reset synchronous_standby_names');
  const name = new URL(place.env.DATABASE_URL!).pathname.slice(1);
  place.env.DATABASE_URL = urlOf(place, primary, standby);
  return {
    ...{ primary, standby, proxy, ...(await nodesAt(place, nodes, env)) },
    /** A statement in the vault, as a server has it. */
    on: (server: PostgresCluster, text: string, values?: readonly unknown[]) =>
      query(server.directUrl(name), text, values as unknown[]),
  };
}
export type Pair = Awaited<ReturnType<typeof newPair>>;

/** The URL of a vault with the hosts of these servers, in this order. */
export function urlOf(place: Place, ...clusters: readonly PostgresCluster[]): string {
  const hosts = clusters.map(({ port }) => `127.0.0.1:${port}`);
  return place.env.DATABASE_URL!.replace(/@[^/]*/, `@${hosts.join()}`);
}

/** Process ids of the backends of the service, and of its commands, that wait for the standby. */
export async function waiting({ primary }: Pair): Promise<number[]> {
  return backends(primary, "wait_event = 'SyncRep'");
}

/** What an administrator can do to a backend that waits. */
export const ENDS = ['pg_terminate_backend', 'pg_cancel_backend'] as const;

export async function end(
  { primary }: Pair,
  pids: readonly number[],
  how: (typeof ENDS)[number] = 'pg_terminate_backend',
): Promise<void> {
  for (const pid of pids) await primary.administer(`select ${how}($1)`, [pid]);
}

/** The standby becomes the primary, and the old one is gone for good. */
export async function failOver(pair: Pair, nodes = pair.nodes): Promise<void> {
  await pair.primary.crash();
  pair.standby.promote();
  for (const node of nodes) {
    const works = async () =>
      (await call(node, 'tokenize', { a: 'there again' }, pair.api_key)).status === 200;
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
    const round = async () => {
      const pids = await waiting(pair);
      await end(pair, pids, how);
      this.count += pids.length;
      return this.#isOver;
    };
    this.#ended = until(round, 'the end of the fault', 3_600_000);
    onTestFinished(() => this.stop());
  }

  async stop(): Promise<void> {
    this.#isOver = true;
    await this.#ended;
  }
}

/** Resolves when a standby that receives nothing more shows everything that it has received. */
export async function replayed({ standby }: Pair): Promise<void> {
  const text = 'select pg_last_wal_replay_lsn() >= pg_last_wal_receive_lsn() as is_done';
  const isDone = async () => (await standby.administer(text))[0]!.is_done === true;
  await until(isDone, 'the standby to replay what it has');
}
