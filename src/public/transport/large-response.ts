import { Readable } from 'node:stream';

/** A larger answer is built and written in pieces, as its reader takes them. */
export const MAX_WHOLE_BYTES = 2_097_152;
const PIECE_BYTES = 65_536;
/** One UTF-16 unit takes at most 6 bytes: `\u0000`. */
const MAX_UNIT_BYTES = 6;
/** ASCII that JSON does not escape. */
const PLAIN = /^[ !#-[\]-~]*$/;
/** Longer values are measured once each, because all fields may have the same token. */
const LONG_UNITS = 1_024;

/** Upper bound for the bytes of values as JSON, without quotes. Cheaper than measuring. */
export function mostJsonBytes(values: readonly string[]): number {
  let bytes = 0;
  for (const value of values) bytes += MAX_UNIT_BYTES * value.length;
  return bytes;
}

/** The exact bytes of values as JSON, without quotes. */
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
  return Buffer.byteLength(inQuotes(value));
}

/** The texts of a response, one after the other. */
export interface ResponseParts {
  readonly before: string;
  /** The text of `data` before, between and after the values. */
  readonly around: () => Iterable<string>;
  readonly values: readonly string[];
  readonly list: readonly string[];
  readonly after: string;
}

/**
 * Streams a large response. Only its list is in memory as a whole.
 * @param knownBytes `jsonBytes` of the values, and the bytes of `list`
 * @param beforeEach called before each piece
 * @param onTaken called whenever the reader has taken a piece
 */
export function largeResponse(
  parts: ResponseParts,
  knownBytes: number,
  beforeEach: () => Promise<void>,
  onTaken: () => void,
): { readonly body: Readable; readonly bytes: number } {
  let bytes = Buffer.byteLength(parts.before + parts.after) + knownBytes;
  for (const text of parts.around()) bytes += Buffer.byteLength(text);
  return { body: Readable.from(pieces(inOrder(parts), beforeEach, onTaken)), bytes };
}

function* inOrder({ before, around, values, list, after }: ResponseParts): Generator<string> {
  yield before;
  let i = 0;
  for (const text of around()) {
    yield text;
    if (i < values.length) yield inQuotes(values[i++]!);
  }
  yield* list;
  yield after;
}

/** A text as JSON, without the quotes. */
export function inQuotes(text: string): string {
  return JSON.stringify(text).slice(1, -1);
}

async function* pieces(
  parts: Iterable<string>,
  beforeEach: () => Promise<void>,
  onTaken: () => void,
) {
  let piece = '';
  for (const text of parts) {
    piece += text;
    if (piece.length < PIECE_BYTES) continue;
    await beforeEach();
    yield Buffer.from(piece);
    onTaken();
    await nextTurn();
    piece = '';
  }
  await beforeEach();
  yield Buffer.from(piece);
}

/** Answers that wait for their turn, the first one first. */
const waiting: (() => void)[] = [];

/**
 * Lets one piece go out in each turn of the event loop, whichever answer it belongs to. A fast
 * reader takes all pieces at once. When every answer sent a piece in each turn, sixty answers
 * delayed all other callers by 250 ms of processor time.
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
