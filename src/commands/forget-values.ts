import { readFileSync } from 'node:fs';
import { errorCode, OperatorError } from '../errors.ts';
import type { VaultOptions } from '../options.ts';
import {
  type ForgetRequest,
  type ForgetResult,
  type Forgetting,
  forget,
} from '../service/records/forget.ts';
import type { ReadSettings } from '../service/records/verify.ts';
import type { Vault } from '../service/vault.ts';
import { count } from '../terminal.ts';
import { DEFAULT_SPACE, type Durable, type Value } from '../types.ts';
import { interruptible } from './command.ts';
import {
  demandTerminal,
  type ForgetOptions,
  forgettingIn,
  MAX_UNKNOWN_LINES,
  NO_WAY_BACK,
  report,
  type Tally,
} from './forget-report.ts';
import { Progress } from './progress.ts';
import { isConfirmed } from './question.ts';
import { watched } from './records.ts';

export interface ValuesOptions extends ForgetOptions {
  readonly scan?: boolean;
  /** Records a second. */
  readonly rate?: number;
}

interface ValueLine {
  readonly line: number;
  readonly value: Value;
}

/** A scan has all of them in memory. */
const MAX_VALUES = 100_000;
const BATCH_VALUES = 100;

/**
 * Forgets every token of values. Prints no value.
 * @throws OperatorError when confirmation is needed, but nobody can be asked
 */
export async function forgetValues(
  vault: Vault,
  vaultOptions: VaultOptions,
  file: string,
  options: ValuesOptions,
): Promise<Durable<object>> {
  const { space = DEFAULT_SPACE, dryRun: isDryRun = false } = options;
  const isSure = options.yes === true || isDryRun;
  if (!isSure) demandTerminal(file);
  const lines = valuesIn(file);
  if (!isSure) await confirm(lines.length);
  const parts = forgettingIn(vault, vaultOptions);
  const values = lines.map(({ value }) => value);
  const request = { tokens: [], values, space, isDryRun };
  if (options.scan !== true)
    return report(vault, tallyOf(lines, await searched(parts, request)), options);
  const scan = (_: Vault, settings: ReadSettings) => forget(parts, request, settings);
  const { result } = await watched(vault, vaultOptions, options, scan);
  return report(vault, tallyOf(lines, result), options);
}

/** One value a line; in an NDJSON file, each line is a JSON string. */
function valuesIn(file: string): ValueLine[] {
  const isJson = /\.(ndjson|jsonl)$/i.test(file);
  const lines = textIn(file)
    .split('\n')
    .flatMap((text, i): ValueLine[] => {
      const value = text.endsWith('\r') ? text.slice(0, -1) : text;
      return value === ''
        ? []
        : [{ line: i + 1, value: (isJson ? parsed(value, i + 1) : value) as Value }];
    });
  if (lines.length <= MAX_VALUES) return lines;
  throw new OperatorError(
    `${file} has more than ${count(MAX_VALUES, 'value')}: forget them in several files.`,
  );
}

function textIn(file: string): string {
  try {
    return new TextDecoder('utf-8', { fatal: true }).decode(readFileSync(file === '-' ? 0 : file));
  } catch (error) {
    const code = errorCode(error);
    throw new OperatorError(
      `${file} cannot be read (${code}). Name a file of values in UTF-8, one a line.`,
    );
  }
}

function parsed(text: string, line: number): string {
  try {
    const value: unknown = JSON.parse(text);
    if (typeof value === 'string') return value;
  } catch {
    // Said below.
  }
  throw new OperatorError(`Line ${line} is not a JSON string. Nothing was forgotten.`);
}

async function confirm(values: number): Promise<void> {
  const question = `Every token of ${count(values, 'value')} will be forgotten. ${NO_WAY_BACK}`;
  if (await interruptible((stop) => isConfirmed(question, stop))) return;
  throw new OperatorError('Nothing was forgotten.');
}

type Found = Omit<ForgetResult, 'tokens'>;

/** Works through the values, a batch at a time, until Ctrl-C. */
function searched(parts: Forgetting, request: ForgetRequest): Promise<Found> {
  const { values } = request;
  const progress = new Progress({ unit: 'value', total: values.length });
  return interruptible(async (stop) => {
    const results: ForgetResult[] = [];
    for (let from = 0; from < values.length && !stop.aborted; from += BATCH_VALUES) {
      const batch = values.slice(from, from + BATCH_VALUES);
      results.push(await forget(parts, { ...request, values: batch }));
      progress.advance(batch.length);
    }
    if (values.length > BATCH_VALUES) progress.end();
    const states = results.flatMap((result) => result.values);
    return {
      values: states,
      known: results.reduce((sum, { known }) => sum + known, 0),
      forgotten: results.reduce((sum, { forgotten }) => sum + forgotten, 0),
      notSearched: [...new Set(results.flatMap(({ notSearched }) => notSearched))],
      isComplete: states.length === values.length,
    };
  });
}

function tallyOf(lines: readonly ValueLine[], found: Found): Tally {
  const unknown = lines.filter((_, i) => found.values[i] === 'unknown');
  const unknownLines = unknown.slice(0, MAX_UNKNOWN_LINES).map(({ line }) => line);
  return { ...found, isStopped: !found.isComplete, unknown: unknown.length, unknownLines };
}
