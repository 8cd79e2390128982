import { parseKek } from '../../crypto/kek.ts';
import { newKeyBytes } from '../../crypto/primitives.ts';
import { OperatorError } from '../../errors.ts';
import { createSecret, readSecret, readTrusted } from '../../private-files.ts';
import type { KekSource } from './source.ts';

/** @param mayCreate true for the file in DATA_DIR, false for a KEK_FILE that the operator named */
export function kekFile(path: string, mayCreate: boolean): KekSource {
  return {
    place: path,
    setting: 'KEK_FILE',
    read: async () => read(path),
    readOrCreate: async () => {
      if (mayCreate) create(path);
      return read(path);
    },
  };
}

function read(path: string): Buffer {
  const content = readContent(path, readSecret);
  const kek = parseKek(content);
  if (kek === undefined) {
    throw new OperatorError(
      `The key-encryption key in ${path} must be 32 bytes, or 64 hex digits; the file has ${content.length} bytes. Make one with: openssl rand -hex 32; or, if the file is encrypted, set KEK_AWS_KMS_KEY_ID or KEK_TRANSIT_URL to decrypt it.`,
    );
  }
  return kek;
}

function readContent(path: string, readFile: typeof readSecret): Buffer {
  try {
    return readFile(path, `The key-encryption key in ${path}`);
  } catch (error) {
    if (error instanceof OperatorError) throw error;
    throw new OperatorError(
      `The key-encryption key cannot be read from ${path} (${(error as NodeJS.ErrnoException).code}). Set KEK_FILE to its file, or restore it from your backup. Without it, nobody can open the vault.`,
    );
  }
}

/**
 * Reads a KEK that `setting` decrypts.
 * @throws OperatorError when the file has a KEK in clear, which must not be sent to the decrypting
 * service
 */
export function readCiphertext(path: string, setting: string): Buffer {
  const content = readContent(path, readTrusted);
  if (parseKek(content) !== undefined) {
    throw new OperatorError(
      `KEK_FILE (${path}) contains a key-encryption key in clear, but ${setting} is set to decrypt it. Put the ciphertext of the key there, or unset ${setting}. Nothing was sent.`,
    );
  }
  return content;
}

/**
 * @param decrypted the result of `by`
 * @throws OperatorError when it is not a KEK
 */
export function decryptedKek(decrypted: Buffer, path: string, by: string): Buffer {
  const kek = parseKek(decrypted);
  if (kek === undefined) {
    throw new OperatorError(
      `The key that ${by} decrypted from KEK_FILE (${path}) must be 32 bytes, or 64 hex digits; it has ${decrypted.length} bytes. Set KEK_FILE to the ciphertext of a 256-bit data key.`,
    );
  }
  return kek;
}

function create(path: string): void {
  try {
    createSecret(path, `${newKeyBytes().toString('hex')}\n`);
  } catch (error) {
    throw new OperatorError(
      `The key-encryption key cannot be written to ${path} (${(error as NodeJS.ErrnoException).code}).`,
    );
  }
}
