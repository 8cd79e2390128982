import type { Block } from './blocks.ts';
import { isPolicy } from './header.ts';
import type { ReplaceJob } from './job.ts';
import type { Cell, Problem, Row, RowFormat } from './row.ts';

/** The service refused the whole request because of one value. */
export class RefusedValue extends Error {
  /** Index of the first bad value; undefined: the request was too large. */
  readonly index: number | undefined;

  /** @param reason such as "is not a known token" */
  constructor(index: number | undefined, reason: string) {
    super(reason);
    this.index = index;
  }
}

type Replacing = Pick<
  ReplaceJob,
  'operation' | 'ask' | 'fields' | 'rejectsPath' | 'takesBareTokens'
>;

/** The rows of a block after replacement. */
export interface Replaced {
  /** The good rows. */
  readonly bytes: Buffer;
  readonly badRows: readonly Row[];
  /** How many cells were replaced. */
  readonly values: number;
}

/** Replaces the cells of all good rows. Equal values are sent only once. */
export async function replaceCells(
  block: Block,
  replacing: Replacing,
  format: RowFormat,
  signal: AbortSignal,
): Promise<Replaced> {
  const { operation, fields, takesBareTokens } = replacing;
  // Equal values of two fields can have different tokens, of kinds of a policy.
  const isByField = isPolicy(fields);
  const keyOf = ({ field, value }: Cell) => (isByField ? `${field}\0${value}` : value);
  const distinct = new Map<string, Cell>();
  for (const row of block.rows) {
    // A policy can have tokens without a suffix.
    if (operation === 'detokenize' && !isByField) row.problem ??= formProblem(row, takesBareTokens);
    if (row.problem === undefined) for (const cell of row.cells) distinct.set(keyOf(cell), cell);
  }
  const answers = await askAll([...distinct.values()], replacing, signal);
  const found = new Map([...distinct.keys()].map((key, i) => [key, answers[i]]));
  return render(block, format, (cell) => found.get(keyOf(cell)));
}

/** The replacement of a value, or why there is none; undefined: an earlier value ends the run. */
type ReplaceResult = { readonly text: string } | { readonly reason: string } | undefined;

/** Printable ASCII with a suffix: every token has this form. */
const TOKEN_FORM = /^[\x20-\x7e]*_[A-Za-z0-9]{1,16}$/;
/** An imported token, or one of a kind without suffix. */
const BARE_FORM = /^[\x20-\x7e]{1,1000}$/;

/**
 * A cell that cannot be a token is not sent. The service counts unknown tokens to prevent guessing,
 * and a client that sends many of them must wait.
 */
function formProblem(row: Row, takesBareTokens = false): Problem | undefined {
  const form = takesBareTokens ? BARE_FORM : TOKEN_FORM;
  const cell = row.cells.find(({ value }) => !form.test(value));
  return cell && { field: cell.field, reason: 'is not a token' };
}

/**
 * The service refuses a whole request for one bad value, and names the first bad value. The values
 * before it are good. The values after it go in two halves. So n bad values cost at most 3 n + 1
 * requests, and each counts as unknown about log n times. Without halves, it would count n times.
 */
async function askAll(
  cells: readonly Cell[],
  replacing: Replacing,
  signal: AbortSignal,
): Promise<ReplaceResult[]> {
  if (cells.length === 0) return [];
  try {
    const values = cells.map(({ value }) => value);
    const fields = cells.map(({ field }) => field);
    return (await replacing.ask(values, signal, fields)).map((text) => ({ text }));
  } catch (error) {
    if (!(error instanceof RefusedValue)) throw error;
    const bad = error.index ?? (cells.length === 1 ? 0 : undefined);
    const middle = bad ?? cells.length >> 1;
    const answers = await askAll(cells.slice(0, middle), replacing, signal);
    if (answers.length < middle) return answers;
    if (bad !== undefined) {
      answers.push({ reason: error.message });
      // The first bad row ends the run: the values after it are not sent.
      if (replacing.rejectsPath === undefined) return answers;
    }
    const after = cells.slice(answers.length);
    const half = bad === undefined ? after.length : after.length >> 1;
    for (const part of [after.slice(0, half), after.slice(half)])
      answers.push(...(await askAll(part, replacing, signal)));
    return answers;
  }
}

/** Bytes of the block, and the text that replaces them. */
type Edit = Pick<Cell, 'start' | 'end'> & { readonly text: string };

function render(
  { bytes, rows }: Block,
  format: RowFormat,
  answerTo: (cell: Cell) => ReplaceResult,
): Replaced {
  const edits: Edit[] = [];
  const badRows: Row[] = [];
  let values = 0;
  for (const row of rows) {
    const count = edits.length;
    row.problem ??= edit(row, format, answerTo, edits);
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

/** Adds the edits of a row, or returns the reason why the row cannot be written. */
function edit(
  row: Row,
  format: RowFormat,
  answerTo: (cell: Cell) => ReplaceResult,
  edits: Edit[],
): Problem | undefined {
  for (const cell of row.cells) {
    const answer = answerTo(cell);
    if (answer === undefined) return { field: cell.field, reason: 'comes after a bad row' };
    if ('reason' in answer) return { field: cell.field, reason: answer.reason };
    const text = format.encode(cell, answer.text);
    if (text === undefined)
      return {
        field: cell.field,
        reason: 'would contain a tab or line end, which TSV cannot hold',
      };
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
