import { OperatorError } from '../errors.ts';
import type { VaultOptions } from '../options.ts';
import { commandDeadline } from '../timeouts.ts';
import { openPool } from './pools.ts';
import { tablesOver, type Vault } from './vault.ts';

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
    this.#other = { ...vault, ...tablesOver(pool) };
  }

  /**
   * Opens the vault.
   * @throws OperatorError when the URL leads to another vault
   */
  readonly open = async (): Promise<Vault> => {
    if (this.#other === undefined) return this.#vault;
    this.#isSame ??= requireSame(this.#vault, this.#other).catch((error) => {
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

/** Only the vault itself has the same wrapped keys. */
async function requireSame(one: Vault, other: Vault): Promise<void> {
  const keysOf = async ({ wrappedKeys }: Vault) => await wrappedKeys.list(commandDeadline());
  const [keys, others] = [await keysOf(one), await keysOf(other)];
  if (keys.some((key) => others.some(({ wrapped }) => wrapped.equals(key.wrapped)))) return;
  throw new OperatorError(
    'ADMIN_DATABASE_URL leads to another vault than DATABASE_URL: set both to the same database.',
  );
}
