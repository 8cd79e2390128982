import type { Block } from './blocks.ts';
import type { Problem, Row, RowFormat } from './row.ts';

/** Sends values, and gives what replaces each. @throws RefusedValue */
export type Ask = (values: readonly string[], signal: AbortSignal) => Promise<string[]>;

/** The service takes none of the values because of one of them. */
export class RefusedValue extends Error {
  /** Of the first bad value; undefined: they are too much together. */
  readonly index: number | undefined;

  /** @param reason as in "is not a known token" */
  constructor(index: number | undefined, reason: string) {
    super(reason);
    this.index = index;
  }
}

export interface Replacing {
  readonly operation: 'tokenize' | 'detokenize';
  readonly ask: Ask;
  readonly format: RowFormat;
  /** Whether a bad row ends the run, so that what comes after it need not be asked for. */
  readonly stopsAtBadRow: boolean;
}

/** The rows of a block as they are written. */
export interface Replaced {
  /** Without the bad rows. */
  readonly bytes: Buffer;
  readonly badRows: readonly Row[];
  /** Cells that were replaced. */
  readonly values: number;
}

/** Replaces the cells of all good rows; equal values are sent once. */
export async function replaceCells(
  block: Block,
  replacing: Replacing,
  signal: AbortSignal,
): Promise<Replaced> {
  const { operation, format } = replacing;
  const found = new Map<string, Answer | undefined>();
  for (const row of block.rows) {
    if (operation === 'detokenize') row.problem ??= formProblem(row);
    if (row.problem === undefined) for (const { value } of row.cells) found.set(value, undefined);
  }
  const distinct = [...found.keys()];
  const answers = distinct.length === 0 ? [] : await askAll(distinct, replacing, signal);
  distinct.forEach((value, i) => {
    found.set(value, answers[i]);
  });
  return render(block, format, found);
}

/** What replaces a value, or why nothing does; undefined: an earlier one ends the run. */
type Answer = { readonly text: string } | { readonly reason: string } | undefined;

/** Printable ASCII with a suffix: everything that tokenize ever gives. */
const TOKEN_FORM = /^[\x20-\x7e]*_[a-z]{1,16}$/;

/**
 * A cell that cannot be a token is not sent: unknown tokens are counted against guessing, and a
 * client that sends many of them has to wait.
 */
function formProblem(row: Row): Problem | undefined {
  const cell = row.cells.find(({ value }) => !TOKEN_FORM.test(value));
  return cell && { field: cell.field, reason: 'is not a token' };
}

/**
 * The service refuses a request with one bad value as a whole, and names the first. What is before
 * that one is good; what is after it is asked for in two halves. So n bad values cost at most
 * 3 n + 1 requests, and each is counted as unknown about log n times; one by one, n times.
 */
async function askAll(
  values: readonly string[],
  replacing: Replacing,
  signal: AbortSignal,
): Promise<Answer[]> {
  if (values.length === 0) return [];
  try {
    return (await replacing.ask(values, signal)).map((text) => ({ text }));
  } catch (error) {
    if (!(error instanceof RefusedValue)) throw error;
    const bad = error.index ?? (values.length === 1 ? 0 : undefined);
    const middle = bad ?? values.length >> 1;
    const answers = await askAll(values.slice(0, middle), replacing, signal);
    if (answers.length < middle) return answers;
    if (bad !== undefined) {
      answers.push({ reason: error.message });
      if (replacing.stopsAtBadRow) return answers;
    }
    const after = values.slice(answers.length);
    const half = bad === undefined ? after.length : after.length >> 1;
    for (const part of [after.slice(0, half), after.slice(half)])
      answers.push(...(await askAll(part, replacing, signal)));
    return answers;
  }
}

/** Bytes of the block that something else takes the place of. */
interface Edit {
  readonly start: number;
  readonly end: number;
  readonly text: string;
}

function render(
  { bytes, rows }: Block,
  format: RowFormat,
  found: ReadonlyMap<string, Answer>,
): Replaced {
  const edits: Edit[] = [];
  const badRows: Row[] = [];
  let values = 0;
  for (const row of rows) {
    const count = edits.length;
    row.problem ??= edit(row, format, found, edits);
    if (row.problem === undefined) {
      values += row.cells.length;
    } else {
      edits.length = count;
      edits.push({ start: row.start, end: row.end, text: '' });
      badRows.push(row);
    }
  }
  const edited = apply(bytes.subarray(0, rows.at(-1)!.end), rows[0]!.start, edits);
  return { bytes: edited, badRows, values };
}

/** Adds the edits of a row, or tells why it cannot be written. */
function edit(
  row: Row,
  format: RowFormat,
  found: ReadonlyMap<string, Answer>,
  edits: Edit[],
): Problem | undefined {
  for (const cell of row.cells) {
    const answer = found.get(cell.value);
    if (answer === undefined) return { field: cell.field, reason: 'comes after a bad row' };
    if ('reason' in answer) return { field: cell.field, reason: answer.reason };
    const text = format.encode(cell, answer.text);
    if (text === undefined)
      return { field: cell.field, reason: 'would have a tab or line end in it, which no TSV has' };
    edits.push({ start: cell.start, end: cell.end, text });
  }
  return undefined;
}

function apply(bytes: Buffer, start: number, edits: readonly Edit[]): Buffer {
  let length = bytes.length - start;
  for (const { start, end, text } of edits) length += Buffer.byteLength(text) - (end - start);
  const edited = Buffer.allocUnsafe(length);
  let from = start;
  let to = 0;
  for (const { start, end, text } of edits) {
    to += bytes.copy(edited, to, from, start);
    to += edited.write(text, to);
    from = end;
  }
  bytes.copy(edited, to, from);
  return edited;
}
