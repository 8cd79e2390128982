import type { KeyPurpose } from '../types.ts';
import { Mac } from './mac.ts';
import { importKey, open, seal } from './primitives.ts';

export type Kek = Readonly<ReturnType<typeof kekOf>>;

/**
 * Key-encryption key (NIST SP 800-57 part 1). Lives outside the database and wraps the keys in it.
 * @param bytes 32 bytes
 */
export function kekOf(bytes: Buffer) {
  const key = importKey(bytes);
  const digest = Buffer.from(new Mac('sha256', bytes).digest('standin kek id'), 'latin1');
  return {
    /** 16 hex digits that name the key and reveal nothing about it. */
    id: digest.toString('hex', 0, 8),
    wrap: (purpose: KeyPurpose, version: number, plain: Buffer) =>
      seal(key, plain, wrapAad(purpose, version)),
    /** The key, or undefined when this KEK did not wrap it for this purpose and version. */
    unwrap: (purpose: KeyPurpose, version: number, wrapped: Buffer) =>
      open(key, wrapped, wrapAad(purpose, version)),
  };
}

function wrapAad(purpose: KeyPurpose, version: number): Buffer {
  return Buffer.from(`standin key 1 ${purpose} ${version}`);
}
