import type { Query } from './pool.ts';

/** Any number, the same in all versions: nodes that start at once migrate one after the other. */
const MIGRATION_LOCK = 7_382_159;

/** Begins a transaction that changes tables: others wait until it has ended. */
export async function takeMigrationLock(query: Query): Promise<void> {
  await query('select pg_advisory_xact_lock($1::bigint)', [MIGRATION_LOCK]);
  // Citus otherwise refuses to change a table that refers to others after one that does not, in one
  // transaction. Elsewhere it is a setting that nobody reads.
  await query("set local citus.multi_shard_modify_mode = 'sequential'");
}
