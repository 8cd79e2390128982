import { join } from 'node:path';
import type { KekSettings, VaultOptions } from '../../options.ts';
import { kekAwsKms } from './aws-kms.ts';
import { kekCommand } from './command.ts';
import { kekFile } from './file.ts';
import { kekTransit } from './transit.ts';

/** Where the KEK comes from. One interface for all places. */
export interface KekSource {
  /** For messages: where an operator looks. */
  readonly place: string;
  /** The setting to change where the KEK is the wrong one. */
  readonly setting: 'KEK_FILE' | 'KEK_COMMAND';
  /** 32 bytes. @throws OperatorError with what to do about it */
  read(): Promise<Buffer>;
  /** Called for a new vault only: an existing one is lost without its KEK. */
  readOrCreate(): Promise<Buffer>;
}

/** @param isEmbedded whether the vault is, which may have its KEK beside it */
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

/** Whether an operator named a source; otherwise it may still have to be made. */
export function isNamed({ file, command }: KekSettings): boolean {
  return file !== undefined || command !== undefined;
}

/** The same source, read now and not again: a command may ask somebody, and a KMS has its price. */
export async function readAhead(source: KekSource): Promise<KekSource> {
  const kek = await source.read();
  const read = async () => kek;
  return { ...source, read, readOrCreate: read };
}
