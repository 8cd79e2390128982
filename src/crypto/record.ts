import type { Sealed, SealedRecord } from '../types.ts';
import { type Key, open, seal } from './primitives.ts';

/** Version of the layout of `sealed` and of its AAD; see docs/record-format.md. */
const FORMAT_VERSION = 1;
export const FINGERPRINT_BYTES = 16;

/** What a sealed value is bound to. */
type Place = Omit<SealedRecord, 'sealed'>;

const aad = Buffer.alloc(1 + 4 + 2 * FINGERPRINT_BYTES);

/**
 * Binds a record to its place: format version (1 byte), key version (4, big-endian), token
 * fingerprint (16), value fingerprint (16). A record with a swapped row, column or key version does
 * not open. All calls share one buffer, because seal and open are synchronous and do not keep it.
 */
function recordAad({
  key_version: keyVersion,
  token_fingerprint: tokenFingerprint,
  value_fingerprint: valueFingerprint,
}: Place): Buffer {
  aad[0] = FORMAT_VERSION;
  aad.writeUInt32BE(keyVersion, 1);
  // A loop, because two native calls that write strings would cost three times as much.
  for (let i = 0; i < FINGERPRINT_BYTES; i++) {
    aad[5 + i] = tokenFingerprint.charCodeAt(i);
    aad[5 + FINGERPRINT_BYTES + i] = valueFingerprint.charCodeAt(i);
  }
  return aad;
}

export function sealRecord(key: Key, place: Place, plaintext: string): Sealed {
  return seal(key, plaintext, recordAad(place)) as Sealed;
}

/** The plaintext; undefined when the record was not sealed for this token. */
export function openRecord(key: Key, record: SealedRecord): string | undefined {
  if (record.value_fingerprint.length !== FINGERPRINT_BYTES) return undefined;
  return open(key, record.sealed, recordAad(record))?.toString('utf8');
}
