import { randomBytes } from 'node:crypto';
import { explained, KekError, type KekSource, type PrivateFiles, parseKek } from './source.ts';

/** @param mayCreate true for the file in DATA_DIR, false for a KEK_FILE that the operator named */
export function kekFile(path: string, mayCreate: boolean, files: PrivateFiles): KekSource {
  return {
    place: path,
    setting: 'KEK_FILE',
    read: async () => read(path, files),
    ...(mayCreate && { create: async () => create(path, files) }),
  };
}

function read(path: string, { readSecret }: PrivateFiles): Buffer {
  const content = readContent(path, readSecret);
  const kek = parseKek(content);
  if (kek === undefined) {
    throw new KekError(
      `The key-encryption key in ${path} must be 32 bytes, or 64 hex digits; the file has ${content.length} bytes. Make one with: openssl rand -hex 32; or, if the file is encrypted, set KEK_AWS_KMS_KEY_ID, KEK_GCP_KMS_KEY, KEK_AZURE_KEY_ID or KEK_TRANSIT_URL to decrypt it.`,
    );
  }
  return kek;
}

function readContent(path: string, readFile: PrivateFiles['readSecret']): Buffer {
  return explained(
    () => readFile(path, `The key-encryption key in ${path}`),
    (code) =>
      `The key-encryption key cannot be read from ${path} (${code}). Set KEK_FILE to its file, or restore it from your backup. Without it, nobody can open the vault.`,
  );
}

function create(path: string, { createSecret }: PrivateFiles): void {
  explained(
    () => createSecret(path, `${randomBytes(32).toString('hex')}\n`),
    (code) => `The key-encryption key cannot be written to ${path} (${code}).`,
  );
}

/**
 * Reads a KEK that `setting` decrypts.
 * @throws KekError when the file has a KEK in clear, which must not be sent to the decrypting
 * service
 */
export function readCiphertext(path: string, setting: string, files: PrivateFiles): Buffer {
  const content = readContent(path, files.readTrusted);
  if (parseKek(content) !== undefined) {
    throw new KekError(
      `KEK_FILE (${path}) contains a key-encryption key in clear, but ${setting} is set to decrypt it. Put the ciphertext of the key there, or unset ${setting}. Nothing was sent.`,
    );
  }
  return content;
}

/** Command lines print base64. A raw ciphertext has bytes that base64 lacks. */
export function blobOf(content: Buffer): Buffer {
  const text = content.toString('latin1').replaceAll(/\s/g, '');
  return /^[\w+/-]+={0,2}$/.test(text) ? Buffer.from(text, 'base64') : content;
}

/**
 * @param decrypted the result of `by`
 * @throws KekError when it is not a KEK
 */
export function decryptedKek(decrypted: Buffer, path: string, by: string): Buffer {
  const kek = parseKek(decrypted);
  if (kek === undefined) {
    throw new KekError(
      `The key that ${by} decrypted from KEK_FILE (${path}) must be 32 bytes, or 64 hex digits; it has ${decrypted.length} bytes. Set KEK_FILE to the ciphertext of a 256-bit data key.`,
    );
  }
  return kek;
}
