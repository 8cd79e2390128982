import { commandDeadline, type Vault } from '../service/vault.ts';
import { type OutputOptions, print, table, time } from './output.ts';

/** Opening the vault has unwrapped every key already: what is listed here can be used. */
export async function keyringStatus(vault: Vault, options: OutputOptions): Promise<void> {
  const keys = (await vault.keys.list(commandDeadline())).map(
    ({ purpose, version, kek_id, created_at }) => ({
      purpose,
      version,
      is_primary: purpose !== 'dek' || version === vault.keyring.primary_version,
      kek_id,
      created_at,
    }),
  );
  const rows = keys.map((key) => [
    key.purpose,
    String(key.version),
    key.is_primary ? 'primary' : '',
    key.kek_id,
    time(key.created_at),
  ]);
  print(options, keys, table(['KEY', 'VERSION', '', 'WRAPPED BY KEK', 'CREATED'], rows));
}
