import { inject } from 'vitest';
import { query } from './postgres.ts';
import { newPlace, type Service, startService } from './service.ts';

/** A service on a vault of its own, with this policy in force. */
export async function startWithPolicy(document: string): Promise<Service> {
  const place = await newPlace('server', inject('serverUrl'));
  const first = await startService(place);
  await applyPolicy(first, 1, document);
  await first.stop();
  // A policy is in force within 5 s, and at once for a node that starts.
  return { ...(await startService(place)), api_key: first.api_key };
}

/** Adds a version without the command, which would check it. */
export async function applyPolicy({ place }: Service, version: number, document: string) {
  const insert = 'insert into standin.policies (version, document) values ($1, $2)';
  await query(place.env.DATABASE_URL!, insert, [version, document]);
}
