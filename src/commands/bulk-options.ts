import { type Command, InvalidArgumentError, Option } from 'commander';
import type { FormatOptions } from '#bulk';
import { OperatorError } from '../errors.ts';

/** Options of commands that read a file of rows. */
export interface FileOptions {
  readonly format?: FormatOptions['format'];
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

/** All rows were read, but some were rejected and are missing in the output. */
export const EXIT_REJECTED = 3;

const FORMATS: Record<string, FormatOptions['format']> = {
  csv: 'csv',
  tsv: 'tsv',
  json: 'json',
  ndjson: 'ndjson',
  jsonl: 'ndjson',
};

/** Files that people try. With --format csv, their bytes would be taken for cells. */
const NO_TEXT = /\.(xlsx?|ods|parquet|avro|zip|pdf)$/i;

export function formatFor(path: string, { format, delimiter, header }: FileOptions) {
  const found = format ?? formatOf(path);
  if ((found === 'ndjson' || found === 'json') && (delimiter !== undefined || !header))
    throw new OperatorError('--delimiter and --no-header are for csv and tsv: leave them out');
  return found;
}

function formatOf(path: string): FormatOptions['format'] {
  const extension = /\.([a-z]+)(?:\.gz)?$/i.exec(path)?.[1]?.toLowerCase() ?? '';
  if (Object.hasOwn(FORMATS, extension)) return FORMATS[extension]!;
  if (NO_TEXT.test(path))
    throw new OperatorError(`${path} is not a text file: save it as CSV, TSV, NDJSON or JSON.`);
  const name = path === '-' ? 'Standard input' : path;
  throw new OperatorError(
    `${name} does not show its format: add --format csv, tsv, ndjson or json`,
  );
}
