import { RemovalStore, type TokenState } from '../../store/removal.ts';
import { commandDeadline } from '../../timeouts.ts';
import type { Token } from '../../types.ts';
import type { Vault } from '../vault.ts';

export type { TokenState };

/**
 * Removes the values behind tokens, and returns the earlier state of each token, in order. When it
 * resolves, all nodes have forgotten the known tokens.
 * @throws InternalError database_unavailable: some tokens may be forgotten; call it again
 */
export function forgetTokens(vault: Vault, tokens: readonly Token[]): Promise<TokenState[]> {
  return new RemovalStore(vault.pool).forget(fingerprints(vault, tokens), commandDeadline());
}

/**
 * Returns the state of each token, in order.
 * @throws as forgetTokens
 */
export function tokenStates(vault: Vault, tokens: readonly Token[]): Promise<TokenState[]> {
  return new RemovalStore(vault.pool).look(fingerprints(vault, tokens), commandDeadline());
}

function fingerprints({ keyring }: Vault, tokens: readonly Token[]) {
  return tokens.map((token) => keyring.tokenFingerprint(token));
}
