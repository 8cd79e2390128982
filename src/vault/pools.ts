import { locateEmbedded } from '../embedded/embedded-database.ts';
import type { VaultOptions } from '../options.ts';
import { PIN_SESSION } from '../store/connection.ts';
import { databaseHosts } from '../store/hosts.ts';
import { Pool } from '../store/pool.ts';
import { PrimaryFinder, Timeline } from '../store/primary.ts';

export const HEALTH_CONNECTIONS = 1;
export const KEYS_CONNECTIONS = 1;
/** For expiry, counts, the console, metrics and last uses. Commands get as many. */
export const HOUSEKEEPING_CONNECTIONS = 2;
/** Connections of a process that are not for requests. The vault threads share the rest. */
export const CONTROL_CONNECTIONS = HEALTH_CONNECTIONS + KEYS_CONNECTIONS + HOUSEKEEPING_CONNECTIONS;

/** @param timeline shared by all pools of the process */
export function openPool(
  options: Pick<VaultOptions, 'databaseUrl' | 'dataDir'>,
  connections = HOUSEKEEPING_CONNECTIONS,
  timeline = new Timeline(),
): Pool {
  const { databaseUrl: url, dataDir } = options;
  if (url !== undefined) {
    const finder = new PrimaryFinder(databaseHosts(url)!, timeline);
    return new Pool({ connections, timeline, locate: () => finder.locate() });
  }
  return new Pool({ connections, timeline, locate: () => locateEmbedded(dataDir, PIN_SESSION) });
}
