import { skipSpace } from '#paths';
import { JsonTexts } from './json-walk.ts';
import { blankRow, type Row, type RowFormat } from './row.ts';

/** Rows of an NDJSON file: one JSON text on each line. */
export class NdjsonFormat extends JsonTexts implements RowFormat {
  read(bytes: Buffer, start: number, line: number, isEnd: boolean): Row | undefined {
    const text = this.textOf(bytes);
    const at = text.indexOf('\n', start);
    if (at === -1 && !isEnd) return undefined;
    const end = at === -1 ? bytes.length : at + 1;
    const row = { line, lineEnds: at === -1 ? 0 : 1, start, end };
    const first = skipSpace(text, start);
    if (first >= end) return blankRow(row);
    return { ...row, isBlank: false, ...this.find(bytes, first, end) };
  }
}
