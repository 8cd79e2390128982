import type { KekSettings } from '../service/kek/source.ts';
import { keyStatus, retireKey, rewrapKeys, rotateKey } from '../service/keys/key-lifecycle.ts';
import { kekSourceOf, type Vault, type VaultOptions } from '../service/vault.ts';
import { type OutputOptions, print, table, time } from './output.ts';

/** Opening the vault has unwrapped every key already: what is listed here can be used. */
export async function keyringStatus(vault: Vault, options: OutputOptions): Promise<void> {
  const keys = await keyStatus(vault);
  const rows = keys.map((key) => [
    key.purpose,
    String(key.version),
    key.is_primary ? 'primary' : key.closed_at === null ? '' : 'closed',
    key.kek_id,
    time(key.created_at),
    key.records === null ? '' : `${key.is_estimate ? 'about ' : ''}${key.records}`,
  ]);
  const headings = ['KEY', 'VERSION', '', 'WRAPPED BY KEK', 'CREATED', 'RECORDS'];
  print(options, keys, table(headings, rows));
}

export async function keyringRotate(
  vault: Vault,
  vault_options: VaultOptions,
  options: OutputOptions,
): Promise<void> {
  const version = await rotateKey(vault.keys, kekSourceOf(vault_options));
  print(
    options,
    { version },
    `Version ${version} of the dek key is the primary: all nodes seal new records with it within 5 s.
Back up the database. Records of before stay as they are until: standin keyring reseal`,
  );
}

export async function keyringRetire(
  vault: Vault,
  version: number,
  options: OutputOptions,
): Promise<void> {
  await retireKey(vault.keys, version);
  print(
    options,
    { version },
    `Version ${version} of the dek key is gone. Records in backups of before need the keyring of that backup.`,
  );
}

export async function keyringRewrap(
  vault_options: VaultOptions,
  next: KekSettings,
  options: OutputOptions,
): Promise<void> {
  const { kek_id, keys } = await rewrapKeys(vault_options, next);
  print(
    options,
    { kek_id, keys },
    `${keys === 0 ? 'It is done already: all keys are' : `${keys} keys are now`} wrapped by the key-encryption key ${kek_id}. What is left to do:
1. Back the new key-encryption key up, and put it in the place of the old one on all nodes.
   Those that run go on with the keys that they have, but could not start again.
2. Run on each: standin doctor
3. Back up the database. Backups of before need the old key-encryption key: destroy it when you destroy them.`,
  );
}
