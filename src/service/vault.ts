import { Keyring, type PlainKey } from '../crypto/keyring.ts';
import { OperatorError } from '../errors.ts';
import type { VaultOptions } from '../options.ts';
import { ApiKeyUseStore } from '../store/api-key-uses.ts';
import { ApiKeyStore } from '../store/api-keys.ts';
import { ClientStore } from '../store/clients.ts';
import { allowedOr } from '../store/database-error.ts';
import { distribute } from '../store/distribute.ts';
import { openedTwice } from '../store/embedded-owner.ts';
import { KeyringStore } from '../store/keyring.ts';
import { migrate } from '../store/migrate.ts';
import type { Pool } from '../store/pool.ts';
import { grantService } from '../store/rights.ts';
import { type ServerFacts, serverFacts } from '../store/server.ts';
import { Timeline } from '../store/timeline.ts';
import { commandDeadline, migrationDeadline } from '../timeouts.ts';
import { isNamed, kekSourceOf, readAhead } from './kek/source.ts';
import { openKeys } from './keys/open-keys.ts';
import {
  HEALTH_CONNECTIONS,
  HOUSEKEEPING_CONNECTIONS,
  KEYS_CONNECTIONS,
  openPool,
  type VitalPools,
} from './pools.ts';

export interface SchemaChanges {
  /** Names of the migrations that were applied. */
  readonly applied: readonly string[];
  /** Names of the tables that were spread over the nodes of Citus; undefined without it. */
  readonly distributed: readonly string[] | undefined;
}

export interface Vault {
  /** For commands, and for the housekeeping of a service. */
  readonly pool: Pool;
  /** Connections that no housekeeping holds. */
  readonly vital: VitalPools;
  readonly timeline: Timeline;
  readonly keyring: Keyring;
  readonly clients: ClientStore;
  readonly api_keys: ApiKeyStore;
  readonly api_key_uses: ApiKeyUseStore;
  readonly keyringStore: KeyringStore;
  /** For the vault thread, which has a keyring of its own. */
  readonly plainKeys: readonly PlainKey[];
  readonly schemaChanges: SchemaChanges;
  close(): Promise<void>;
}

const OLDEST_POSTGRES = 140_000;

/**
 * Connects, checks the server, migrates, loads the keys. @throws OperatorError with what to do
 * about it
 */
export async function openVault(options: VaultOptions): Promise<Vault> {
  // Read before anything is written, so that a bad source stops the start at once.
  const made = kekSourceOf(options);
  const source = isNamed(options.kek) ? await readAhead(made) : made;
  const timeline = new Timeline();
  const pool = openPool(options, HOUSEKEEPING_CONNECTIONS, timeline);
  try {
    const problems = serverProblems(await serverFacts(pool, commandDeadline()), options);
    if (problems.length > 0) throw new OperatorError(...problems);
    const schemaChanges = await bringUp(pool);
    const keys = new KeyringStore(pool);
    const { token_suffix: tokenSuffix } = options;
    const plainKeys = await openKeys(keys, source, tokenSuffix, commandDeadline());
    return vaultOn(options, pool, timeline, plainKeys, schemaChanges);
  } catch (error) {
    await pool.end();
    throw error;
  }
}

function vaultOn(
  options: VaultOptions,
  pool: Pool,
  timeline: Timeline,
  plainKeys: readonly PlainKey[],
  schemaChanges: SchemaChanges,
): Vault {
  const vital = {
    health: openPool(options, HEALTH_CONNECTIONS, timeline),
    keys: openPool(options, KEYS_CONNECTIONS, timeline),
  };
  return {
    pool,
    vital,
    timeline,
    keyring: new Keyring(plainKeys),
    plainKeys,
    keyringStore: new KeyringStore(pool),
    clients: new ClientStore(pool),
    api_keys: new ApiKeyStore(pool),
    api_key_uses: new ApiKeyUseStore(pool),
    schemaChanges,
    async close() {
      await Promise.all([pool.end(), vital.health.end(), vital.keys.end()]);
    },
  };
}

/**
 * Brings the schema up, and nothing else but what a role may do.
 * @param role gets the rights of the service, and no other; undefined: no rights are changed
 * @throws OperatorError when the role is none that rights can be kept from
 */
export async function migrateVault(
  options: VaultOptions,
  role?: string,
): Promise<SchemaChanges & { readonly grants: readonly string[] }> {
  const pool = openPool(options);
  try {
    const changes = await bringUp(pool);
    const grants = role === undefined ? [] : await grantService(pool, role, commandDeadline());
    return { ...changes, grants };
  } finally {
    await pool.end();
  }
}

async function bringUp(pool: Pool): Promise<SchemaChanges> {
  const applied = await allowedOr(
    "The schema of the vault is not that of this program, and the user of DATABASE_URL may not change it. As the owner of the vault's tables run: standin migrate --grant-to ROLE",
    migrate(pool, migrationDeadline()),
  );
  return { applied, distributed: await distribute(pool, commandDeadline()) };
}

/** What may have been lost where no record can tell. */
export function lossOf({ databaseUrl, dataDir }: VaultOptions): string | undefined {
  return databaseUrl === undefined ? openedTwice(dataDir) : undefined;
}

/**
 * Why a server is not one to keep a vault on; the embedded one makes no such promise and is not
 * asked.
 */
export function serverProblems(facts: ServerFacts, options: VaultOptions): string[] {
  if (options.databaseUrl === undefined) return [];
  const problems: string[] = [];
  if (facts.version_number < OLDEST_POSTGRES) {
    problems.push(`PostgreSQL is ${facts.version}; Standin needs 14 or newer. Upgrade the server.`);
  }
  if (!options.allowUnsafePostgres) {
    for (const setting of facts.unsafeSettings) {
      problems.push(
        `PostgreSQL runs with ${setting}: a crash can lose acknowledged tokens for ever. Turn it on, or set ALLOW_UNSAFE_POSTGRES=true to accept the loss.`,
      );
    }
  }
  return problems;
}
