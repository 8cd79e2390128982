import { OperatorError } from '../errors.ts';

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
  /**
   * Makes a KEK unless there is one. For a new vault only, because a new KEK would not open an
   * existing vault. undefined: this source makes none.
   */
  readonly create?: () => Promise<void>;
}

type KekSetting =
  | ('KEK_FILE' | 'KEK_COMMAND' | 'KEK_AWS_KMS_KEY_ID' | 'KEK_AWS_KMS_ENDPOINT')
  | ('KEK_GCP_KMS_KEY' | 'KEK_GCP_KMS_ENDPOINT' | 'KEK_AZURE_KEY_ID' | 'KEK_AZURE_ALGORITHM')
  | ('KEK_TRANSIT_URL' | 'KEK_TRANSIT_KEY' | 'KEK_TRANSIT_MOUNT' | 'KEK_TRANSIT_NAMESPACE')
  | ('KEK_TRANSIT_CA_FILE' | 'VAULT_TOKEN_FILE' | 'VAULT_TOKEN');

/**
 * The settings of one source, by their names in docs/configuration.md. Plain data that contains
 * secrets.
 */
export type KekSettings = { readonly [Name in KekSetting]?: string | undefined } & {
  /** Of a command, and of the library of a cloud: these sources always have it. */
  readonly environment?: NodeJS.Dict<string>;
};

/** How long a source may take. Nothing listens before it has answered. */
export interface KekTimeouts {
  /** All attempts together, from the first request to the key. */
  readonly totalMs: number;
  /** One attempt over the network. */
  readonly attemptMs: number;
}

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
  /** Remedies for errors of the library, by their names. Their texts are never shown. */
  readonly remedies?: Readonly<Record<string, string>>;
  /** The remedy for all other errors. */
  readonly remedy: string;
  /**
   * Loads the library.
   * @throws OperatorError, or an error of the library
   */
  decrypt(ciphertext: Buffer, settings: KekSettings, timeouts: KekTimeouts): Promise<Buffer>;
}

export const KEK_TIMEOUTS: KekTimeouts = { totalMs: 10_000, attemptMs: 4_000 };
/** Attempts over the network, the first included. */
export const KEK_ATTEMPTS = 3;

/** Accepts 32 raw bytes, or 64 hex digits with white space around. undefined: anything else. */
export function parseKek(content: Buffer): Buffer | undefined {
  if (content.length === 32) return content;
  const text = content.toString('latin1').trim();
  return /^[0-9a-f]{64}$/i.test(text) ? Buffer.from(text, 'hex') : undefined;
}

/** @param explain makes a message from the code of the system's error */
export function explained<T>(work: () => T, explain: (code: string) => string): T {
  try {
    return work();
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    // An error without a code is a refusal of private-files.ts, which already says what to do.
    throw code === undefined ? error : new OperatorError(explain(code));
  }
}

/** The text of a file that a setting names. @param readFile of private-files.ts */
export function readSetting(
  setting: string,
  path: string,
  readFile: (path: string, name: string) => Buffer,
): string {
  const name = `${setting} (${path})`;
  return explained(
    () => readFile(path, name).toString(),
    (code) => `${name} cannot be read (${code}). Name a file that this user can read.`,
  );
}
