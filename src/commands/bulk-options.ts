import {
  closeSync,
  constants,
  fstatSync,
  ftruncateSync,
  readFileSync,
  rmSync,
  statSync,
  writeSync,
} from 'node:fs';
import { resolve } from 'node:path';
import { type Command, InvalidArgumentError, Option } from 'commander';
import {
  BadRowError,
  BulkError,
  type Job,
  lockOf,
  type RunEnd,
  runBulk,
  WriteError,
  writing,
} from '#bulk';
import { lockPath } from '../embedded/lock.ts';
import { OperatorError } from '../errors.ts';
import { EXIT_INTERRUPTED } from './command.ts';
import { type Progress, watched } from './progress.ts';

/** Options of commands that read a file of rows. */
export interface FileOptions {
  readonly format?: Job['format'];
  readonly delimiter?: string;
  /** false: the first line is a row too. */
  readonly header: boolean;
  readonly rejects?: string;
  readonly rejectedRows?: string;
  readonly resume?: boolean;
  readonly force?: boolean;
}

export function addFormat(made: Command): Command {
  return made
    .addOption(new Option('--format <format>', 'default: by the name of the file').choices(FORMATS))
    .option('--delimiter <character>', 'between cells, or "tab"; default: as found', delimiter)
    .option('--no-header', 'the first line is a row; fields are numbers of columns, from 1')
    .option(
      '--rejects <file>',
      'report bad rows in this file and go on; default: stop at the first',
    )
    .option('--rejected-rows <file>', 'with --rejects: copy the bad rows to this file')
    .option('--resume', 'continue a run that did not end')
    .option('--force', 'overwrite existing files and start again')
    .hook('preAction', (_, called) => {
      const problem = contradictionOf(called.opts());
      if (problem !== undefined) called.error(`error: ${problem}`);
    });
}

/** A contradiction between options, in words; undefined: none. */
function contradictionOf(options: FileOptions): string | undefined {
  if (options.resume && options.force) return '--resume continues, --force starts again: give one';
  if (options.rejectedRows !== undefined && options.rejects === undefined)
    return '--rejected-rows needs --rejects, which says why';
  return options.rejects === '-' || options.rejectedRows === '-'
    ? '--rejects and --rejected-rows need names of files'
    : undefined;
}

/** One ASCII character that is not part of quoting or of a line end. */
function delimiter(text: string): string {
  const character = text === 'tab' || text === '\\t' ? '\t' : text;
  if (!/^[\t\x20-\x7e]$/.test(character) || character === '"')
    throw new InvalidArgumentError('It must be one ASCII character, not a quote, or tab.');
  return character;
}

const FORMATS = ['csv', 'tsv', 'ndjson', 'json'] as const;

/** Files that people try. With --format csv, their bytes would be taken for cells. */
const NO_TEXT = /\.(xlsx?|ods|parquet|avro|zip|pdf)$/i;

export function formatFor(path: string, { format, delimiter, header }: FileOptions): Job['format'] {
  const found = format ?? formatOf(path);
  if ((found === 'ndjson' || found === 'json') && (delimiter !== undefined || !header))
    throw new OperatorError('--delimiter and --no-header are for csv and tsv: leave them out');
  return found;
}

function formatOf(path: string): Job['format'] {
  const extension = /\.([a-z]+)(?:\.gz)?$/i.exec(path)?.[1]?.toLowerCase() ?? '';
  const format = FORMATS.find((one) => one === extension.replace('jsonl', 'ndjson'));
  if (format !== undefined) return format;
  if (NO_TEXT.test(path))
    throw new OperatorError(`${path} is not a text file: save it as CSV, TSV, NDJSON or JSON.`);
  const name = path === '-' ? 'Standard input' : path;
  throw new OperatorError(
    `${name} does not show its format: add --format csv, tsv, ndjson or json`,
  );
}

