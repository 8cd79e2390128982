import { join } from 'node:path';
import { Keyring, type PlainKey } from '../crypto/keyring.ts';
import { OperatorError } from '../errors.ts';
import { ApiKeyStore } from '../store/api-keys.ts';
import { ClientStore } from '../store/clients.ts';
import { EmbeddedDatabase } from '../store/embedded.ts';
import { KeyringStore } from '../store/keyring.ts';
import { migrate } from '../store/migrate.ts';
import { Pool } from '../store/pool.ts';
import { type ServerFacts, serverFacts } from '../store/server.ts';
import { type KekSource, kekFile } from './kek-file.ts';
import { openKeys } from './keyring.ts';

export interface VaultOptions {
  /** undefined: the embedded database in data_dir. */
  readonly database_url: string | undefined;
  readonly database_connections: number;
  readonly data_dir: string;
  /** undefined: `kek` in data_dir, made with the vault. */
  readonly kek_file: string | undefined;
  readonly token_suffix: string;
  readonly allow_unsafe_postgres: boolean;
}

export interface Vault {
  readonly pool: Pool;
  readonly keyring: Keyring;
  readonly clients: ClientStore;
  readonly api_keys: ApiKeyStore;
  readonly keys: KeyringStore;
  /** For the vault thread, which has a keyring of its own. */
  readonly plain_keys: readonly PlainKey[];
  readonly applied_migrations: readonly string[];
  close(): Promise<void>;
}

/** Statements of requests: with the connect time-out, every answer comes within 5 s. */
export const REQUEST_PATIENCE_MS = 4_000;
/** Statements of commands and of the start. */
export const COMMAND_PATIENCE_MS = 30_000;
/** One that rewrites a large table, or waits for the node that does. */
const MIGRATION_PATIENCE_MS = 3_600_000;
/**
 * Of the connections of a process, those for health, API keys and metrics; the vault thread has the
 * others.
 */
export const CONTROL_CONNECTIONS = 3;
const OLDEST_POSTGRES = 140_000;

export function commandDeadline(): number {
  return performance.now() + COMMAND_PATIENCE_MS;
}

function migrationDeadline(): number {
  return performance.now() + MIGRATION_PATIENCE_MS;
}

export function openPool(options: VaultOptions, connections = CONTROL_CONNECTIONS): Pool {
  const { database_url: url, data_dir } = options;
  if (url !== undefined) return new Pool({ connections, locate: async () => ({ url }) });
  const embedded = new EmbeddedDatabase(data_dir);
  return new Pool({ connections, locate: () => embedded.locate() });
}

export function kekSource(options: VaultOptions): KekSource {
  return options.kek_file === undefined
    ? kekFile(join(options.data_dir, 'kek'), options.database_url === undefined)
    : kekFile(options.kek_file, false);
}

/**
 * Connects, checks the server, migrates, loads the keys. @throws OperatorError with what to do
 * about it
 */
export async function openVault(options: VaultOptions): Promise<Vault> {
  // Read before anything is written, so that a bad file stops the start at once.
  if (options.kek_file !== undefined) kekSource(options).read();
  const pool = openPool(options);
  try {
    const problems = serverProblems(await serverFacts(pool, commandDeadline()), options);
    if (problems.length > 0) throw new OperatorError(...problems);
    const applied_migrations = await migrate(pool, migrationDeadline());
    const keys = new KeyringStore(pool);
    const { token_suffix } = options;
    const plain_keys = await openKeys(keys, kekSource(options), token_suffix, commandDeadline());
    return {
      pool,
      keyring: new Keyring(plain_keys),
      plain_keys,
      keys,
      clients: new ClientStore(pool),
      api_keys: new ApiKeyStore(pool),
      applied_migrations,
      close: () => pool.end(),
    };
  } catch (error) {
    await pool.end();
    throw error;
  }
}

/** Brings the schema up, and nothing else. Returns the names of the files it applied. */
export async function migrateVault(options: VaultOptions): Promise<string[]> {
  const pool = openPool(options);
  try {
    return await migrate(pool, migrationDeadline());
  } finally {
    await pool.end();
  }
}

/**
 * Why a server is not one to keep a vault on; the embedded one makes no such promise and is not
 * asked.
 */
export function serverProblems(facts: ServerFacts, options: VaultOptions): string[] {
  if (options.database_url === undefined) return [];
  const problems: string[] = [];
  if (facts.version_number < OLDEST_POSTGRES) {
    problems.push(`PostgreSQL is ${facts.version}; Standin needs 14 or newer. Upgrade the server.`);
  }
  if (facts.is_standby) {
    problems.push(
      'DATABASE_URL leads to a standby, which takes no writes. Point it at the primary.',
    );
  }
  if (!options.allow_unsafe_postgres) {
    for (const name of facts.unsafe_settings) {
      problems.push(
        `PostgreSQL runs with ${name}=off: a crash can lose acknowledged tokens for ever. Turn it on, or set ALLOW_UNSAFE_POSTGRES=true to accept the loss.`,
      );
    }
  }
  return problems;
}
