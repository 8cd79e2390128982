import { type Block, readBlocks } from './blocks.ts';
import { type Checkpoint, checkpointOf, type Position, removeCheckpoint } from './checkpoint.ts';
import { BulkFiles, nameFiles } from './files.ts';
import { type Beginning, readBeginning } from './header.ts';
import { inOrder } from './in-order.ts';
import { Input } from './input.ts';
import { checkFiles, isResumable, type Job } from './job.ts';
import { replaceCells } from './replace.ts';

/** Blocks under way, or waiting for one before them to be written. */
const BLOCKS_AT_ONCE = 4;

/** How a run ended. */
export interface RunEnd extends Position {
  readonly is_complete: boolean;
  /** Of a run that is not complete: whether --resume goes on with it. */
  readonly isResumable: boolean;
}

/** Something ended a run before its end. */
export class RunFailure extends Error {
  /** Whether `--resume` goes on from there. */
  readonly isResumable: boolean;

  constructor(cause: unknown, canResume: boolean) {
    super('', { cause });
    this.isResumable = canResume;
  }
}

/**
 * Replaces the named cells of a file. Rows keep their order; what is under way is bounded.
 * @param stop ends it early, after what is written
 * @throws BulkError before anything was written, RunFailure after
 */
export async function runBulk(job: Job, stop: AbortSignal): Promise<RunEnd> {
  const input = await Input.open(job.inputPath);
  try {
    const checkpoint = await checkFiles(job, input);
    if (checkpoint?.is_complete) {
      await nameFiles(job);
      await removeCheckpoint(checkpointOf(job.outputPath));
      return { ...checkpoint.position, is_complete: true, isResumable: false };
    }
    const beginning = await untilStopped(readBeginning(input, job), stop);
    if (beginning === undefined) return { ...NOWHERE, is_complete: false, isResumable: false };
    const files = await openFiles(job, input, beginning, checkpoint);
    try {
      return await replaceAll(job, input, beginning, files, stop);
    } finally {
      await files.close();
    }
  } finally {
    input.close();
  }
}

/** undefined: it was stopped before, as when nobody types a header. */
async function untilStopped<T>(work: Promise<T>, stop: AbortSignal): Promise<T | undefined> {
  const stopped = new Promise<undefined>((resolve) => {
    stop.addEventListener('abort', () => resolve(undefined), { once: true });
  });
  return Promise.race([work, stopped]);
}

const NOWHERE: Position = { input_bytes: 0, line: 1, rows: 0, values: 0, rejected: 0 };

async function openFiles(
  job: Job,
  input: Input,
  { bytes, lineEnds }: Beginning,
  checkpoint: Checkpoint | undefined,
): Promise<BulkFiles> {
  const start = { ...NOWHERE, input_bytes: bytes.length, line: 1 + lineEnds };
  const position = checkpoint?.position ?? start;
  const files = await BulkFiles.open(job, input, bytes, position, checkpoint?.lengths ?? {});
  if (checkpoint !== undefined) await input.seek(position.input_bytes);
  return files;
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
  const replacing = { ...job, format, stopsAtBadRow: job.rejectsPath === undefined };
  const work = async (block: Block) => ({
    block,
    replaced: await replaceCells(block, replacing, signal),
  });
  try {
    const blocks = readBlocks(input, format, files.position.line);
    for await (const { block, replaced } of inOrder(blocks, work, BLOCKS_AT_ONCE, signal)) {
      await files.write(block.rows, block.bytes, replaced);
      job.onProgress(replaced.values, input.share);
    }
    await files.finish();
    return { ...files.position, is_complete: true, isResumable: false };
  } catch (error) {
    failed.abort(error);
    // What ended the run is what is told, not what else fails because of it.
    await files.leave().catch(() => {});
    const canResume = isResumable(job, input);
    if (stop.aborted) return { ...files.position, is_complete: false, isResumable: canResume };
    throw new RunFailure(error, canResume);
  }
}
