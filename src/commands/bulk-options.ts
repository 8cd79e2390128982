import { type Command, InvalidArgumentError, Option } from 'commander';
import { BadRowError, BulkError, type Job, type RunEnd, runBulk, WriteError } from '#bulk';
import { OperatorError } from '../errors.ts';
import { EXIT_INTERRUPTED, interruptible } from './command.ts';
import { lockOutput } from './output-lock.ts';
import type { Progress } from './progress.ts';

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
    .addOption(
      new Option('--format <format>', 'default: by the name of the file').choices([
        'csv',
        'tsv',
        'ndjson',
        'json',
      ]),
    )
    .option('--delimiter <character>', 'between cells, or "tab"; default: as found', delimiter)
    .option('--no-header', 'the first line is a row; fields are numbers of columns, from 1')
    .option(
      '--rejects <file>',
      'report bad rows in this file and go on; default: stop at the first',
    )
    .option('--rejected-rows <file>', 'with --rejects: copy the bad rows to this file')
    .option('--resume', 'continue a run that did not end')
    .option('--force', 'overwrite existing files and start again');
}

/** What is wrong with the options together; undefined: nothing. */
export function contradictionOf(options: FileOptions): string | undefined {
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

const FORMATS: Record<string, Job['format']> = {
  csv: 'csv',
  tsv: 'tsv',
  json: 'json',
  ndjson: 'ndjson',
  jsonl: 'ndjson',
};

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
  if (Object.hasOwn(FORMATS, extension)) return FORMATS[extension]!;
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

const TICK_MS = 1_000;

export interface RowsEnd extends RunEnd {
  readonly seconds: number;
}

/**
 * Runs a job until it ends or Ctrl-C stops it.
 * @param problemOf the words for a failure that is none of the files
 * @throws OperatorError with the remedy
 */
export async function runRows(
  operation: Job['operation'],
  jobFor: (stop: AbortSignal) => Job | Promise<Job>,
  progress: Progress,
  problemOf: (cause: Error, isResumable: boolean) => string | undefined,
): Promise<RowsEnd> {
  const startedAtMs = performance.now();
  const ticking = setInterval(() => progress.tick(), TICK_MS);
  const end = await interruptible(async (stop) => runBulk(await jobFor(stop), stop))
    .catch((error: Error) => ({ error, isResumable: false }))
    .finally(() => {
      clearInterval(ticking);
      progress.end();
    });
  if ('rows' in end && end.error === undefined)
    return { ...end, seconds: Math.round(performance.now() - startedAtMs) / 1000 };
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

/** Says with the exit code whether all rows were done. */
export function conclude({ is_complete: isComplete, isResumable, rejected }: RunEnd): void {
  if (!isComplete) {
    const remedy = isResumable ? '; to go on, run it again with --resume' : '';
    process.stderr.write(`standin: stopped${remedy}\n`);
    process.exitCode = EXIT_INTERRUPTED;
  } else if (rejected > 0) process.exitCode = EXIT_REJECTED;
}
