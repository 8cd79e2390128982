import { RemovalStore, type TokenState } from '../../store/removal.ts';
import { commandDeadline } from '../../timeouts.ts';
import type { Token } from '../../types.ts';
import type { Vault } from '../vault.ts';

export type { TokenState };

/**
 * Removes the values behind tokens. What was there of each token, in order; the known ones are
 * forgotten on all nodes when it resolves.
 * @throws InternalError database_unavailable: some may be forgotten; it can be called again
 */
export function forgetTokens(vault: Vault, tokens: readonly Token[]): Promise<TokenState[]> {
  return new RemovalStore(vault.pool).forget(fingerprints(vault, tokens), commandDeadline());
}

/** What is there of each token, in order. @throws as forgetTokens */
export function tokenStates(vault: Vault, tokens: readonly Token[]): Promise<TokenState[]> {
  return new RemovalStore(vault.pool).look(fingerprints(vault, tokens), commandDeadline());
}

function fingerprints({ keyring }: Vault, tokens: readonly Token[]) {
  return tokens.map((token) => keyring.tokenFingerprint(token));
}
