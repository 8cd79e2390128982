import { once } from 'node:events';
import { createInterface } from 'node:readline/promises';
import { type Command, InvalidArgumentError } from 'commander';
import { type Config, parseConfig, readEnvironment } from '../config/config.ts';
import { errorOfChange, OperatorError } from '../errors.ts';
import { painted, shown, shownLines } from '../terminal.ts';
import type { Durable } from '../types.ts';
import type { Vault } from '../vault/vault.ts';

/** A command with its examples. It has --json unless programs have no use for its output. */
export function command(
  parent: Command,
  name: string,
  description: string,
  examples: readonly string[],
  hasJson = true,
): Command {
  const made = parent.command(name).description(description);
  if (hasJson) made.option('--json', 'print JSON');
  EXAMPLES.set(made, examples);
  return made.addHelpText('after', examplesHelp(examples));
}

const EXAMPLES = new WeakMap<Command, readonly string[]>();

/** The examples of a command made by `command`. */
export function examplesOf(made: Command): readonly string[] {
  return EXAMPLES.get(made) ?? [];
}

export function examplesHelp(examples: readonly string[]): string {
  const heading = examples.length > 1 ? 'Examples' : 'Example';
  return `\n${heading}:\n${examples.map((example) => `  ${example}`).join('\n')}`;
}

/** Parses an option that adds up when it is repeated: a list with commas. */
export function addedUp(text: string, before: string | undefined): string {
  return before === undefined ? text : `${before},${text}`;
}

/** Without this, a repeated option would lose its first value without a word. */
export function refuseRepeated(made: Command): void {
  for (const option of made.options) {
    const takesOne = (option.required || option.optional) && !option.variadic;
    if (!takesOne || option.parseArg === addedUp) continue;
    let isGiven = false;
    made.on(`option:${option.name()}`, () => {
      if (isGiven) made.error(`error: option '${option.flags}' is given twice: give it once`);
      isGiven = true;
    });
  }
  for (const inner of made.commands) refuseRepeated(inner);
}

/**
 * Makes the parser of an option that takes a whole number.
 * @param accepted the numbers that it takes, in words
 */
export function whole(accepted: string, least: number, most = Infinity): (text: string) => number {
  return (text) => {
    const parsed = Number(text);
    if (!/^\d+$/.test(text) || parsed < least || parsed > most)
      throw new InvalidArgumentError(`It must be ${accepted}.`);
    return parsed;
  };
}

export function config(): Config {
  return parseConfig(readEnvironment());
}

/** Only `serve` and `migrate` make a vault: a new one here would look like the loss of the old. */
export async function withVault(
  work: (vault: Vault, config: Config) => Promise<void>,
): Promise<void> {
  const configured = config();
  // Imported here, so that help does not wait for the modules of the database.
  const { requireVault: demandVault } = await import('../vault/vault-place.ts');
  const { openVault } = await import('../vault/vault.ts');
  await demandVault(configured.vault);
  const vault = await openVault(configured.vault);
  try {
    await work(vault, configured);
  } finally {
    await vault.close();
  }
}

/**
 * Output of a command: text for people, or with --json one JSON object or array on standard output.
 */
export interface OutputOptions {
  readonly json?: boolean;
}

/**
 * Runs a command that changes something, or finds it changed already. It ends with `printDone`, so
 * a failover keeps what it says.
 */
export async function acting(work: Promise<Durable<object>>): Promise<void> {
  try {
    await work;
  } catch (error) {
    throw errorOfChange(error);
  }
}

/** @returns the result, for `acting` */
export function printDone<T extends object>(
  options: OutputOptions,
  result: Durable<T>,
  text: string,
): Durable<T> {
  print(options, result, text);
  return result;
}

/** @param text any names in it must have gone through `shown` */
export function print(options: OutputOptions, result: unknown, text: string): void {
  printPainted(options, result, shownLines(text));
}

