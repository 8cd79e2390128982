import { PostgresCluster, postgresBin, query } from '../test/support/postgres.ts';
import type { Leftovers } from './leftovers.ts';

/** The PostgreSQL server of a run, which ends with all its databases. */
export interface DatabaseServer {
  readonly url: string;
  readonly pid: number;
}

/**
 * With default settings, but like a server that has run for a while, which overwrites old WAL files.
 * A new server first fills each file with 16 MiB of zeros, and all commits wait about 50 ms.
 * undefined: no PostgreSQL here.
 */
export async function startDatabaseServer(
  leftovers: Leftovers,
): Promise<DatabaseServer | undefined> {
  if (postgresBin === undefined) return undefined;
  const cluster = await PostgresCluster.start({ min_wal_size: '1GB' });
  leftovers.add(async () => cluster.stop());
  const url = cluster.url('postgres');
  const message = "pg_logical_emit_message(true, 'bench', repeat('x', 8388608))";
  await query(url, `select ${message} from generate_series(1, 128)`);
  await query(url, 'checkpoint');
  return { url, pid: cluster.postmasterPid };
}

const TOLD_SETTINGS =
  'server_version fsync full_page_writes synchronous_commit shared_buffers max_wal_size checkpoint_timeout max_connections wal_compression';

/** The settings that affect the figures. */
export async function settingsOf({ url }: DatabaseServer): Promise<string> {
  const sql = 'select name, current_setting(name) as value from unnest($1::text[]) as name';
  const rows = await query(url, sql, [TOLD_SETTINGS.split(' ')]);
  return rows.map(({ name, value }) => `${name}=${value}`).join(', ');
}
