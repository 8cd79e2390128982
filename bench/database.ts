import { PostgresCluster, postgres_bin, query } from '../test/support/postgres.ts';
import type { Leftovers } from './leftovers.ts';

/** The PostgreSQL server of a run. */
export interface DatabaseServer {
  readonly url: string;
  readonly version: string;
  /** undefined: not a process of ours. */
  readonly pid: number | undefined;
  /** Removes a database that the benchmark made. */
  drop(database_url: string): Promise<void>;
}

/** That of BENCH_DATABASE_URL, else one with default settings where it is installed, else undefined. */
export async function startDatabaseServer(
  leftovers: Leftovers,
): Promise<DatabaseServer | undefined> {
  const given = process.env.BENCH_DATABASE_URL;
  if (given !== undefined && given !== '') {
    return describe(given, undefined);
  }
  if (postgres_bin === undefined) return undefined;
  const cluster = await PostgresCluster.start();
  leftovers.add(async () => cluster.stop());
  return describe(cluster.url('postgres'), cluster.postmaster_pid);
}

async function describe(url: string, pid: number | undefined): Promise<DatabaseServer> {
  const [row] = await query(url, 'show server_version');
  return {
    url,
    version: String(row?.server_version),
    pid,
    drop: async (database_url) => {
      const name = new URL(database_url).pathname.slice(1);
      // A cluster of our own goes away as a whole.
      if (pid === undefined) await query(url, `drop database if exists ${name} with (force)`);
    },
  };
}
