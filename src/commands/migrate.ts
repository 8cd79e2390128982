import type { Command } from 'commander';
import { OperatorError } from '../errors.ts';
import type { VaultOptions } from '../options.ts';
import type { Durable } from '../types.ts';
import type { GrantedRole, SchemaChanges } from '../vault/vault.ts';
import { acting, command, config, type OutputOptions, printDone } from './command.ts';

export function addMigrate(program: Command): void {
  command(program, 'migrate', 'Bring the schema of the vault up to date, without serving.', [
    'standin migrate',
    'standin migrate --grant-to standin_app',
  ])
    .option(
      '--grant-to <role>',
      'also give a database role the rights of the service, and no other',
    )
    .option(
      '--grant-admin-to <role>',
      'also give a database role the rights of the admin API, for ADMIN_DATABASE_URL',
    )
    .action((options) => acting(bringUp(config().vault, options)));
}

/** For deployments where the service has no right to change tables. */
async function bringUp(
  vault: VaultOptions,
  options: OutputOptions & { readonly grantTo?: string; readonly grantAdminTo?: string },
): Promise<Durable<object>> {
  const roles = [
    { role: options.grantTo, purpose: 'service' } as const,
    { role: options.grantAdminTo, purpose: 'admin' } as const,
  ].filter((one): one is GrantedRole => one.role !== undefined);
  if (roles.length > 0 && vault.databaseUrl === undefined) {
    throw new OperatorError(
      '--grant-to and --grant-admin-to are for a PostgreSQL server, but DATABASE_URL is not set: the embedded database has one user.',
    );
  }
  if (roles[0]?.role === roles[1]?.role && roles.length > 1) {
    throw new OperatorError(
      'The service and the admin API need two roles: name another with --grant-admin-to.',
    );
  }
  // Imported here, so that help does not wait for the driver of the database.
  const { migrateVault } = await import('../vault/vault.ts');
  const migrated = await migrateVault(vault, roles);
  const { grants, ...changes } = migrated;
  if (roles.length === 0) return printDone(options, changes, sentences(changes));
  const what = { service: 'the service', admin: 'the admin API' };
  const granted = `${roles.map(({ role, purpose }) => `${role} may do what ${what[purpose]} does`).join(', ')}, and nothing else:\n\n${grants.join(';\n')};`;
  return printDone(options, migrated, `${sentences(changes)}\n${granted}`);
}

function sentences({ applied, distributed = [] }: SchemaChanges): string {
  const schema =
    applied.length === 0 ? 'The schema is up to date.' : `Applied ${applied.join(', ')}.`;
  return distributed.length === 0
    ? schema
    : `${schema} Distributed over the nodes of Citus: ${distributed.join(', ')}.`;
}
