import { readBlocks } from '../src/blocks.ts';
import { type FormatOptions, readBeginning } from '../src/header.ts';
import type { Input } from '../src/input.ts';
import { replaceCells } from '../src/replace.ts';
import type { Cell } from '../src/row.ts';

/** An input that returns the bytes in pieces of one size. */
export function inputOf(bytes: Buffer, pieceBytes = bytes.length || 1): Input {
  const pieces: Buffer[] = [];
  for (let at = 0; at < bytes.length; at += pieceBytes)
    pieces.push(bytes.subarray(at, at + pieceBytes));
  return {
    name: 'the file',
    read: async () => pieces.shift(),
    unread: (piece: Buffer) => void pieces.unshift(piece),
  } as Partial<Input> as Input;
}

export const DEFAULTS: FormatOptions = {
  format: 'csv',
  fields: '1',
  delimiter: undefined,
  hasHeader: true,
};

/** All good rows, with their cells replaced. */
export async function edited(
  bytes: Buffer | string,
  options: Partial<FormatOptions>,
  replace: (value: string) => string = (value) => value,
  pieceBytes?: number,
) {
  const input = inputOf(Buffer.from(bytes as string), pieceBytes);
  const beginning = await readBeginning(input, { ...DEFAULTS, ...options }, false);
  const pieces = [beginning.bytes];
  const cells: Cell[] = [];
  const problems: string[] = [];
  let rows = 0;
  for await (const block of readBlocks(input, beginning.format, 1 + beginning.lineEnds)) {
    const replaced = await replaceCells(
      block,
      {
        operation: 'tokenize',
        ask: async (values) => values.map(replace),
        fields: 'any',
        rejectsPath: 'any',
      },
      beginning.format,
      new AbortController().signal,
    );
    pieces.push(replaced.bytes);
    for (const row of block.rows) {
      cells.push(...row.cells);
      if (!row.isBlank) rows++;
    }
    for (const { line, problem } of replaced.badRows)
      problems.push(`${line}: ${[problem!.field, problem!.reason].filter(Boolean).join(' ')}`);
  }
  return { output: Buffer.concat(pieces), cells, problems, rows };
}
