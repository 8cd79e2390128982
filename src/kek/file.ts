import { newKeyBytes } from '../crypto/primitives.ts';
import { OperatorError } from '../errors.ts';
import { createSecret, readSecret, readTrusted } from '../private-files.ts';
import { explained, type KekSource, parseKek } from './source.ts';

/** @param mayCreate true for the file in DATA_DIR, false for a KEK_FILE that the operator named */
export function kekFile(path: string, mayCreate: boolean): KekSource {
  return {
    place: path,
    setting: 'KEK_FILE',
    read: async () => read(path),
    ...(mayCreate && { create: async () => create(path) }),
  };
}

/**
 * A KEK_FILE that has a ciphertext.
 * @param setting names the service that decrypts it
 * @param by the service in words
 */
export function kekCiphertext(
  path: string,
  setting: string,
  by: string,
  decrypt: (content: Buffer) => Promise<Buffer>,
): KekSource {
  const read = async () => {
    const decrypted = await decrypt(readCiphertext(path, setting));
    const kek = parseKek(decrypted);
    if (kek !== undefined) return kek;
    throw new OperatorError(
      `The key that ${by} decrypted from KEK_FILE (${path}) must be 32 bytes, or 64 hex digits; it has ${decrypted.length} bytes. Set KEK_FILE to the ciphertext of a 256-bit data key.`,
    );
  };
  return { place: `${path}, decrypted by ${by}`, setting: 'KEK_FILE', read };
}

function read(path: string): Buffer {
  const content = readContent(path, readSecret);
  const kek = parseKek(content);
  if (kek !== undefined) return kek;
  throw new OperatorError(
    `The key-encryption key in ${path} must be 32 bytes, or 64 hex digits; the file has ${content.length} bytes. Make one with: openssl rand -hex 32; or, if the file is encrypted, set KEK_AWS_KMS_KEY_ID, KEK_GCP_KMS_KEY, KEK_AZURE_KEY_ID or KEK_TRANSIT_URL to decrypt it.`,
  );
}

function readContent(path: string, readFile: typeof readSecret): Buffer {
  return explained(
    () => readFile(path, `The key-encryption key in ${path}`),
    (code) =>
      `The key-encryption key cannot be read from ${path} (${code}). Set KEK_FILE to its file, or restore it from your backup. Without it, nobody can open the vault.`,
  );
}

function create(path: string): void {
  explained(
    () => createSecret(path, `${newKeyBytes().toString('hex')}\n`),
    (code) => `The key-encryption key cannot be written to ${path} (${code}).`,
  );
}

/** @throws OperatorError for a KEK in clear, which must not be sent to the decrypting service */
function readCiphertext(path: string, setting: string): Buffer {
  const content = readContent(path, readTrusted);
  if (parseKek(content) === undefined) return content;
  throw new OperatorError(
    `KEK_FILE (${path}) contains a key-encryption key in clear, but ${setting} is set to decrypt it. Put the ciphertext of the key there, or unset ${setting}. Nothing was sent.`,
  );
}
