import type { Command } from 'commander';
import { OperatorError } from '../errors.ts';
import type { VaultOptions } from '../options.ts';
import type { SchemaChanges } from '../service/vault.ts';
import { command, config, type OutputOptions, print } from './command.ts';

export function addMigrate(program: Command): void {
  command(program, 'migrate', 'Bring the schema of the vault up to date, without serving.', [
    'standin migrate',
    'standin migrate --grant-to standin_app',
  ])
    .option(
      '--grant-to <role>',
      'also give a database role the rights of the service, and no other',
    )
    .action((options) => bringUp(config().vault, options));
}

/** For deployments where the service has no right to change tables. */
async function bringUp(
  vault: VaultOptions,
  options: OutputOptions & { readonly grantTo?: string },
): Promise<void> {
  const role = options.grantTo;
  if (role !== undefined && vault.databaseUrl === undefined) {
    throw new OperatorError(
      '--grant-to is for a PostgreSQL server, but DATABASE_URL is not set: the embedded database has one user.',
    );
  }
  // Imported here, so that help does not wait for the driver of the database.
  const { migrateVault } = await import('../service/vault.ts');
  const { grants, ...changes } = await migrateVault(vault, role);
  if (role === undefined) return print(options, changes, sentences(changes));
  const granted = `${role} may do what the service does, and nothing else:\n\n${grants.join(';\n')};`;
  print(options, { ...changes, grants }, `${sentences(changes)}\n${granted}`);
}

function sentences({ applied, distributed = [] }: SchemaChanges): string {
  const schema =
    applied.length === 0 ? 'The schema is up to date.' : `Applied ${applied.join(', ')}.`;
  return distributed.length === 0
    ? schema
    : `${schema} Distributed over the nodes of Citus: ${distributed.join(', ')}.`;
}
