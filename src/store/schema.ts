import { readdirSync, readFileSync } from 'node:fs';
import { OperatorError, Unavailable } from '../errors.ts';
import { allowedOr } from './database-error.ts';
import type { Pool, Query } from './pool.ts';

const FOLDER = new URL('../../migrations/', import.meta.url);
const FILE_NAME = /^(\d{4})_[a-z0-9_]+\.sql$/;

export function readMigrations() {
  return readdirSync(FOLDER)
    .filter((name) => FILE_NAME.test(name))
    .sort()
    .map((name) => ({
      version: Number(name.slice(0, 4)),
      name,
      sql: readFileSync(new URL(name, FOLDER), 'utf8'),
    }));
}

/**
 * The statements of a file. Each ends with a semicolon at the end of a line, outside `$$`. They run
 * one at a time, because Citus refuses some of them together with others.
 */
export function statementsOf(sql: string): string[] {
  const statements = [''];
  for (const line of sql.split('\n')) {
    if (line.trimStart().startsWith('--')) continue;
    const statement = `${statements.pop()}${line}\n`;
    statements.push(statement);
    const isQuoted = statement.split('$$').length % 2 === 0;
    if (!isQuoted && line.trimEnd().endsWith(';')) statements.push('');
  }
  return statements.filter((statement) => statement.trim() !== '');
}

const AS_OWNER = "As the owner of the vault's tables, run: standin migrate --grant-to ROLE";
const NO_RIGHTS = `The user of DATABASE_URL has no rights on the vault in this database. ${AS_OWNER}`;
const NOT_NEWEST = `The schema of the vault does not match this program, and the user of DATABASE_URL may not change it. ${AS_OWNER}`;

/** Not to_regclass, which finds nothing in a schema that this user has no rights on. */
const MIGRATIONS = `select 1 from pg_class join pg_namespace on pg_namespace.oid = relnamespace
  where relname = 'migrations' and nspname = 'standin'`;

/** Version of the schema in the database; 0 before the first migration. */
export async function schemaVersion(pool: Pool, deadlineMs: number): Promise<number> {
  const query = pool.queryUntil(deadlineMs);
  return (await query(MIGRATIONS)).rows.length === 0 ? 0 : readVersion(query);
}

/**
 * Migrates the schema to the newest version of this program. Forward only, each file in its own
 * transaction. Returns the names of the applied files.
 * @throws OperatorError when the schema is newer than this program
 */
export async function migrate(
  pool: Pool,
  deadlineMs: number,
  migrations = readMigrations(),
): Promise<string[]> {
  const newest = migrations.at(-1)?.version ?? 0;
  const applied: string[] = [];
  let current = await allowedOr(NO_RIGHTS, schemaVersion(pool, deadlineMs));
  while (current < newest) {
    const step = pool.durably(deadlineMs, async (query) => {
      await takeMigrationLock(query);
      await makeSchema(query);
      const version = await readVersion(query);
      const next = migrations.find((migration) => migration.version > version);
      if (next === undefined) return version;
      for (const statement of statementsOf(next.sql)) await query(statement);
      const done = 'insert into standin.migrations (version, name) values ($1, $2)';
      await query(done, [next.version, next.name]);
      applied.push(next.name);
      return next.version;
    });
    current = await allowedOr(NOT_NEWEST, step);
  }
  requireKnown(current, newest);
  return applied;
}

/** @throws OperatorError when the schema is newer than this program */
export function requireKnown(version: number, newest: number): void {
  if (version <= newest) return;
  throw new OperatorError(
    `The database has schema version ${version}, but this program knows only versions up to ${newest}. Start a newer release; a schema cannot go back.`,
  );
}

/**
 * Makes the schema, or sees that nobody else did (docs/internals/threat-model.md). No `if not
 * exists`: what somebody makes meanwhile must not be taken over.
 */
async function makeSchema(query: Query): Promise<void> {
  // Not to_regnamespace: its cache may not know yet what the last holder of the lock has made.
  const { rows } = await query("select 1 from pg_namespace where nspname = 'standin'");
  if (rows.length === 0) await query('create schema standin');
  await requireOwner(query);
  await requireNothingForeign(query);
  if ((await query(MIGRATIONS)).rows.length === 0) {
    await query(
      'create table standin.migrations (version integer primary key, name text not null, applied_at timestamptz not null default now())',
    );
  }
}

/** @throws Unavailable when a failover has undone a migration */
export async function requireNewest(query: Query): Promise<void> {
  if ((await readVersion(query)) < readMigrations().at(-1)!.version)
    throw new Unavailable(new Error('the schema is old again'));
}

async function readVersion(query: Query): Promise<number> {
  const result = await query('select coalesce(max(version), 0) as version from standin.migrations');
  return Number(result.rows[0]!.version);
}

/** An arbitrary number, the same in all versions. Nodes that start at the same time take turns. */
const MIGRATION_LOCK = 7_382_159;

