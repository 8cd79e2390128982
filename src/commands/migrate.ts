import { migrateVault, type SchemaChanges, type VaultOptions } from '../service/vault.ts';
import { type OutputOptions, print } from './output.ts';

/** For deployments in which the service itself may not change tables. */
export async function migrateCommand(vault: VaultOptions, options: OutputOptions): Promise<void> {
  const changes = await migrateVault(vault);
  print(options, changes, sentences(changes));
}

function sentences({ applied, distributed = [] }: SchemaChanges): string {
  const schema =
    applied.length === 0 ? 'The schema is up to date.' : `Applied ${applied.join(', ')}.`;
  return distributed.length === 0
    ? schema
    : `${schema} Distributed over the nodes of Citus: ${distributed.join(', ')}.`;
}
