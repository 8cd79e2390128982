import { type Kek, kekOf } from '../crypto/kek.ts';
import type { PlainKey } from '../crypto/keyring.ts';
import { newKeyBytes } from '../crypto/primitives.ts';
import { OperatorError } from '../errors.ts';
import type { KekSource } from '../kek/source.ts';
import { allowedOr } from '../store/database-error.ts';
import type { NewKey, WrappedKeyStore } from '../store/wrapped-keys.ts';
import { KEY_PURPOSES, type KeyPurpose, type WrappedKey } from '../types.ts';

/** An unwrapped key, and the wrapped bytes of its row. */
export interface OpenedKey extends PlainKey {
  readonly wrapped: Buffer;
}

/** The unwrapped keys of the vault. Creates the vault when none exists. */
export async function openKeys(
  store: WrappedKeyStore,
  source: KekSource,
  tokenSuffix: string,
  deadlineMs: number,
): Promise<OpenedKey[]> {
  let keys = await store.list(deadlineMs);
  if (keys.length === 0) await source.create?.();
  const kek = kekOf(await source.read());
  if (keys.length === 0) {
    const fresh = KEY_PURPOSES.map((purpose) => wrap(kek, purpose, 1, newKeyBytes()));
    keys = await allowedOr(
      "The vault has no keys yet, and the user of DATABASE_URL may not create them. As the owner of the vault's tables, run: standin client create --name NAME",
      store.create(fresh, tokenSuffix, deadlineMs),
    );
  }
  const plainKeys = unwrap(keys, kek, source);
  await checkSuffix(store, tokenSuffix, deadlineMs);
  return plainKeys;
}

export function wrap(kek: Kek, purpose: KeyPurpose, version: number, bytes: Buffer): NewKey {
  return { purpose, version, kek_id: kek.id, wrapped: kek.wrap(purpose, version, bytes) };
}

/** @throws OperatorError when a different KEK wrapped the keys, or a row was changed */
export function unwrap(keys: readonly WrappedKey[], kek: Kek, source: KekSource): OpenedKey[] {
  return keys.map(({ id, purpose, version, kek_id: kekId, wrapped }) => {
    if (kekId !== kek.id) {
      throw new OperatorError(
        `The key-encryption key in ${source.place} (${kek.id}) is not the one of this vault (${kekId}). Set ${source.setting} to the right key. Nothing was changed.`,
      );
    }
    const bytes = kek.unwrap(purpose, version, wrapped);
    if (bytes === undefined) {
      throw new OperatorError(
        `The ${purpose} key, version ${version}, does not unwrap with the key-encryption key in ${source.place} (${kekId}), which its row in standin.keyring names. Compare the row with your backup, and restore it if it differs.`,
      );
    }
    return { id, purpose, version, bytes, wrapped };
  });
}

export async function checkSuffix(
  store: WrappedKeyStore,
  tokenSuffix: string,
  deadlineMs: number,
): Promise<void> {
  const fixed = await store.tokenSuffix(deadlineMs);
  if (fixed !== tokenSuffix) {
    throw new OperatorError(
      `TOKEN_SUFFIX is "${tokenSuffix}", but the tokens of this vault end in "_${fixed}": the suffix is fixed when the vault is made. Set TOKEN_SUFFIX=${fixed}.`,
    );
  }
}

/** The highest DEK version, which seals new records. */
export function primaryVersionOf(keys: readonly Pick<WrappedKey, 'purpose' | 'version'>[]): number {
  return Math.max(...keys.filter(({ purpose }) => purpose === 'dek').map((key) => key.version));
}
