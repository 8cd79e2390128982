import { readBlocks } from '../src/blocks.ts';
import { type FormatOptions, readBeginning } from '../src/header.ts';
import type { Input } from '../src/input.ts';
import { replaceCells } from '../src/replace.ts';
import type { Cell } from '../src/row.ts';

/** Bytes as an input that gives them in pieces of a size. */
export function inputOf(bytes: Buffer, piece_bytes = bytes.length || 1): Input {
  const pieces: Buffer[] = [];
  for (let at = 0; at < bytes.length; at += piece_bytes)
    pieces.push(bytes.subarray(at, at + piece_bytes));
  return {
    name: 'the file',
    read: async () => pieces.shift(),
    unread: (piece: Buffer) => {
      if (piece.length > 0) pieces.unshift(piece);
    },
  } as Partial<Input> as Input;
}

export interface Edited {
  readonly output: Buffer;
  readonly cells: readonly Cell[];
  readonly problems: readonly string[];
  readonly rows: number;
}

const DEFAULTS: FormatOptions = {
  format: 'csv',
  fields: '1',
  delimiter: undefined,
  has_header: true,
};

/** All rows with their cells replaced; bad rows are left out. */
export async function edited(
  bytes: Buffer | string,
  options: Partial<FormatOptions>,
  replace: (value: string) => string = (value) => value,
  piece_bytes?: number,
): Promise<Edited> {
  const input = inputOf(Buffer.from(bytes as string), piece_bytes);
  const beginning = await readBeginning(input, { ...DEFAULTS, ...options });
  const pieces = [beginning.bytes];
  const cells: Cell[] = [];
  const problems: string[] = [];
  let rows = 0;
  for await (const block of readBlocks(input, beginning.format, 1 + beginning.line_ends)) {
    const replaced = await replaceCells(
      block,
      {
        operation: 'tokenize',
        ask: async (values) => values.map(replace),
        format: beginning.format,
        stops_at_bad_row: false,
      },
      new AbortController().signal,
    );
    pieces.push(replaced.bytes);
    for (const row of block.rows) {
      cells.push(...row.cells);
      if (!row.is_blank) rows++;
    }
    for (const { line, problem } of replaced.bad_rows)
      problems.push(`${line}: ${[problem!.field, problem!.reason].filter(Boolean).join(' ')}`);
  }
  return { output: Buffer.concat(pieces), cells, problems, rows };
}
