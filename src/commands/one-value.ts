import { existsSync } from 'node:fs';
import { RefusedValue, type ReplaceJob } from '#bulk';
import { StandinError } from '#client';
import type { ServiceSettings } from '../config/config.ts';
import { OperatorError } from '../errors.ts';
import { shownLines } from '../terminal.ts';
import type { FileOptions } from './bulk-options.ts';
import { BulkService } from './bulk-service.ts';
import type { OutputOptions } from './command.ts';
import { looksLikeFile, suffixOfTokens } from './token-form.ts';

/** Of tokenize and detokenize. */
export interface ReplaceOptions extends OutputOptions, FileOptions {
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
export function isOneValue(argument: string, options: ReplaceOptions): boolean {
  if (options.value) return true;
  return argument !== '-' && !namesFileOption(options) && !existsSync(argument);
}

/** What is wrong with the options for this argument; undefined: nothing. */
export function wrongOptions(argument: string, options: ReplaceOptions): string | undefined {
  if (options.value)
    return namesFileOption(options) ? '--value takes no options for files' : undefined;
  if (isOneValue(argument, options)) {
    const isFile = options.kind === undefined && looksLikeFile(argument);
    return isFile ? NO_FILE : undefined;
  }
  if (options.kind !== undefined)
    return '--kind is for one value: the policy has the kinds of a file (--policy)';
  const hasFields = options.fields !== undefined || options.policy !== undefined;
  if (hasFields && options.output !== undefined) return undefined;
  const what = argument === '-' ? 'standard input' : `the file ${argument}`;
  return `${what} needs --fields or --policy, and --output; for the text itself, add --value`;
}

const NO_FILE =
  'there is no such file: correct the name; or add --value, if the argument is the text itself';

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
export async function replaceOne(
  operation: ReplaceJob['operation'],
  argument: string,
  settings: ServiceSettings,
  { timeout: timeoutS, kind, json }: ReplaceOptions,
): Promise<void> {
  const service = new BulkService({ operation, service: settings, timeoutS, onWait: () => {} });
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
