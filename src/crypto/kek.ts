import type { KeyPurpose } from '../types.ts';
import { Mac } from './mac.ts';
import { importKey, type Key, open, seal } from './primitives.ts';

/**
 * Key-encryption key (NIST SP 800-57 part 1). Lives outside the database and wraps the keys in it.
 */
export interface Kek {
  /** 16 hex digits that name the key and reveal nothing about it. */
  readonly id: string;
  wrap(purpose: KeyPurpose, version: number, key: Buffer): Buffer;
  /** The key, or undefined when this KEK did not wrap it for this purpose and version. */
  unwrap(purpose: KeyPurpose, version: number, wrapped: Buffer): Buffer | undefined;
}

/** @param bytes 32 bytes */
export function kekOf(bytes: Buffer): Kek {
  const key: Key = importKey(bytes);
  return {
    id: Buffer.from(new Mac('sha256', bytes).digest('standin kek id'), 'latin1').toString(
      'hex',
      0,
      8,
    ),
    wrap: (purpose, version, plain) => seal(key, plain, wrapAad(purpose, version)),
    unwrap: (purpose, version, wrapped) => open(key, wrapped, wrapAad(purpose, version)),
  };
}

function wrapAad(purpose: KeyPurpose, version: number): Buffer {
  return Buffer.from(`standin key 1 ${purpose} ${version}`);
}
