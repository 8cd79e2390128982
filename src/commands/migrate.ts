import { migrateVault, type VaultOptions } from '../service/vault.ts';
import { type OutputOptions, print } from './output.ts';

/** For deployments in which the service itself may not change tables. */
export async function migrateCommand(vault: VaultOptions, options: OutputOptions): Promise<void> {
  const applied = await migrateVault(vault);
  print(
    options,
    { applied },
    applied.length === 0 ? 'The schema is up to date.' : `Applied ${applied.join(', ')}.`,
  );
}
