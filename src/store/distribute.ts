import { allowedOr } from './database-error.ts';
import { takeMigrationLock } from './migrate.ts';
import type { Pool, Query } from './pool.ts';

/*
 * Migrations of a distributed vault go through Citus, one statement at a time. It refuses a unique
 * index on records without token_fingerprint, triggers on records, a changed token_fingerprint, and
 * now() inside case or coalesce of an update (least and greatest work). Count the rows of
 * `returning`: the count of `insert ... on conflict do nothing` is wrong (citus issue 3377).
 */

/**
 * Tables with one row a token, and the column whose hash picks the worker of a row. All other
 * tables are small reference tables: every node has a copy, so their rows can refer to each other.
 */
const DISTRIBUTION_COLUMNS: ReadonlyMap<string, string> = new Map([
  ['records', 'token_fingerprint'],
]);

const HAS_CITUS = "select 1 from pg_extension where extname = 'citus'";
/**
 * Tables that are neither distributed nor reference tables. Citus lists a local table (partmethod
 * `n`, not repmodel `t`, colocation 0) when a foreign key connects it to another table. The shard
 * of such a table is in the same schema.
 */
const LOCAL_TABLES = `select relname as name
  from pg_class left join pg_dist_partition on logicalrelid = pg_class.oid
  where relnamespace = to_regnamespace('standin') and relkind in ('r', 'p') and not relispartition
    and not relation_is_a_known_shard(pg_class.oid)
    and (logicalrelid is null or (partmethod = 'n' and repmodel <> 't' and colocationid = 0))
  order by relname`;

/** Citus copies the rows that exist. For a large vault this takes hours. */
const COPY_PATIENCE_MS = 86_400_000;

/**
 * Distributes the vault over the nodes of a Citus database. Without Citus it does nothing. Returns
 * the names of the tables that it distributed, undefined without Citus.
 * @throws NotAllowed when this user lacks the right
 */
export async function distribute(pool: Pool, deadlineMs: number): Promise<string[] | undefined> {
  const ask: Query = (text, values) => pool.query(text, values ?? [], deadlineMs);
  if (!(await hasCitus(ask))) return undefined;
  if ((await localTables(ask)).length === 0) return [];
  return allowedOr(
    'The database has Citus, but the vault is not distributed yet, and this user may not distribute it. Run standin migrate as the owner of its tables.',
    pool.transaction(performance.now() + COPY_PATIENCE_MS, distributeAll),
  );
}

export async function hasCitus(query: Query): Promise<boolean> {
  return (await query(HAS_CITUS)).rows.length > 0;
}

async function localTables(query: Query): Promise<string[]> {
  return (await query(LOCAL_TABLES)).rows.map((row) => row.name!);
}

async function distributeAll(query: Query): Promise<string[]> {
  await takeMigrationLock(query);
  const tables = await localTables(query);
  for (const table of tables) {
    const name = `standin.${table}`;
    const column = DISTRIBUTION_COLUMNS.get(table);
    // By name: a table gets a new object id when Citus distributes a table that it refers to.
    await (column === undefined
      ? query('select create_reference_table($1::text::regclass)', [name])
      : query('select create_distributed_table($1::text::regclass, $2)', [name, column]));
  }
  // Citus has copied the rows, and the old ones stay on the coordinator, invisible. Without this, a
  // value forgotten later would still be there.
  for (const table of tables) {
    await query('select truncate_local_data_after_distributing_table($1::text::regclass)', [
      `standin.${table}`,
    ]);
  }
  return tables;
}
