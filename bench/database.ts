import { PostgresCluster, postgresBin, query } from '../test/support/postgres.ts';
import type { Leftovers } from './leftovers.ts';

/** The PostgreSQL server of a run, which ends with all its databases. */
export interface DatabaseServer {
  readonly url: string;
  readonly pid: number;
}

/** With default settings, but for WAL files that exist: see `age`. */
export async function startDatabaseServer(leftovers: Leftovers): Promise<DatabaseServer> {
  if (postgresBin === undefined) {
    throw new Error(
      'No PostgreSQL here. Install it, or name what needs none: --only echo,embedded',
    );
  }
  const cluster = await PostgresCluster.start({ min_wal_size: '1GB' });
  leftovers.add(async () => cluster.stop());
  const url = cluster.url('postgres');
  await age(url);
  return { url, pid: cluster.postmasterPid };
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
  ...['server_version', 'fsync', 'full_page_writes', 'synchronous_commit', 'shared_buffers'],
  ...['max_wal_size', 'checkpoint_timeout', 'max_connections', 'wal_compression'],
];

/** The settings that affect the figures. */
export async function settingsOf({ url }: DatabaseServer): Promise<string> {
  const rows = await query(
    url,
    'select name, current_setting(name) as value from unnest($1::text[]) as name',
    [TOLD_SETTINGS],
  );
  return rows.map(({ name, value }) => `${name}=${value}`).join(', ');
}
