import { existsSync } from 'node:fs';
import type { Command } from 'commander';
import { type Ask, BulkError, isPolicy, RefusedValue, type ReplaceJob } from '#bulk';
import { StandinError } from '#client';
import { shownField } from '#paths';
import { type ServiceSettings, serviceSettings } from '../config/config.ts';
import { OperatorError } from '../errors.ts';
import { count, shownLines } from '../terminal.ts';
import {
  addFormat,
  type FileOptions,
  formatFor,
  jobOptions,
  type RowsEnd,
  runRows,
} from './bulk-options.ts';
import { BulkService } from './bulk-service.ts';
import { addedUp, command, type OutputOptions, whole } from './command.ts';
import { Progress } from './progress.ts';

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
      const problem = contradiction(argument, options);
      if (problem !== undefined) itself.error(`error: ${problem}`);
      const service = serviceSettings(options.apiKeyFile);
      return isOneValue(argument, options)
        ? replaceOne(operation, argument, service, options)
        : bulk(operation, argument, service, options);
    });
}

const SUBJECT =
  'the name of an existing file, "-" for standard input, or else the text itself (--value, if it looks like a file). Other users of the machine can see it';

/** A contradiction between the options and the argument, in words; undefined: none. */
function contradiction(argument: string, options: ReplaceOptions): string | undefined {
  const { fields, policy, output, kind } = options;
  if (options.value)
    return namesFileOption(options) ? '--value takes no options for files' : undefined;
  if (isOneValue(argument, options))
    return kind === undefined && FILE_FORM.test(argument)
      ? 'there is no such file: correct the name; or add --value, if the argument is the text itself'
      : undefined;
  if (kind !== undefined)
    return '--kind is for one value: the policy has the kinds of a file (--policy)';
  if ((fields === undefined && policy === undefined) || output === undefined)
    return `${argument === '-' ? 'standard input' : `the file ${argument}`} needs --fields or --policy, and --output; for the text itself, add --value`;
  if (fields !== undefined && policy !== undefined)
    return '--policy names the fields: leave --fields out';
  if (policy !== undefined && !options.header)
    return '--policy finds columns by their names, and --no-header says that there are none';
  if (policy === '-') return '--policy needs the name of a file, or none';
  return options.json && output === '-'
    ? '--json needs standard output for itself: name a file after -o'
    : undefined;
}

const seconds = whole('a whole number of seconds, 1 to 999999', 1, 999_999);

