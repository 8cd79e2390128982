import { Readable } from 'node:stream';
import { isObject } from './body.ts';

/** A larger answer is made and written piece by piece, as its reader takes it. */
export const MAX_WHOLE_BYTES = 2_097_152;
const PIECE_BYTES = 65_536;
/** `\u0000` for one unit of UTF-16. */
const MAX_UNIT_BYTES = 6;
const QUOTES = '""';
/** ASCII that JSON takes as it is. */
const PLAIN = /^[ !#-[\]-~]*$/;
/** Longer ones are measured once: a body can have the same token in all fields. */
const LONG_UNITS = 1_024;

/** What values have at most as JSON, without quotes, in bytes: cheaper than to measure them. */
export function mostJsonBytes(values: readonly string[]): number {
  let bytes = 0;
  for (const value of values) bytes += MAX_UNIT_BYTES * value.length;
  return bytes;
}

/** What values have as JSON, without quotes, in bytes. */
export function jsonBytes(values: readonly string[]): number {
  const known = new Map<string, number>();
  let bytes = 0;
  for (const value of values) {
    const isLong = value.length >= LONG_UNITS;
    const measured = (isLong ? known.get(value) : undefined) ?? measure(value);
    if (isLong) known.set(value, measured);
    bytes += measured;
  }
  return bytes;
}

function measure(value: string): number {
  if (PLAIN.test(value)) return value.length;
  return Buffer.byteLength(JSON.stringify(value)) - QUOTES.length;
}

/**
 * A large answer, never in memory as a whole.
 * @param frame what stands before `data` and after it
 * @param valueBytes `jsonBytes` of the values in `data`
 * @param onTaken told whenever the reader has taken a piece
 */
export function largeAnswer(
  data: unknown,
  [before, after]: readonly [string, string],
  valueBytes: number,
  onTaken: () => void,
): { readonly body: Readable; readonly bytes: number } {
  let bytes = Buffer.byteLength(before + after) + valueBytes;
  for (const text of jsonOf(data, () => QUOTES)) bytes += Buffer.byteLength(text);
  return { body: Readable.from(pieces(data, before, after, onTaken)), bytes };
}

async function* pieces(data: unknown, before: string, after: string, onTaken: () => void) {
  let piece = before;
  for (const text of jsonOf(data, JSON.stringify)) {
    piece += text;
    if (piece.length < PIECE_BYTES) continue;
    yield Buffer.from(piece);
    onTaken();
    await nextTurn();
    piece = '';
  }
  yield Buffer.from(piece + after);
}

/** Those that wait for their turn, the first one first. */
const waiting: (() => void)[] = [];

/**
 * One piece in a turn of the event loop, whichever answer it is of. A fast reader takes all pieces
 * at once. With a piece of each answer in every turn, sixty answers held up all other callers for a
 * quarter of a second of processor time.
 */
function nextTurn(): Promise<void> {
  return new Promise((resolve) => {
    if (waiting.push(resolve) === 1) setImmediate(endWait);
  });
}

function endWait(): void {
  waiting.shift()!();
  if (waiting.length > 0) setImmediate(endWait);
}

/** The JSON of `data`, value by value, in the order of JSON.stringify. */
function* jsonOf(json: unknown, write: (value: string) => string): Generator<string> {
  if (Array.isArray(json)) {
    for (const [i, inner] of json.entries()) {
      yield i === 0 ? '[' : ',';
      yield* jsonOf(inner, write);
    }
    yield json.length === 0 ? '[]' : ']';
  } else if (isObject(json)) {
    const names = Object.keys(json);
    for (const [i, name] of names.entries()) {
      yield `${i === 0 ? '{' : ','}${JSON.stringify(name)}:`;
      yield* jsonOf(json[name], write);
    }
    yield names.length === 0 ? '{}' : '}';
  } else yield write(json as string);
}
