import type { KekSettings, KekTimeouts } from './source.ts';

/** A key service of a cloud. Its library finds the credentials. */
export interface Cloud {
  /** In words. */
  readonly name: string;
  /** The setting that names the key. */
  readonly setting: 'KEK_AWS_KMS_KEY_ID' | 'KEK_GCP_KMS_KEY' | 'KEK_AZURE_KEY_ID';
  /** Package with its version. Only installations with this cloud have it. */
  readonly library: string;
  /** Names the file with a secret that the library reads. */
  readonly secretFile?: string;
  /** What to do about errors of the library, by their names. Their texts are never shown. */
  readonly remedies?: Readonly<Record<string, string>>;
  /** What to do about all others. */
  readonly remedy: string;
  /**
   * Loads the library.
   * @throws OperatorError, or an error of the library
   */
  decrypt(ciphertext: Buffer, settings: KekSettings, timeouts: KekTimeouts): Promise<Buffer>;
}