/** @throws OperatorError */
async function bulk(
  operation: Operation,
  path: string,
  settings: ServiceSettings,
  options: ReplaceOptions,
): Promise<void> {
  const progress: Progress = new Progress({ unit: 'value', waitsFor: () => service.waitsFor });
  const service = new BulkService(operation, settings, options.timeout, () => progress.tick());
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

/** Of tokenize and detokenize. */
interface ReplaceOptions extends OutputOptions, FileOptions {
  readonly fields?: string;
  /** The name of a document; true: the policy in force. */
  readonly policy?: string | true;
  /** "-": standard output. */
  readonly output?: string;
  /** The argument is the value, also if a file has this name. */
  readonly value?: boolean;
  /** Of the value, in the policy. */
  readonly kind?: string;
  /** Of detokenize: whether tokens may lack a suffix. */
  readonly bare?: boolean;
  /** Of tokenize: whether the values may be tokens already. */
  readonly retokenize?: boolean;
  /** Seconds for one request with all its attempts. */
  readonly timeout: number;
}

/** Whether the argument of tokenize or detokenize is a value and not the name of a file. */
function isOneValue(argument: string, options: ReplaceOptions): boolean {
  if (options.value) return true;
  return argument !== '-' && !namesFileOption(options) && !existsSync(argument);
}

/** Options that only a file takes. */
const OF_FILES = [
  ...(['fields', 'policy', 'output', 'format', 'delimiter'] as const),
  ...(['rejects', 'rejectedRows', 'resume', 'force'] as const),
];

function namesFileOption(options: ReplaceOptions): boolean {
  return !options.header || OF_FILES.some((name) => options[name] !== undefined);
}

/**
 * Prints the token of a value, or the value of a token.
 * @throws OperatorError, which does not have the argument in it
 */
async function replaceOne(
  operation: ReplaceJob['operation'],
  argument: string,
  settings: ServiceSettings,
  { timeout: timeoutS, kind, json }: ReplaceOptions,
): Promise<void> {
  const service = new BulkService(operation, settings, timeoutS);
  try {
    const field = kind === undefined ? '' : await fieldOf(service, kind);
    const [answer] = await service.ask([argument], new AbortController().signal, [field]);
    const isTokenize = operation === 'tokenize';
    const name = isTokenize ? 'token' : 'value';
    const suffix = isTokenize ? suffixOfTokens([argument], [answer!]) : undefined;
    if (suffix !== undefined)
      process.stderr.write(
        `standin: the argument looks like a token already: it ends in ${suffix}\n`,
      );
    const text = json ? JSON.stringify({ [name]: answer }) : answer!;
    // A program gets the exact value.
    process.stdout.write(`${process.stdout.isTTY ? shownLines(text) : text}\n`);
  } catch (error) {
    if (error instanceof RefusedValue) throw new OperatorError(`The argument ${error.message}.`);
    if (error instanceof StandinError) throw new OperatorError(`${service.problem(error)}.`);
    throw error;
  }
}

/** A path of the policy in force that makes a value one of this kind. */
async function fieldOf(service: BulkService, kind: string): Promise<string> {
  const { version, fields } = await service.usePolicy();
  const field = fields.find((one) => one.kind === kind);
  if (field !== undefined) return field.path;
  const kinds = [...new Set(fields.map((one) => one.kind))].join(', ') || 'none';
  throw new OperatorError(
    `No field of the policy (version ${version}) has the kind ${kind}; they have: ${kinds}.`,
  );
}

/** The end of a token, from its last `_`. */
const SUFFIX = /_[A-Za-z0-9]{1,16}$/;

/**
 * The suffix of the vault, if all values end in it; undefined: they are no tokens. A value can end
 * so by chance. Only a detokenize could tell, which the client may not be allowed to do, and which
 * counts as a guess.
 * @param tokens what the vault gave for the values
 */
function suffixOfTokens(values: readonly string[], tokens: readonly string[]): string | undefined {
  const [suffix] = SUFFIX.exec(tokens[0] ?? '') ?? [];
  const haveIt = (texts: readonly string[]) => texts.every((text) => text.endsWith(suffix!));
  return suffix !== undefined && haveIt(values) && haveIt(tokens) ? suffix : undefined;
}

/** Of a text that may be meant as the name of a file. A slash can also be in a token. */
const FILE_FORM =
  /\.(csv|tsv|json|ndjson|jsonl|gz|txt|xlsx|parquet)$|[\\/](?!.*_[A-Za-z0-9]{1,16}$)/is;

/** Ends a run whose first rows have a field of tokens, before it writes. */
function refusingTokens(ask: Ask): Ask {
  let isChecked = false;
  return async (values, signal, fields) => {
    // Not the requests that are under way beside the first one.
    const isFirst = !isChecked;
    isChecked = true;
    const tokens = await ask(values, signal, fields).catch((error) => {
      if (isFirst) isChecked = false;
      throw error;
    });
    for (const field of isFirst ? new Set(fields) : []) {
      const ofField = (_: string, i: number) => fields[i] === field;
      const suffix = suffixOfTokens(values.filter(ofField), tokens.filter(ofField));
      if (suffix !== undefined)
        throw new BulkError(
          `The field ${JSON.stringify(field)} has tokens already: all values in the first rows end in ${suffix}, as tokens of this vault do. Leave the field out, or add --retokenize to make tokens of tokens`,
        );
    }
    return tokens;
  };
}
