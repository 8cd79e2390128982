import { readdirSync } from 'node:fs';
import pg from 'pg';
import type { Place } from './service.ts';

/** Runs a statement on the vault of a place. An embedded database needs a running service. */
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

/** The address of a place's database. */
export function vaultAddress({ kind, env }: Place): pg.ClientConfig {
  if (kind === 'server') return { connectionString: env.DATABASE_URL };
  const dataDir = env.DATA_DIR!;
  const [socket] = readdirSync(dataDir).filter((name) => name.startsWith('.s.PGSQL.'));
  const port = Number(socket!.slice('.s.PGSQL.'.length));
  return { host: dataDir, port, user: 'postgres', database: 'postgres' };
}
