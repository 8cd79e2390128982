import { join } from 'node:path';
import { type CloudSettings, kekCloud } from './clouds.ts';
import { kekCommand } from './command.ts';
import { kekFile } from './file.ts';
import type { KekSource } from './source.ts';
import { kekTransit, type TransitSettings } from './transit.ts';

/** The settings of one source. Plain data that contains secrets. */
export interface KekSettings {
  /**
   * undefined without a command: the file `kek` in the data folder, made with an embedded vault.
   */
  readonly file: string | undefined;
  /** A command line that prints the KEK. */
  readonly command?: string;
  /** Of the command, or of the cloud's library; undefined: that of this process. */
  readonly environment?: NodeJS.Dict<string>;
  /** One of these decrypts the file. Without them, the file is in clear. */
  readonly cloud?: CloudSettings;
  readonly transit?: TransitSettings;
}

interface KekPlace {
  readonly kek: KekSettings;
  readonly dataDir: string;
  /** undefined: the database is embedded, so that the KEK may be beside it. */
  readonly databaseUrl: string | undefined;
}

export function kekSourceOf({ kek, dataDir, databaseUrl }: KekPlace): KekSource {
  const { file, command, environment = {}, cloud, transit } = kek;
  if (command !== undefined) return kekCommand(command, kek.environment);
  if (file === undefined) return kekFile(join(dataDir, 'kek'), databaseUrl === undefined);
  if (cloud !== undefined) return kekCloud(file, cloud, environment);
  if (transit !== undefined) return kekTransit(file, transit);
  return kekFile(file, false);
}

/** Whether an operator named a source. The default file may not exist yet. */
export function isNamed({ file, command }: KekSettings): boolean {
  return file !== undefined || command !== undefined;
}

/**
 * Reads the source once and keeps the KEK: a command may ask a person, and a KMS charges for calls.
 */
export async function readAhead(source: KekSource): Promise<KekSource> {
  const kek = await source.read();
  return { ...source, read: async () => kek };
}
