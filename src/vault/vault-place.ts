import { resolve } from 'node:path';
import { hasDatabase } from '../embedded/owner.ts';
import { OperatorError } from '../errors.ts';
import type { VaultOptions } from '../options.ts';
import { databaseHosts } from '../store/hosts.ts';
import { schemaVersion } from '../store/schema.ts';
import { commandDeadline } from '../timeouts.ts';
import { openPool } from './pools.ts';

type DatabasePlace = Pick<VaultOptions, 'databaseUrl' | 'dataDir'>;

/**
 * For commands that must not make a vault. Changes nothing.
 * @throws OperatorError that says where it looked, when there is no vault
 */
export async function requireVault(options: DatabasePlace): Promise<void> {
  requireFolder(options);
  const pool = openPool(options);
  try {
    if ((await schemaVersion(pool, commandDeadline())) === 0) throw noVault(options);
  } finally {
    await pool.end();
  }
}

/** The part of `demandVault` that needs no database: opening an embedded one would make it. */
export function requireFolder(options: DatabasePlace): void {
  const { databaseUrl, dataDir } = options;
  if (databaseUrl === undefined && !hasDatabase(resolve(dataDir))) throw noVault(options);
}

export function noVault({ databaseUrl, dataDir }: DatabasePlace): OperatorError {
  const make = 'To make a vault, run: standin serve, or standin migrate';
  if (databaseUrl === undefined) {
    const full = resolve(dataDir);
    const looked = full === dataDir ? '' : ` (looked in ${full})`;
    return new OperatorError(
      `There is no vault in ${dataDir}${looked}. Go to the folder of the service, or set DATA_DIR. ${make}`,
    );
  }
  return new OperatorError(
    `There is no vault in the database ${databaseName(databaseUrl)}. Check DATABASE_URL. ${make}`,
  );
}

/** Without user, password and parameters, which can be secret. */
function databaseName(databaseUrl: string): string {
  const hosts = databaseHosts(databaseUrl)!;
  const name = decodeURIComponent(new URL(hosts[0]!.url).pathname.slice(1));
  return `"${name}" of ${hosts.map((host) => host.name).join(', ')}`;
}
