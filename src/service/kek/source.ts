import { join } from 'node:path';
import type { KekSettings, VaultOptions } from '../../options.ts';
import { kekAwsKms } from './aws-kms.ts';
import { kekCommand } from './command.ts';
import { kekFile } from './file.ts';
import { kekTransit } from './transit.ts';

/** A place to read the KEK from. */
export interface KekSource {
  /** Where an operator finds the KEK, for messages. */
  readonly place: string;
  /** The setting to change when the KEK is wrong. */
  readonly setting: 'KEK_FILE' | 'KEK_COMMAND';
  /**
   * Reads the 32 bytes.
   * @throws OperatorError that says what to do
   */
  read(): Promise<Buffer>;
  /** For a new vault only. A new KEK would not open an existing vault. */
  readOrCreate(): Promise<Buffer>;
}

/** @param isEmbedded whether the database is embedded, so that the KEK may be beside it */
export function kekSource(settings: KekSettings, dataDir: string, isEmbedded: boolean): KekSource {
  const { file, command, aws_kms: awsKms, transit } = settings;
  if (command !== undefined) return kekCommand(command);
  if (file === undefined) return kekFile(join(dataDir, 'kek'), isEmbedded);
  if (awsKms !== undefined) return kekAwsKms(file, awsKms);
  if (transit !== undefined) return kekTransit(file, transit);
  return kekFile(file, false);
}

export function kekSourceOf({ kek, dataDir, databaseUrl }: VaultOptions): KekSource {
  return kekSource(kek, dataDir, databaseUrl === undefined);
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
  const read = async () => kek;
  return { ...source, read, readOrCreate: read };
}
