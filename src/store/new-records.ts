import type { SealedRecord } from '../types.ts';
import { byteaArray, smallintArray, uuidArray } from './bytea-array.ts';

/** A record to insert. Without a time to live, it never expires. */
export type NewRecord = SealedRecord & { readonly time_to_live_s?: number };

/** The parameters of an insert, one array a column. */
export function columns(rows: readonly NewRecord[]): Buffer[] {
  return [
    uuidArray(rows.map((row) => row.token_fingerprint)),
    uuidArray(rows.map((row) => row.value_fingerprint)),
    smallintArray(rows.map((row) => row.key_version)),
    byteaArray(rows.map((row) => row.sealed)),
  ];
}

export function leasedColumns(rows: readonly NewRecord[]): unknown[] {
  return [...columns(rows), rows.map((row) => row.time_to_live_s ?? null)];
}

/**
 * Sorted by fingerprint, so that two nodes cannot deadlock. Of records with the same token, the
 * first value stays, with the longest time to live of its records.
 */
export function sortedDistinct(records: readonly NewRecord[]): NewRecord[] {
  const sorted = records.toSorted((a, b) =>
    a.token_fingerprint < b.token_fingerprint
      ? -1
      : a.token_fingerprint > b.token_fingerprint
        ? 1
        : 0,
  );
  const rows: NewRecord[] = [];
  for (const record of sorted) {
    const last = rows.at(-1);
    if (last === undefined || last.token_fingerprint !== record.token_fingerprint) {
      rows.push(record);
    } else if (last.value_fingerprint === record.value_fingerprint && isLonger(record, last)) {
      rows[rows.length - 1] = record;
    }
  }
  return rows;
}

function isLonger(record: NewRecord, other: NewRecord): boolean {
  return (record.time_to_live_s ?? Infinity) > (other.time_to_live_s ?? Infinity);
}
