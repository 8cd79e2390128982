import { OperatorError } from '../errors.ts';
import type { VaultOptions } from '../options.ts';
import { ApiKeyStore, ApiKeyUseStore } from '../store/api-keys.ts';
import { ClientStore } from '../store/clients.ts';
import { PolicyStore } from '../store/policies.ts';
import type { Pool } from '../store/pool.ts';
import { WrappedKeyStore } from '../store/wrapped-keys.ts';
import { commandDeadline } from '../timeouts.ts';
import { openPool } from './pools.ts';
import type { Vault } from './vault.ts';

const ADMIN_CONNECTIONS = 2;

/** The vault of the process, over connections of another role, which connect when it is used. */
export class AdminVault {
  readonly #vault: Vault;
  readonly #other: Vault | undefined;
  #isSame: Promise<void> | undefined;

  /** @param url undefined: the connections of the process */
  constructor(vault: Vault, options: VaultOptions, url: string | undefined) {
    this.#vault = vault;
    if (url === undefined) return;
    const pool = openPool({ ...options, databaseUrl: url }, ADMIN_CONNECTIONS, vault.timeline);
    this.#other = vaultOver(vault, pool);
  }

  /**
   * Opens the vault.
   * @throws OperatorError when the URL leads to another vault
   */
  readonly open = async (): Promise<Vault> => {
    if (this.#other === undefined) return this.#vault;
    this.#isSame ??= demandSame(this.#vault, this.#other).catch((error) => {
      this.#isSame = undefined;
      throw error;
    });
    await this.#isSame;
    return this.#other;
  };

  async close(): Promise<void> {
    await this.#other?.pool.end();
  }
}

function vaultOver(vault: Vault, pool: Pool): Vault {
  return {
    ...vault,
    pool,
    wrappedKeys: new WrappedKeyStore(pool),
    clients: new ClientStore(pool),
    apiKeys: new ApiKeyStore(pool),
    apiKeyUses: new ApiKeyUseStore(pool),
    policies: new PolicyStore(pool),
  };
}

/** Only the vault itself has the same wrapped keys. */
async function demandSame(one: Vault, other: Vault): Promise<void> {
  const deadlineMs = commandDeadline();
  const [keys, others] = await Promise.all(
    [one, other].map(({ wrappedKeys }) => wrappedKeys.list(deadlineMs)),
  );
  const wrapped = new Set(others!.map((key) => key.wrapped.toString('base64')));
  if (keys!.some((key) => wrapped.has(key.wrapped.toString('base64')))) return;
  throw new OperatorError(
    'ADMIN_DATABASE_URL leads to another vault than DATABASE_URL: set both to the same database.',
  );
}
