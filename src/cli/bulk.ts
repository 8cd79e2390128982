import { type Command, InvalidArgumentError, Option } from 'commander';
import type { BulkOptions } from '../commands/bulk.ts';
import { serviceSettings } from '../config.ts';
import { command } from './command.ts';

export function addBulk(program: Command): void {
  addOperation(program, 'tokenize', 'Replace values in a CSV, TSV or NDJSON file by tokens.', [
    'standin tokenize customers.csv --fields email,full_name,phone -o out.csv',
    'standin tokenize orders.ndjson.gz --fields "customer.emails[*],customer.name" -o out.ndjson.gz',
    'standin tokenize customers.csv --fields email -o out.csv --rejects rejects.csv --resume',
  ]);
  addOperation(program, 'detokenize', 'Replace tokens in a file by the values behind them.', [
    'standin detokenize out.csv --fields email,full_name,phone -o customers.csv',
    'standin detokenize - --format tsv --no-header --fields 2,3 -o - < out.tsv',
  ]);
}

function addOperation(
  program: Command,
  operation: 'tokenize' | 'detokenize',
  description: string,
  examples: readonly string[],
): void {
  command(program, `${operation} <file>`, `${description} "-": standard input.`, examples)
    .requiredOption('--fields <fields>', 'names of columns, or paths such as customer.emails[*]')
    .requiredOption('-o, --output <file>', 'where the rows go; "-": standard output')
    .addOption(
      new Option('--format <format>', 'default: by the name of the file').choices([
        'csv',
        'tsv',
        'ndjson',
      ]),
    )
    .option('--delimiter <character>', 'between cells, or "tab"; default: as found', delimiter)
    .option('--no-header', 'the first line is a row; --fields has numbers of columns, from 1')
    .option('--rejects <file>', 'tell bad rows there and go on; default: stop at the first one')
    .option('--rejected-rows <file>', 'with --rejects: the bad rows themselves, as they were')
    .option('--resume', 'go on with a run that did not end')
    .option('--force', 'replace files that exist, and begin anew')
    .option('--timeout <seconds>', 'how long to try while there is no answer', seconds, 60)
    .option('--api-key-file <file>', 'file of the API key; default: STANDIN_API_KEY')
    .action(async (file: string, options, itself: Command) => {
      const problem = contradiction(options);
      if (problem !== undefined) itself.error(`error: ${problem}`);
      const service = serviceSettings(options.apiKeyFile);
      const { bulk } = await import('../commands/bulk.ts');
      return bulk(operation, file, service, options);
    });
}

function contradiction(options: BulkOptions): string | undefined {
  if (options.resume && options.force) return '--resume goes on, --force begins anew: give one';
  if (options.rejectedRows !== undefined && options.rejects === undefined)
    return '--rejected-rows needs --rejects, which says why';
  if (options.json && options.output === '-')
    return '--json prints where the rows go: name a file after -o';
  return options.rejects === '-' || options.rejectedRows === '-'
    ? '--rejects and --rejected-rows need names of files'
    : undefined;
}

/** One ASCII character that is no part of quoting or of a line end. */
function delimiter(text: string): string {
  const character = text === 'tab' || text === '\\t' ? '\t' : text;
  if (!/^[\t\x20-\x7e]$/.test(character) || character === '"')
    throw new InvalidArgumentError('It must be one ASCII character, not a quote, or tab.');
  return character;
}

function seconds(text: string): number {
  if (!/^[1-9]\d{0,5}$/.test(text))
    throw new InvalidArgumentError('It must be a whole number of seconds, 1 to 999999.');
  return Number(text);
}
