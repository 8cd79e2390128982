import { join } from 'node:path';
import { kekCloud } from './clouds.ts';
import { kekCommand } from './command.ts';
import { kekFile } from './file.ts';
import type { KekSettings, KekSource } from './source.ts';
import { kekTransit } from './transit.ts';

interface KekPlace {
  readonly kek: KekSettings;
  readonly dataDir: string;
  /** undefined: the database is embedded, so that the KEK may be beside it. */
  readonly databaseUrl: string | undefined;
}

export function kekSourceOf({ kek, dataDir, databaseUrl }: KekPlace): KekSource {
  const { KEK_FILE: file, KEK_COMMAND: command } = kek;
  if (command !== undefined) return kekCommand(command, kek.environment);
  if (file === undefined) return kekFile(join(dataDir, 'kek'), databaseUrl === undefined);
  if (kek.KEK_TRANSIT_URL !== undefined) return kekTransit(file, kek);
  return kekCloud(file, kek) ?? kekFile(file, false);
}

/** Whether an operator named a source. The default file may not exist yet. */
export function isNamed({ KEK_FILE, KEK_COMMAND }: KekSettings): boolean {
  return KEK_FILE !== undefined || KEK_COMMAND !== undefined;
}

/**
 * Reads the source once and keeps the KEK: a command may ask a person, and a KMS charges for calls.
 */
export async function readAhead(source: KekSource): Promise<KekSource> {
  const kek = await source.read();
  return { ...source, read: async () => kek };
}
