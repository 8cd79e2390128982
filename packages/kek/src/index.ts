import { join } from 'node:path';
import { type AwsKmsSettings, kekAwsKms } from './aws-kms.ts';
import { type AzureKeyVaultSettings, kekAzureKeyVault } from './azure-key-vault.ts';
import { kekCommand } from './command.ts';
import { kekFile } from './file.ts';
import { type GcpKmsSettings, kekGcpKms } from './gcp-kms.ts';
import type { KekSource, PrivateFiles } from './source.ts';
import { kekTransit, type TransitSettings } from './transit.ts';

export { KekError, type KekSource, parseKek } from './source.ts';
export type { AwsKmsSettings, AzureKeyVaultSettings, GcpKmsSettings, TransitSettings };

/** The settings of one source. Plain data that contains secrets. */
export interface KekSettings {
  /**
   * undefined without a command: the file `kek` in the data folder, made with an embedded vault.
   */
  readonly file: string | undefined;
  /** A command line that prints the KEK. */
  readonly command?: string;
  /** Of the command; undefined: that of this process. */
  readonly environment?: NodeJS.Dict<string>;
  /** One of these decrypts the file. Without them, the file is in clear. */
  readonly awsKms?: AwsKmsSettings;
  readonly gcpKms?: GcpKmsSettings;
  readonly azure?: AzureKeyVaultSettings;
  readonly transit?: TransitSettings;
}

/** @param isEmbedded whether the database is embedded, so that the KEK may be beside it */
export function kekSource(
  { file, command, environment, awsKms, gcpKms, azure, transit }: KekSettings,
  dataDir: string,
  isEmbedded: boolean,
  files: PrivateFiles,
): KekSource {
  if (command !== undefined) return kekCommand(command, environment);
  if (file === undefined) return kekFile(join(dataDir, 'kek'), isEmbedded, files);
  if (awsKms !== undefined) return kekAwsKms(file, awsKms, files);
  if (gcpKms !== undefined) return kekGcpKms(file, gcpKms, files);
  if (azure !== undefined) return kekAzureKeyVault(file, azure, files);
  if (transit !== undefined) return kekTransit(file, transit, files);
  return kekFile(file, false, files);
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
