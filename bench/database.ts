import { PostgresCluster, postgresBin, query } from '../test/support/postgres.ts';
import type { Leftovers } from './leftovers.ts';

/** The PostgreSQL server of a run. */
export interface DatabaseServer {
  readonly url: string;
  readonly version: string;
  /** The settings that affect the figures, from `show`. */
  readonly settings: readonly string[];
  /** undefined: the benchmark did not start the server. */
  readonly pid: number | undefined;
  /** Removes a database of the benchmark. */
  drop(databaseUrl: string): Promise<void>;
}

/**
 * The server of BENCH_DATABASE_URL, or else the benchmark's own server. undefined: PostgreSQL is not
 * installed.
 * @param settings for the benchmark's own server, besides the defaults
 */
export async function startDatabaseServer(
  settings: Readonly<Record<string, string>>,
  leftovers: Leftovers,
): Promise<DatabaseServer | undefined> {
  const given = process.env.BENCH_DATABASE_URL;
  if (given !== undefined && given !== '') {
    return describe(given, undefined);
  }
  if (postgresBin === undefined) return undefined;
  const cluster = await PostgresCluster.start({ min_wal_size: '1GB', ...settings });
  leftovers.add(async () => cluster.stop());
  await age(cluster.url('postgres'));
  return describe(cluster.url('postgres'), cluster.postmasterPid);
}

const WAL_MESSAGES = 128;
const WAL_MESSAGE_BYTES = 8 * 2 ** 20;

/**
 * Makes a new server behave like a server that has run for a while, which overwrites old WAL files.
 * A new server first fills each file with 16 MiB of zeros, and all commits wait about 50 ms.
 */
async function age(url: string): Promise<void> {
  for (let i = 0; i < WAL_MESSAGES; i++) {
    await query(url, "select pg_logical_emit_message(true, 'bench', repeat('x', $1::integer))", [
      WAL_MESSAGE_BYTES,
    ]);
  }
  await query(url, 'checkpoint');
}

const TOLD_SETTINGS = [
  'fsync',
  'full_page_writes',
  'synchronous_commit',
  'shared_buffers',
  'max_wal_size',
  'checkpoint_timeout',
  'max_connections',
  'wal_compression',
];

async function describe(url: string, pid: number | undefined): Promise<DatabaseServer> {
  const [row] = await query(url, 'show server_version');
  const settings = await query(
    url,
    'select name, current_setting(name) as value from unnest($1::text[]) as name',
    [TOLD_SETTINGS],
  );
  return {
    url,
    version: String(row?.server_version),
    settings: settings.map(({ name, value }) => `${name}=${value}`),
    pid,
    drop: async (databaseUrl) => {
      const name = new URL(databaseUrl).pathname.slice(1);
      // The benchmark removes its own server as a whole.
      if (pid === undefined) await query(url, `drop database if exists ${name} with (force)`);
    },
  };
}
