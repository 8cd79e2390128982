import type { Sealed, TokenFingerprint, ValueFingerprint } from '../types.ts';
import { type Key, open, seal } from './primitives.ts';

/** Version of the layout of `sealed` and of its AAD; see docs/record-format.md. */
const FORMAT_VERSION = 1;
export const FINGERPRINT_BYTES = 16;

const aad = Buffer.alloc(1 + 4 + 2 * FINGERPRINT_BYTES);

/**
 * Binds a record to its place: format version (1 byte), key version (4, big-endian), token
 * fingerprint (16), value fingerprint (16). A swapped row, column or key version fails to open. One
 * buffer serves all calls: seal and open are synchronous and do not keep it.
 */
function recordAad(
  key_version: number,
  token_fingerprint: TokenFingerprint,
  value_fingerprint: ValueFingerprint,
): Buffer {
  aad[0] = FORMAT_VERSION;
  aad.writeUInt32BE(key_version, 1);
  // A loop: the two calls into native code that write strings would cost three times as much.
  for (let i = 0; i < FINGERPRINT_BYTES; i++) {
    aad[5 + i] = token_fingerprint.charCodeAt(i);
    aad[5 + FINGERPRINT_BYTES + i] = value_fingerprint.charCodeAt(i);
  }
  return aad;
}

export function sealRecord(
  key: Key,
  key_version: number,
  token_fingerprint: TokenFingerprint,
  value_fingerprint: ValueFingerprint,
  plaintext: string,
): Sealed {
  return seal(
    key,
    plaintext,
    recordAad(key_version, token_fingerprint, value_fingerprint),
  ) as Sealed;
}

/** The plaintext, or undefined when the record is not the one that was sealed for this token. */
export function openRecord(
  key: Key,
  key_version: number,
  token_fingerprint: TokenFingerprint,
  value_fingerprint: ValueFingerprint,
  sealed: Sealed,
): string | undefined {
  if (value_fingerprint.length !== FINGERPRINT_BYTES) return undefined;
  return open(key, sealed, recordAad(key_version, token_fingerprint, value_fingerprint))?.toString(
    'utf8',
  );
}