/** @param text with colours; everything else in it must have gone through `shown` */
export function printPainted(options: OutputOptions, result: unknown, text: string): void {
  process.stdout.write(`${options.json ? shownLines(JSON.stringify(result)) : text}\n`);
}

interface Table {
  readonly headings: readonly string[];
  readonly rows: readonly (readonly string[])[];
  /** The text when there are no rows: the next step. */
  readonly empty?: string;
}

/** Rows under headings; where they are wider than the terminal, a block of lines for each row. */
export function printTable(options: OutputOptions, result: unknown, table: Table): void {
  const text = table.rows.length === 0 ? (table.empty ?? '') : tableText(table);
  printPainted(options, result, text);
}

/** Has colours: see `printPainted`. */
export function tableText(table: Table): string {
  const rows = table.rows.map((row) => row.map(shown));
  const lines = linesOf([table.headings, ...rows]);
  const isWide = lines.some((line) => line.length > (process.stdout.columns ?? Infinity));
  const [heading, ...others] = lines;
  return isWide
    ? rows.map((row) => blockOf(table.headings, row)).join('\n\n')
    : [painted('bold', heading!), ...others].join('\n');
}

/** Each column is as wide as its widest cell. */
function linesOf(lines: readonly (readonly string[])[]): string[] {
  const widths = lines[0]!.map((_, i) => Math.max(...lines.map((line) => line[i]!.length)));
  return lines.map((line) =>
    line
      .map((cell, i) => cell.padEnd(widths[i]!))
      .join('  ')
      .trimEnd(),
  );
}

/** Cells that a block leaves out, because they say that nothing is special. */
const USUAL = ['', '-', 'default', 'for ever'];

function blockOf(headings: readonly string[], row: readonly string[]): string {
  const entries = headings
    .map((heading, i) => [heading, row[i]!] as const)
    .filter(([, cell]) => !USUAL.includes(cell));
  const width = Math.max(...entries.map(([heading]) => heading.length));
  return entries
    .map(([heading, cell]) => `${painted('bold', heading.padEnd(width))}  ${cell}`)
    .join('\n');
}

export function time(date: Date | null): string {
  return date === null ? '-' : `${date.toISOString().slice(0, 19)}Z`;
}

/**
 * Runs long work. The first Ctrl-C or SIGTERM asks the work to end at a good place; the second ends
 * the process at once.
 */
export async function interruptible<T>(work: (stop: AbortSignal) => Promise<T>): Promise<T> {
  const controller = new AbortController();
  const stop = () => {
    if (controller.signal.aborted) process.exit(EXIT_INTERRUPTED);
    controller.abort();
  };
  process.on('SIGINT', stop).on('SIGTERM', stop);
  try {
    return await work(controller.signal);
  } finally {
    process.off('SIGINT', stop).off('SIGTERM', stop);
  }
}

/** As shells compute it: 128 plus the number of SIGINT. */
export const EXIT_INTERRUPTED = 130;

/** Whether somebody is at the terminal. */
export function canAsk(): boolean {
  return process.stdin.isTTY && process.stderr.isTTY;
}

/**
 * Asks on the terminal. Only yes is yes; Ctrl-C and the end of the input are no.
 * @param nothing what was done, if nothing was
 * @throws OperatorError
 */
export async function requireYes(text: string, nothing: string): Promise<void> {
  if (await interruptible((stop) => isConfirmed(text, stop))) return;
  throw new OperatorError(nothing);
}

async function isConfirmed(text: string, stop: AbortSignal): Promise<boolean> {
  // Without terminal mode, so that Ctrl-C reaches the process.
  const questions = createInterface({
    input: process.stdin,
    output: process.stderr,
    terminal: false,
  });
  const closed = once(questions, 'close').then(() => '');
  try {
    const asked = questions.question(`${text} Go on? (yes/no) `, { signal: stop });
    const answer = await Promise.race([asked, closed]);
    return /^y(es)?$/i.test(answer.trim());
  } catch {
    return false;
  } finally {
    questions.close();
  }
}
