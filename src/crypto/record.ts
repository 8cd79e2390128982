import type { Sealed, SealedRecord, Value } from '../types.ts';
import { type Key, open, seal } from './primitives.ts';
import { type OpenedAlias, type OpenedValue, splitHeader } from './scope.ts';

/**
 * Versions of the layout of `sealed` and of its AAD; see docs/record-format.md. Version 2 has a
 * header before the value. No column tells the versions apart, so that a thief
 * cannot see which records have a kind.
 */
const PLAIN_FORMAT = 1;
const SCOPED_FORMAT = 2;
export const FINGERPRINT_BYTES = 16;

/** The fields that a sealed value is bound to. */
type RecordFields = Omit<SealedRecord, 'sealed'>;

const aad = Buffer.alloc(1 + 4 + 2 * FINGERPRINT_BYTES);

/**
 * Binds a record to its place: format version (1 byte), key version (4, big-endian), token
 * fingerprint (16), value fingerprint (16). A record with a swapped row, column or key version does
 * not open. All calls share one buffer, because seal and open are synchronous and do not keep it.
 */
function recordAad(format: number, place: RecordFields): Buffer {
  const {
    key_version: keyVersion,
    token_fingerprint: tokenFingerprint,
    value_fingerprint: valueFingerprint,
  } = place;
  aad[0] = format;
  aad.writeUInt32BE(keyVersion, 1);
  // A loop, because two native calls that write strings would cost three times as much.
  for (let i = 0; i < FINGERPRINT_BYTES; i++) {
    aad[5 + i] = tokenFingerprint.charCodeAt(i);
    aad[5 + FINGERPRINT_BYTES + i] = valueFingerprint.charCodeAt(i);
  }
  return aad;
}

/** @param isScoped whether the plaintext begins with a header */
export function sealRecord(
  key: Key,
  place: RecordFields,
  plaintext: string,
  isScoped: boolean,
): Sealed {
  const format = isScoped ? SCOPED_FORMAT : PLAIN_FORMAT;
  return seal(key, plaintext, recordAad(format, place)) as Sealed;
}

const PLAIN_FIRST = [PLAIN_FORMAT, SCOPED_FORMAT] as const;
const SCOPED_FIRST = [SCOPED_FORMAT, PLAIN_FORMAT] as const;
/** The format of the last record that opened. */
let lastFormat = PLAIN_FORMAT;

/**
 * Returns undefined when the record was not sealed for this token.
 * @param isScoped which format to try first, because a wrong try costs more than a right one; by
 * default that of the last record
 */
export function openRecord(
  key: Key,
  record: SealedRecord,
  isScoped = lastFormat === SCOPED_FORMAT,
): OpenedValue | OpenedAlias | undefined {
  if (record.value_fingerprint.length !== FINGERPRINT_BYTES) return undefined;
  const [first, second] = isScoped ? SCOPED_FIRST : PLAIN_FIRST;
  return openAs(first, key, record) ?? openAs(second, key, record);
}

function openAs(format: number, key: Key, record: SealedRecord) {
  const plaintext = open(key, record.sealed, recordAad(format, record))?.toString('utf8');
  if (plaintext === undefined) return undefined;
  lastFormat = format;
  if (format === SCOPED_FORMAT) return splitHeader(plaintext);
  return { value: plaintext as Value, scope: undefined };
}
