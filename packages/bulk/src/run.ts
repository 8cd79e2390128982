import { type Block, inOrder, MAX_CELLS, readBlocks, untilStopped } from './blocks.ts';
import { BulkFiles, NOWHERE, nameFiles } from './files.ts';
import { type Beginning, readBeginning } from './header.ts';
import { Input } from './input.ts';
import { checkFiles, type Job, type Position, type Take } from './job.ts';
import { type Replaced, replaceCells } from './replace.ts';

/** Most blocks that are in work, or wait for an earlier block to be written. */
const BLOCKS_AT_ONCE = 4;

/** How a run ended. */
export interface RunEnd extends Position {
  readonly is_complete: boolean;
  /** Whether --resume can continue an incomplete run. */
  readonly isResumable: boolean;
  /** Why the run failed, if `stop` did not end it. */
  readonly error?: Error;
}

/**
 * Replaces the named cells of a file. Rows keep their order, and memory is bounded.
 * @param stop ends the run early, and keeps the rows that are written
 * @throws BulkError before the first write
 */
export async function runBulk(job: Job, stop: AbortSignal): Promise<RunEnd> {
  const input = await Input.open(job.inputPath, job.decode);
  try {
    const checkpoint = await checkFiles(job, input);
    if (checkpoint?.is_complete) {
      await nameFiles(job);
      return { ...checkpoint.position, is_complete: true, isResumable: false };
    }
    const hasRows = (checkpoint?.position.rows ?? 0) > 0;
    // Standard input may come only after the run was stopped.
    const beginning = await untilStopped(readBeginning(input, job, hasRows), stop);
    if (beginning === undefined) return { ...NOWHERE, is_complete: false, isResumable: false };
    const files = await BulkFiles.open(job, input, beginning, checkpoint);
    try {
      if (checkpoint !== undefined) await input.seek(checkpoint.position.input_bytes);
      return await replaceAll(job, input, beginning, files, stop);
    } finally {
      await files.close();
    }
  } finally {
    input.close();
  }
}

/** The most cells in a block that no request carries. */
const MAX_TAKEN_CELLS = 4_000;

async function taken({ rows }: Block, take: Take, signal: AbortSignal): Promise<Replaced> {
  const full = rows.filter((row) => !row.isBlank);
  await take(full, signal);
  const badRows = rows.filter(({ problem }) => problem !== undefined);
  return { bytes: Buffer.alloc(0), badRows, values: full.length - badRows.length };
}

async function replaceAll(
  job: Job,
  input: Input,
  { format }: Beginning,
  files: BulkFiles,
  stop: AbortSignal,
): Promise<RunEnd> {
  const failed = new AbortController();
  const signal = AbortSignal.any([stop, failed.signal]);
  const work = async (block: Block) => ({
    block,
    replaced: await ('take' in job
      ? taken(block, job.take, signal)
      : replaceCells(block, job, format, signal)),
  });
  try {
    const cells = 'take' in job ? MAX_TAKEN_CELLS : MAX_CELLS;
    const blocks = readBlocks(input, format, files.position.line, cells);
    for await (const { block, replaced } of inOrder(blocks, work, BLOCKS_AT_ONCE, signal)) {
      await files.write(block.rows, block.bytes, replaced);
      job.onProgress(replaced.values, input.shareBefore(files.position.input_bytes));
    }
    await files.finish();
    return { ...files.position, is_complete: true, isResumable: false };
  } catch (error) {
    failed.abort(error);
    // Report the failure that ended the run, not a later failure that it causes.
    const canResume = await files.leave(error);
    const end = { ...files.position, is_complete: false, isResumable: canResume };
    return stop.aborted ? end : { ...end, error: error as Error };
  }
}