/** Begins a transaction that changes tables. Other migrations wait until it ends. */
async function takeMigrationLock(query: Query): Promise<void> {
  await query('select pg_advisory_xact_lock($1::bigint)', [MIGRATION_LOCK]);
  // Without this, Citus refuses to change a table with foreign keys after a table without, in one
  // transaction. A server without Citus ignores the setting.
  await query("set local citus.multi_shard_modify_mode = 'sequential'");
}

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
const DISTRIBUTION_COLUMNS = new Map([['records', 'token_fingerprint']]);

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
const COPY_TIMEOUT_MS = 86_400_000;

/**
 * Distributes the vault over the nodes of a Citus database. Without Citus it does nothing. Returns
 * the names of the tables that it distributed, undefined without Citus.
 * @throws NotAllowed when this user lacks the right
 */
export async function distribute(pool: Pool, deadlineMs: number): Promise<string[] | undefined> {
  const query = pool.queryUntil(deadlineMs);
  if (!(await hasCitus(query))) return undefined;
  if ((await localTables(query)).length === 0) return [];
  return allowedOr(
    'The database has Citus, but the vault is not distributed yet, and this user may not distribute it. Run standin migrate as the owner of its tables.',
    pool.transaction(performance.now() + COPY_TIMEOUT_MS, distributeAll),
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
  const truncate = 'select truncate_local_data_after_distributing_table($1::text::regclass)';
  for (const table of tables) await query(truncate, [`standin.${table}`]);
  return tables;
}

/**
 * The objects that a role could have put into the schema to have its code run by others, or to hide
 * rows from them. We make no trigger, rule, policy or function. Tables belong to the owner of the
 * schema, or to a superuser, which can do everything anyway. The triggers of foreign keys and of
 * Citus are internal. Functions of PostgreSQL itself have no entry in pg_depend.
 */
const FOREIGN = `with vault as (select oid, nspowner from pg_namespace where nspname = 'standin'),
    tables as (select pg_class.oid, relname, relowner from pg_class, vault
      where relnamespace = vault.oid and relkind in ('r', 'p', 'v', 'm', 'f', 'S'))
  select format('the table standin.%I of the role %I', relname, pg_get_userbyid(relowner)) as what
    from tables, vault, pg_roles where relowner <> nspowner and pg_roles.oid = relowner and not rolsuper
  union all
  select format('the trigger %I on standin.%I', tgname, relname)
    from pg_trigger join tables on tgrelid = tables.oid where not tgisinternal
  union all
  select format('the rule %I on standin.%I', rulename, relname)
    from pg_rewrite join tables on ev_class = tables.oid
  union all
  select format('the row security policy %I on standin.%I', polname, relname)
    from pg_policy join tables on polrelid = tables.oid
  union all
  select format('the function %s of the %s', refobjid::regproc, pg_describe_object(classid, objid, 0))
    from pg_depend where refclassid = 'pg_proc'::regclass and (classid, objid) in (
      select 'pg_attrdef'::regclass, pg_attrdef.oid from pg_attrdef join tables on adrelid = tables.oid
      union select 'pg_constraint'::regclass, pg_constraint.oid
        from pg_constraint join tables on conrelid = tables.oid
      union select 'pg_class'::regclass, indexrelid from pg_index join tables on indrelid = tables.oid)
  order by what`;

/**
 * The owners of the schema and its tables whom the user need not trust. A superuser is a member of
 * every role, so it must be the owner itself.
 */
const STRANGERS = `select distinct pg_get_userbyid(owner) as name
  from (select nspowner as owner from pg_namespace where nspname = 'standin'
    union select relowner from pg_class where relnamespace = to_regnamespace('standin')) as owners
  join pg_roles on pg_roles.oid = owner
  where not rolsuper and pg_roles.rolname <> current_user
    and ((select rolsuper from pg_roles where rolname = current_user)
      or not pg_has_role(owner, 'member'))
  order by name`;

/** @throws OperatorError when others have put something into the schema of the vault */
export async function requireNothingForeign(query: Query): Promise<void> {
  const found = (await query(FOREIGN)).rows.map((row) => row.what!);
  if (found.length === 0) return;
  throw new OperatorError(
    `The schema standin has something that Standin did not make: ${found.join(', ')}. It could run code as the users of this vault, or change what they read. Find out who made it, and drop it. If you trust the role of a table, make the owner of the schema its owner: alter table standin.NAME owner to ROLE`,
  );
}

/**
 * For whoever makes tables or keys.
 * @throws OperatorError when the schema or a table belongs to somebody else
 */
export async function requireOwner(query: Query): Promise<void> {
  const strangers = (await query(STRANGERS)).rows.map((row) => row.name!);
  if (strangers.length === 0) return;
  const names = strangers.join(', ');
  throw new OperatorError(
    `The schema standin or a table in it belongs to ${names}, who could change this vault. If this vault is theirs, run standin migrate as that role. If not, somebody made the schema before you: drop it, or use another database.`,
  );
}
