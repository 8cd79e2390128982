import { readdirSync, readFileSync } from 'node:fs';
import { OperatorError } from '../errors.ts';
import type { Pool, Query } from './pool.ts';

const FOLDER = new URL('../../migrations/', import.meta.url);
const FILE_NAME = /^(\d{4})_[a-z0-9_]+\.sql$/;

export interface Migration {
  readonly version: number;
  readonly name: string;
  readonly sql: string;
}

export function readMigrations(): Migration[] {
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

/** Version of the schema in the database; 0 before the first migration. */
export async function schemaVersion(pool: Pool, deadlineMs: number): Promise<number> {
  const found = await pool.query(
    "select to_regclass('standin.migrations') as name",
    [],
    deadlineMs,
  );
  if (found.rows[0]?.name === null) return 0;
  return readVersion((text, values) => pool.query(text, values ?? [], deadlineMs));
}

/**
 * Migrates the schema to the newest version of this program. Forward only, each file in its own
 * transaction. Returns the names of the applied files.
 * @throws OperatorError when the schema is newer than this program
 */
export async function migrate(
  pool: Pool,
  deadlineMs: number,
  migrations: readonly Migration[] = readMigrations(),
): Promise<string[]> {
  const newest = migrations.at(-1)?.version ?? 0;
  const applied: string[] = [];
  let current = await schemaVersion(pool, deadlineMs);
  while (current < newest) {
    current = await pool.transaction(deadlineMs, async (query) => {
      await takeMigrationLock(query);
      await query('create schema if not exists standin');
      await query(
        'create table if not exists standin.migrations (version integer primary key, name text not null, applied_at timestamptz not null default now())',
      );
      const version = await readVersion(query);
      const next = migrations.find((migration) => migration.version > version);
      if (next === undefined) return version;
      for (const statement of statementsOf(next.sql)) await query(statement);
      await query('insert into standin.migrations (version, name) values ($1, $2)', [
        next.version,
        next.name,
      ]);
      applied.push(next.name);
      return next.version;
    });
  }
  if (current > newest) {
    throw new OperatorError(
      `The database has schema version ${current}, but this program knows only versions up to ${newest}. Start a newer release; a schema cannot go back.`,
    );
  }
  return applied;
}

async function readVersion(query: Query): Promise<number> {
  const result = await query('select coalesce(max(version), 0) as version from standin.migrations');
  return Number(result.rows[0]!.version);
}

/** An arbitrary number, the same in all versions. Nodes that start at the same time take turns. */
const MIGRATION_LOCK = 7_382_159;

/** Begins a transaction that changes tables. Other migrations wait until it ends. */
export async function takeMigrationLock(query: Query): Promise<void> {
  await query('select pg_advisory_xact_lock($1::bigint)', [MIGRATION_LOCK]);
  // Without this, Citus refuses to change a table with foreign keys after a table without, in one
  // transaction. A server without Citus ignores the setting.
  await query("set local citus.multi_shard_modify_mode = 'sequential'");
}
