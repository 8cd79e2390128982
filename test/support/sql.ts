import { readdirSync } from 'node:fs';
import pg from 'pg';
import type { Place } from './service.ts';

/** One statement on the vault of a place; on the embedded database, while a service runs there. */
export async function sql(
  place: Place,
  text: string,
  values: unknown[] = [],
): Promise<Record<string, any>[]> {
  const client = new pg.Client(
    place.kind === 'server'
      ? { connectionString: place.env.DATABASE_URL }
      : embeddedAddress(place.env.DATA_DIR!),
  );
  await client.connect();
  try {
    return (await client.query(text, values)).rows;
  } finally {
    await client.end();
  }
}

function embeddedAddress(data_dir: string): pg.ClientConfig {
  const [socket] = readdirSync(data_dir).filter((name) => name.startsWith('.s.PGSQL.'));
  const port = Number(socket!.slice('.s.PGSQL.'.length));
  return { host: data_dir, port, user: 'postgres', database: 'postgres' };
}