/** The part of a job that these options say. */
export function jobOptions(options: FileOptions) {
  return {
    delimiter: options.delimiter,
    hasHeader: options.header,
    rejectsPath: options.rejects,
    rejectedRowsPath: options.rejectedRows,
    isResume: options.resume ?? false,
    isForced: options.force ?? false,
    lock: lockOutput,
  };
}

export interface RowsEnd extends RunEnd {
  readonly seconds: number;
}

/**
 * Runs a job until it ends or Ctrl-C stops it. The exit code says whether all rows were done.
 * @param problemOf the words for a failure that is none of the files
 * @throws OperatorError with the remedy
 */
export async function runRows(
  operation: Job['operation'],
  jobFor: (stop: AbortSignal) => Job | Promise<Job>,
  progress: Progress,
  problemOf: (cause: Error, isResumable: boolean) => string | undefined,
): Promise<RowsEnd> {
  const { result: end, seconds } = await watched(progress, async (stop) =>
    runBulk(await jobFor(stop), stop).catch((error: Error) => ({ error, isResumable: false })),
  );
  if ('rows' in end && end.error === undefined) {
    conclude(end);
    return { ...end, seconds };
  }
  const { isResumable } = end;
  const error = end.error!;
  const again = isResumable
    ? ` The rows so far are kept: to go on, run standin ${operation} with the same options and --resume.`
    : '';
  if (error instanceof BadRowError)
    throw new OperatorError(
      `${error.message}. To leave bad rows out, name a file for them with --rejects.${again}`,
    );
  const isOfFiles = error instanceof BulkError;
  const problem = isOfFiles ? error.message : problemOf(error, isResumable);
  if (problem === undefined) throw error;
  const isPassing = !isOfFiles || error instanceof WriteError;
  throw new OperatorError(`${problem}.${isPassing ? again : ''}`);
}

/** All rows were read, but some were rejected and are missing in the output. */
const EXIT_REJECTED = 3;

function conclude({ is_complete: isComplete, isResumable, rejected }: RunEnd): void {
  if (!isComplete) {
    const remedy = isResumable ? '; to go on, run it again with --resume' : '';
    process.stderr.write(`standin: stopped${remedy}\n`);
    process.exitCode = EXIT_INTERRUPTED;
  } else if (rejected > 0) process.exitCode = EXIT_REJECTED;
}

const FLAGS = constants.O_RDWR | constants.O_CREAT | constants.O_NOFOLLOW;

/**
 * Keeps other runs from writing a file or folder until this process ends, however it ends. The lock
 * is on a file beside it, because a run replaces the file itself.
 * @throws BulkError when another run has it, or the file of the lock cannot be written
 */
export async function lockOutput(path: string): Promise<void> {
  const lock = lockOf(resolve(path));
  for (;;) {
    const fd = await writing(path, () => lockPath(lock, FLAGS));
    if (fd === undefined) throw isWritten(path, lock);
    // The run before removes the file at its end, perhaps between our open and our lock.
    if (statSync(lock, { throwIfNoEntry: false })?.ino === fstatSync(fd).ino) return sign(lock, fd);
    closeSync(fd);
  }
}

/** The content of a lock of ours: the process that took it last, or nothing. */
const SIGNATURE = /^\d*$/;

function sign(lock: string, fd: number): void {
  if (!SIGNATURE.test(readFileSync(fd, 'utf8')))
    throw new BulkError(`${lock} is in the way: it is no lock of this program`);
  process.once('exit', () => rmSync(lock, { force: true }));
  ftruncateSync(fd);
  writeSync(fd, String(process.pid), 0);
}

function isWritten(path: string, lock: string): BulkError {
  let who = '';
  try {
    who = ` (process ${readFileSync(lock, 'utf8')})`;
  } catch {
    // The other run ends at this moment, and has removed it.
  }
  return new BulkError(`Another run${who} is writing ${path}: wait until it ends, or end it first`);
}
