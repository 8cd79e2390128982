import { JsonTexts } from './json-walk.ts';
import type { Row, RowFormat } from './row.ts';

const LF = 0x0a;

/** Rows of an NDJSON file: one JSON text on each line. */
export class NdjsonFormat extends JsonTexts implements RowFormat {
  read(bytes: Buffer, start: number, line: number, isEnd: boolean): Row | undefined {
    const at = bytes.indexOf(LF, start);
    if (at === -1 && !isEnd) return undefined;
    const end = at === -1 ? bytes.length : at + 1;
    const row = { line, lineEnds: at === -1 ? 0 : 1, start, end };
    if (afterSpaces(bytes, start) >= end) return blankRow(row);
    return { ...row, isBlank: false, ...this.find(bytes, start, end) };
  }
}

type Extent = Pick<Row, 'line' | 'lineEnds' | 'start' | 'end'>;

export function blankRow(extent: Extent): Row {
  return { ...extent, isBlank: true, cells: [], paths: [], problem: undefined };
}

/** The offset of the first byte that is no JSON white space. */
export function afterSpaces(bytes: Uint8Array, start: number): number {
  let at = start;
  while (bytes[at] === 0x20 || (bytes[at]! >= 0x09 && bytes[at]! <= LF) || bytes[at] === 0x0d) at++;
  return at;
}

/** How many lines end between the offsets. `indexOf` would search all bytes after a row. */
export function lineEndsIn(bytes: Uint8Array, start: number, end: number): number {
  let count = 0;
  for (let at = start; at < end; at++) if (bytes[at] === LF) count++;
  return count;
}
