import type { Input } from './input.ts';
import { BulkError, MAX_ROW_BYTES, type Row, type RowFormat } from './row.ts';

/** The most cells in a block, which is one request. */
export const MAX_CELLS = 2_000;

/** Consecutive rows, which are read, sent and written together. */
export interface Block {
  readonly bytes: Buffer;
  readonly rows: readonly Row[];
}

/**
 * Reads the rows of an input, in blocks.
 * @param line number of the first row's line
 * @throws BulkError
 */
export async function* readBlocks(
  input: Input,
  format: RowFormat,
  line: number,
  maxCells = MAX_CELLS,
): AsyncGenerator<Block, undefined> {
  let rest: Buffer = Buffer.alloc(0);
  // An incomplete row is scanned again only at twice its length, so a long row costs linear time.
  let wanted = 0;
  for (let isEnd = false, next = line; !isEnd; ) {
    const chunk = await input.read();
    isEnd = chunk === undefined;
    const bytes: Buffer = chunk === undefined ? rest : Buffer.concat([rest, chunk]);
    if (bytes.length < wanted && !isEnd) {
      rest = bytes;
      continue;
    }
    let done = 0;
    for (const rows of readRows(bytes, format, next, isEnd, maxCells)) {
      const last = rows.at(-1)!;
      done = last.end;
      next = last.line + last.lineEnds;
      yield { bytes, rows };
    }
    rest = bytes.subarray(done);
    wanted = done === 0 ? Math.min(2 * rest.length, MAX_ROW_BYTES + 1) : 0;
    if (rest.length > MAX_ROW_BYTES)
      throw new BulkError(
        `The row that begins on line ${next} is longer than ${MAX_ROW_BYTES} bytes: does a quote in it never close? Of a JSON file, only the items of one array are rows`,
      );
  }
  return undefined;
}

/** All complete rows in the bytes, in groups of at most this many cells. */
function* readRows(
  bytes: Buffer,
  format: RowFormat,
  line: number,
  isEnd: boolean,
  maxCells: number,
): Generator<readonly Row[]> {
  let rows: Row[] = [];
  let cells = 0;
  let next = line;
  try {
    for (let start = 0; start < bytes.length; start = rows.at(-1)!.end) {
      const row = format.read(bytes, start, next, isEnd);
      if (row === undefined) break;
      if (cells + row.cells.length > maxCells && rows.length > 0) {
        yield rows;
        rows = [];
        cells = 0;
      }
      rows.push(row);
      cells += row.cells.length;
      next = row.line + row.lineEnds;
    }
  } catch (error) {
    // The rows before the faulty one are still replaced.
    if (rows.length > 0) yield rows;
    throw error;
  }
  if (rows.length > 0) yield rows;
}

/**
 * Works on several items at once, and yields the results in the order of the items. A slow source
 * delays no result. If the source fails, the earlier results still come first.
 * @param source queues calls of `next`, as a generator does
 * @param atOnce most items that are in work or wait for an earlier result
 * @param stop ends the iteration at once, with the reason of the signal
 */
export async function* inOrder<T, R>(
  source: AsyncGenerator<T, undefined>,
  work: (item: T) => Promise<R>,
  atOnce: number,
  stop: AbortSignal,
): AsyncGenerator<R, undefined> {
  const begin = async () => {
    const next = await source.next();
    stop.throwIfAborted();
    return next.done ? next : { done: false as const, value: await work(next.value) };
  };
  const begun: ReturnType<typeof begin>[] = [];
  for (;;) {
    while (begun.length < atOnce) {
      begun.push(begin());
      // A failure is thrown in its turn.
      begun.at(-1)!.catch(() => {});
    }
    const next = await untilStopped(begun[0]!, stop);
    if (next === undefined) throw stop.reason;
    begun.shift();
    if (next.done) return undefined;
    yield next.value;
  }
}

/** The result of work; undefined: stopped first. */
export async function untilStopped<T>(work: Promise<T>, stop: AbortSignal): Promise<T | undefined> {
  let end = (): void => {};
  // A race of one promise for all work would keep all results.
  const stopped = new Promise<undefined>((resolve) => {
    end = () => resolve(undefined);
    // What was stopped before sends no event any more.
    if (stop.aborted) end();
    stop.addEventListener('abort', end);
  });
  return Promise.race([stopped, work]).finally(() => stop.removeEventListener('abort', end));
}
