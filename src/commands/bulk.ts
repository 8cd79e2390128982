import { type Command, InvalidArgumentError } from 'commander';
import { isPolicy, type ReplaceJob } from '#bulk';
import { StandinError } from '#client';
import { shownField } from '#paths';
import { type ServiceSettings, serviceSettings } from '../config/config.ts';
import { OperatorError } from '../errors.ts';
import { count } from '../terminal.ts';
import {
  addFormat,
  conclude,
  contradictionOf,
  formatFor,
  jobOptions,
  type RowsEnd,
  runRows,
} from './bulk-options.ts';
import { BulkService } from './bulk-service.ts';
import { addedUp, command } from './command.ts';
import { isOneValue, type ReplaceOptions, replaceOne, wrongOptions } from './one-value.ts';
import { Progress } from './progress.ts';
import { refusingTokens } from './token-form.ts';

type Operation = ReplaceJob['operation'];

export function addTokenize(program: Command): void {
  addOperation(
    program,
    'tokenize',
    'Replace a value, or values in a CSV, TSV, NDJSON or JSON file, with tokens.',
    [
      'standin tokenize ann@example.com',
      'standin tokenize "4111 1111 1111 1111" --kind card',
      'standin tokenize customers.csv --fields email,full_name,phone -o out.csv',
      'standin tokenize orders.ndjson.gz --fields "customer.emails[*],customer.name" -o out.ndjson.gz',
      'standin tokenize customers.csv --policy -o out.csv',
      'standin tokenize customers.csv --fields email -o out.csv --rejects rejects.csv --resume',
    ],
  );
}

export function addDetokenize(program: Command): void {
  addOperation(program, 'detokenize', 'Replace a token, or tokens in a file, with the values.', [
    'standin detokenize urb@waovwde.dhq_tok',
    'standin detokenize out.csv --fields email,full_name,phone -o customers.csv',
    'standin detokenize - --format tsv --no-header --fields 2,3 -o - < out.tsv',
  ]);
}

function addOperation(
  program: Command,
  operation: Operation,
  description: string,
  examples: readonly string[],
): void {
  const made = command(program, operation, description, examples);
  if (operation === 'tokenize')
    made.option('--kind <kind>', 'of one value, as a field of the policy in force has it');
  made
    .argument(`<${operation === 'tokenize' ? 'value' : 'token'}-or-file>`, SUBJECT)
    .option('--value', 'take the argument as it is, even if a file has this name')
    .option('--fields <fields>', 'of a file: columns, or paths such as customer.emails[*]', addedUp)
    .option(
      '--policy [file]',
      'instead of --fields: those of the policy in force, with their kinds; refuse any other policy than the one in the file',
    )
    .option('-o, --output <file>', 'where the rows of a file go; "-": standard output');
  if (operation === 'detokenize')
    made.option('--bare', 'of a file: cells without a suffix may be tokens, as imported ones');
  else made.option('--retokenize', 'of a file: make tokens of what are tokens already');
  addFormat(made)
    .option('--timeout <seconds>', 'how long to try a request that gets no answer', seconds, 60)
    .option('--api-key-file <file>', 'file with the API key; default: STANDIN_API_KEY')
    .action((argument: string, options, itself: Command) => {
      const problem = wrongOptions(argument, options) ?? contradiction(options);
      if (problem !== undefined) itself.error(`error: ${problem}`);
      const service = serviceSettings(options.apiKeyFile);
      return isOneValue(argument, options)
        ? replaceOne(operation, argument, service, options)
        : bulk(operation, argument, service, options);
    });
}

const SUBJECT =
  'the name of an existing file, "-" for standard input, or else the text itself (--value, if it looks like a file). Other users of the machine can see it';

function contradiction(options: ReplaceOptions): string | undefined {
  if (options.fields !== undefined && options.policy !== undefined)
    return '--policy names the fields: leave --fields out';
  if (options.policy !== undefined && !options.header)
    return '--policy finds columns by their names, and --no-header says that there are none';
  if (options.policy === '-') return '--policy needs the name of a file, or none';
  if (options.json && options.output === '-')
    return '--json needs standard output for itself: name a file after -o';
  return contradictionOf(options);
}

function seconds(text: string): number {
  if (!/^[1-9]\d{0,5}$/.test(text))
    throw new InvalidArgumentError('It must be a whole number of seconds, 1 to 999999.');
  return Number(text);
}

/** @throws OperatorError */
async function bulk(
  operation: Operation,
  path: string,
  settings: ServiceSettings,
  options: ReplaceOptions,
): Promise<void> {
  const progress: Progress = new Progress({ unit: 'value', waitsFor: () => service.waitsFor });
  const onWait = () => progress.tick();
  const { timeout: timeoutS } = options;
  const service = new BulkService({ operation, service: settings, timeoutS, onWait });
  const isChecked = operation === 'tokenize' && !options.retokenize && !options.resume;
  let values = 0;
  const job: ReplaceJob = {
    ...jobOptions(options),
    operation,
    inputPath: path,
    outputPath: options.output!,
    format: formatFor(path, options),
    fields:
      options.policy === undefined ? options.fields! : await service.policyFields(options.policy),
    ask: isChecked ? refusingTokens(service.ask) : service.ask,
    takesBareTokens: options.bare,
    onProgress(count, share) {
      values += count;
      progress.advance(count, share);
    },
  };
  const end = await runRows(
    operation,
    () => job,
    progress,
    (cause) => {
      if (!(cause instanceof StandinError)) return undefined;
      const problem = service.problem(cause);
      // Another policy: it does not help to go on.
      if (cause.status === 412) throw new OperatorError(`${problem}.`);
      return problem;
    },
  );
  report(job, end, values, options);
  conclude(end);
}

/** @param values of this run only; earlier runs may have written rows of the same files */
function report(
  { operation, outputPath, ...job }: ReplaceJob,
  { is_complete: isComplete, rows, rejected, replaced, fields, seconds }: RowsEnd,
  values: number,
  { json }: ReplaceOptions,
): void {
  const valuesPerSecond = Math.round(values / Math.max(seconds, 0.001));
  const summary = {
    is_complete: isComplete,
    rows,
    rejected,
    replaced: Object.fromEntries(replaced),
    ...(fields.length > 0 && { fields: Object.fromEntries(fields) }),
    ...{ values, seconds, values_per_second: valuesPerSecond },
  };
  const inWords = [
    `${operation}d ${count(values, 'value')} in ${seconds} s (${count(valuesPerSecond)}/s)`,
    `${count(rows, 'row')}, ${rejected === 0 ? 'none' : count(rejected)} rejected`,
    `replaced: ${replaced.map(([field, cells]) => `${shownField(field)} ${count(cells)}`).join(', ') || 'nothing'}`,
    ...fields
      .filter(([, found]) => found < rows && (found > 0 || !isPolicy(job.fields)))
      .map(([field, found]) => `${field} is in ${count(found)} of ${count(rows, 'row')}`),
  ].join('; ');
  const output = outputPath === '-' ? process.stderr : process.stdout;
  output.write(`${json ? JSON.stringify(summary) : `${inWords}.`}\n`);
}
