import type { VaultOptions } from '../options.ts';
import { EmbeddedDatabase } from '../store/embedded.ts';
import { databaseHosts } from '../store/hosts.ts';
import { Pool } from '../store/pool.ts';
import { PrimaryFinder } from '../store/primary-finder.ts';
import { Timeline } from '../store/timeline.ts';

export interface VitalPools {
  /** For /health only, which reads no table. */
  readonly health: Pool;
  /** For API keys, the keyring and checks of server settings. */
  readonly keys: Pool;
}

export const HEALTH_CONNECTIONS = 1;
export const KEYS_CONNECTIONS = 1;
/** For expiry, counts, the console, metrics and last uses. Commands get as many. */
export const HOUSEKEEPING_CONNECTIONS = 2;
/** Connections of a process that are not for requests. The vault threads share the rest. */
export const CONTROL_CONNECTIONS = HEALTH_CONNECTIONS + KEYS_CONNECTIONS + HOUSEKEEPING_CONNECTIONS;

/** @param timeline shared by all pools of the process */
export function openPool(
  options: VaultOptions,
  connections = HOUSEKEEPING_CONNECTIONS,
  timeline = new Timeline(),
): Pool {
  const { databaseUrl: url, dataDir } = options;
  if (url !== undefined) {
    const finder = new PrimaryFinder(databaseHosts(url)!, timeline);
    return new Pool({ connections, timeline, locate: () => finder.locate() });
  }
  const embedded = new EmbeddedDatabase(dataDir);
  return new Pool({ connections, timeline, locate: () => embedded.locate() });
}
