import { readdirSync } from 'node:fs';
import pg from 'pg';
import type { Place } from './service.ts';

/** One statement on the vault of a place; on the embedded database, while a service runs there. */
export async function sql(
  place: Place,
  text: string,
  values: unknown[] = [],
): Promise<Record<string, any>[]> {
  const client = new pg.Client(vaultAddress(place));
  await client.connect();
  try {
    return (await client.query(text, values)).rows;
  } finally {
    await client.end();
  }
}

/** Where the database of a place listens. */
export function vaultAddress({ kind, env }: Place): pg.ClientConfig {
  if (kind === 'server') return { connectionString: env.DATABASE_URL };
  const dataDir = env.DATA_DIR!;
  const [socket] = readdirSync(dataDir).filter((name) => name.startsWith('.s.PGSQL.'));
  const port = Number(socket!.slice('.s.PGSQL.'.length));
  return { host: dataDir, port, user: 'postgres', database: 'postgres' };
}
