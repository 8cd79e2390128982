import { Keyring } from '../crypto/keyring.ts';
import { openedTwice } from '../embedded/owner.ts';
import { OperatorError } from '../errors.ts';
import { isNamed, kekSourceOf, readAhead } from '../kek/kek-source.ts';
import type { VaultOptions } from '../options.ts';
import { ApiKeyStore } from '../store/api-keys.ts';
import { ClientStore } from '../store/clients.ts';
import { PolicyStore } from '../store/policies.ts';
import type { Pool } from '../store/pool.ts';
import { Timeline } from '../store/primary.ts';
import { grantRights, type RolePurpose } from '../store/rights.ts';
import { distribute, migrate, requireNewest, requireNothingForeign } from '../store/schema.ts';
import { type ServerFacts, serverFacts } from '../store/server.ts';
import { WrappedKeyStore } from '../store/wrapped-keys.ts';
import { commandDeadline, MIGRATION_TIMEOUT_MS, OPENING_TIMEOUT_MS } from '../timeouts.ts';
import type { Durable } from '../types.ts';
import { type OpenedKey, openKeys } from './open-keys.ts';
import { HEALTH_CONNECTIONS, KEYS_CONNECTIONS, openPool } from './pools.ts';

export type SchemaChanges = Awaited<ReturnType<typeof bringUp>>;

/** A role of the database, and whom it is for. */
export interface GrantedRole {
  readonly role: string;
  readonly purpose: RolePurpose;
}

/** The tables of a vault, over these connections. */
export function tablesOver(pool: Pool) {
  return {
    pool,
    wrappedKeys: new WrappedKeyStore(pool),
    clients: new ClientStore(pool),
    apiKeys: new ApiKeyStore(pool),
    policies: new PolicyStore(pool),
  };
}

/** Its pool is for commands and housekeeping. */
export interface Vault extends Readonly<ReturnType<typeof tablesOver>> {
  readonly options: VaultOptions;
  /** Connections that housekeeping never uses. */
  readonly vital: {
    /** For /health only, which reads no table. */
    readonly health: Pool;
    /** For API keys, the keyring and checks of server settings. */
    readonly keys: Pool;
  };
  readonly timeline: Timeline;
  readonly keyring: Keyring;
  /** For the vault threads, which have keyrings of their own. */
  readonly plainKeys: readonly OpenedKey[];
  readonly schemaChanges: SchemaChanges;
  close(): Promise<void>;
}

const OLDEST_POSTGRES = 140_000;

/**
 * Connects, checks the server, migrates and loads the keys.
 * @throws OperatorError that says what to do
 */
export async function openVault(options: VaultOptions): Promise<Vault> {
  // Read the KEK before any write, so that a bad source stops the start at once.
  const made = kekSourceOf(options);
  const source = isNamed(options.kek) ? await readAhead(made) : made;
  const timeline = new Timeline();
  const pool = openPool(options, undefined, timeline);
  try {
    const timeoutMs = options.databaseUrl === undefined ? OPENING_TIMEOUT_MS : undefined;
    const byMs = commandDeadline(timeoutMs);
    const problems = serverProblems(await serverFacts(pool, byMs), options);
    if (problems.length > 0) throw new OperatorError(...problems);
    const schemaChanges = await bringUp(pool);
    const tables = tablesOver(pool);
    const { token_suffix: suffix } = options;
    const plainKeys = await openKeys(tables.wrappedKeys, source, suffix, commandDeadline());
    const vital = {
      health: openPool(options, HEALTH_CONNECTIONS, timeline),
      keys: openPool(options, KEYS_CONNECTIONS, timeline),
    };
    const close = async () => {
      await Promise.all([pool.end(), vital.health.end(), vital.keys.end()]);
    };
    const keyring = new Keyring(plainKeys);
    return { options, ...tables, vital, timeline, keyring, plainKeys, schemaChanges, close };
  } catch (error) {
    await pool.end();
    throw error;
  }
}

/**
 * Migrates the schema and, if asked, grants rights.
 * @param roles get the rights for their purposes and no others
 * @throws OperatorError when a role cannot be limited to these rights
 */
export async function migrateVault(options: VaultOptions, roles: readonly GrantedRole[] = []) {
  const pool = openPool(options);
  try {
    const changes = await bringUp(pool);
    const grants: string[] = [];
    for (const { role, purpose } of roles)
      grants.push(...(await grantRights(pool, role, purpose, commandDeadline())));
    return await pool.durably(commandDeadline(), async (query) => {
      await requireNewest(query);
      return { ...changes, grants };
    });
  } finally {
    await pool.end();
  }
}

/**
 * Returns the names of the applied migrations, and of the tables distributed over Citus nodes;
 * undefined without Citus.
 */
async function bringUp(pool: Pool) {
  const applied = await migrate(pool, commandDeadline(MIGRATION_TIMEOUT_MS));
  await requireNothingForeign(pool.queryUntil(commandDeadline()));
  return { applied, distributed: await distribute(pool, commandDeadline()) };
}

/**
 * The result of several transactions that were each durable. Waits once more, for what they have in
 * common.
 */
export async function confirmDurable<T>({ pool }: Vault, result: T): Promise<Durable<T>> {
  return pool.durably(commandDeadline(), async () => result);
}

/** A loss that no record can reveal; undefined: none is known. */
export function lossOf({ databaseUrl, dataDir }: VaultOptions): string | undefined {
  return databaseUrl === undefined ? openedTwice(dataDir) : undefined;
}

/**
 * Why a server is unfit for a vault. The embedded database is exempt: it promises no durability.
 */
export function serverProblems(facts: ServerFacts, options: VaultOptions): string[] {
  if (options.databaseUrl === undefined) return [];
  const problems: string[] = [];
  if (facts.version_number < OLDEST_POSTGRES) {
    problems.push(`PostgreSQL is ${facts.version}; Standin needs 14 or newer. Upgrade the server.`);
  }
  const unsafe = options.allowUnsafePostgres ? [] : facts.unsafeSettings;
  for (const setting of unsafe)
    problems.push(
      `PostgreSQL runs with ${setting}: a crash can lose acknowledged tokens for ever. Turn it on, or set ALLOW_UNSAFE_POSTGRES=true to accept the loss.`,
    );
  return problems;
}

const ADMIN_CONNECTIONS = 2;

/**
 * The vault of the process, over connections of another role, which connect when it is used.
 * @param url undefined: the connections of the process
 * @returns `open` throws OperatorError when the URL leads to another vault
 */
export function adminVault(vault: Vault, options: VaultOptions, url: string | undefined) {
  if (url === undefined) return { open: async () => vault, close: async () => {} };
  const pool = openPool({ ...options, databaseUrl: url }, ADMIN_CONNECTIONS, vault.timeline);
  const other: Vault = { ...vault, ...tablesOver(pool) };
  let isSame: Promise<void> | undefined;
  const open = async () => {
    isSame ??= requireSame(vault, other).catch((error) => {
      isSame = undefined;
      throw error;
    });
    await isSame;
    return other;
  };
  return { open, close: () => pool.end() };
}

/** Only the vault itself has the same wrapped keys. */
async function requireSame(one: Vault, other: Vault): Promise<void> {
  const keysOf = async ({ wrappedKeys }: Vault) => await wrappedKeys.list(commandDeadline());
  const [keys, others] = [await keysOf(one), await keysOf(other)];
  if (keys.some((key) => others.some(({ wrapped }) => wrapped.equals(key.wrapped)))) return;
  throw new OperatorError(
    'ADMIN_DATABASE_URL leads to another vault than DATABASE_URL: set both to the same database.',
  );
}
