import { OperatorError } from '../errors.ts';
import type { KekSettings, KekTimeouts } from './source.ts';

/** A key service of a cloud. Its library finds the credentials. */
export interface Cloud {
  /** In words. */
  readonly name: string;
  /** The setting that names the key. */
  readonly setting: 'KEK_AWS_KMS_KEY_ID' | 'KEK_GCP_KMS_KEY' | 'KEK_AZURE_KEY_ID';
  /** Names the file with a secret that the library reads. */
  readonly secretFile?: string;
  /** Runs in the cloud thread. @throws OperatorError */
  decrypt(ciphertext: Buffer, settings: KekSettings, timeouts: KekTimeouts): Promise<Buffer>;
}

/** Loads the library on use: only installations with this cloud have it. */
export async function loaded<T>(setting: string, version: string, loading: Promise<T>): Promise<T> {
  try {
    return await loading;
  } catch (error) {
    throw new OperatorError(
      `${setting} needs the package ${version}, which cannot be loaded (${(error as NodeJS.ErrnoException).code}). Run: npm install --no-save --save-prod ${version}`,
    );
  }
}

/** An access token. Shows names and codes of the library's errors, never their texts. */
export async function accessToken<T>(
  cloud: string,
  asking: Promise<T>,
  remedy: string,
): Promise<T> {
  try {
    return await asking;
  } catch (error) {
    const { errors = [error] } = error as { errors?: unknown[] };
    throw new OperatorError(
      `${cloud} gave no access token (${errors.map(codeOf).join(', ')}). ${remedy}`,
    );
  }
}

function codeOf(error: unknown): string {
  const { name, code, status, message } = error as Error & { code?: unknown; status?: unknown };
  const entra = /\bAADSTS\d+\b/.exec(message)?.[0];
  const codes = [name, code, status, entra].map((one) => String(one ?? ''));
  return [...new Set(codes.filter((one) => /^[\w.-]{1,64}$/.test(one)))].join(' ');
}

/** Command lines print base64. A raw ciphertext has bytes that base64 lacks. */
export function blobOf(content: Buffer): Buffer {
  const text = content.toString('latin1').replaceAll(/\s/g, '');
  return /^[\w+/-]+={0,2}$/.test(text) ? Buffer.from(text, 'base64') : content;
}
