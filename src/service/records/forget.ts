import { RemovalStore, type TokenState } from '../../store/removal.ts';
import { commandDeadline } from '../../timeouts.ts';
import type { Token } from '../../types.ts';
import type { Vault } from '../vault.ts';

export type { TokenState };

/** Removes the values behind tokens, for as many of them as anybody has. */
export class Forgetting {
  readonly #vault: Vault;
  readonly #removals: RemovalStore;

  constructor(vault: Vault) {
    this.#vault = vault;
    this.#removals = new RemovalStore(vault.pool);
  }

  /**
   * What was there of each token, in order; the known ones are forgotten on all nodes when it
   * resolves.
   * @throws InternalError database_unavailable: some may be forgotten; it can be called again
   */
  forget(tokens: readonly Token[]): Promise<TokenState[]> {
    return this.#removals.forget(this.#fingerprints(tokens), commandDeadline());
  }

  /** What is there of each token, in order. @throws as forget */
  look(tokens: readonly Token[]): Promise<TokenState[]> {
    return this.#removals.look(this.#fingerprints(tokens), commandDeadline());
  }

  #fingerprints(tokens: readonly Token[]) {
    return tokens.map((token) => this.#vault.keyring.tokenFingerprint(token));
  }
}
