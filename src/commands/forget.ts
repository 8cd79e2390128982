import type { Command } from 'commander';
import { OperatorError } from '../errors.ts';
import { type ForgetResult, forget, type TokenState } from '../records/forget.ts';
import type { ReadSettings } from '../records/verify.ts';
import { count } from '../terminal.ts';
import { EveryKind } from '../tokens/every-kind.ts';
import { DEFAULT_SPACE, type Durable, restate } from '../types.ts';
import { confirmDurable, type Vault } from '../vault/vault.ts';
import {
  acting,
  canAsk,
  command,
  EXIT_INTERRUPTED,
  interruptible,
  type OutputOptions,
  printDone,
  requireYes,
  withVault,
} from './command.ts';
import { Progress } from './progress.ts';
import { addRate, followerOf, watchedScan } from './records.ts';
import { nameOf, readText, STANDARD_INPUT } from './text-file.ts';

interface ForgetOptions extends OutputOptions {
  readonly file?: string;
  readonly values?: string;
  readonly scan?: boolean;
  /** Records a second, of a scan. */
  readonly rate?: number;
  readonly space?: string;
  readonly dryRun?: boolean;
  readonly yes?: boolean;
}

export function addForget(program: Command): void {
  addRate(
    command(
      program,
      'forget [token...]',
      'Remove the values behind tokens for ever; the tokens are unknown from then on.',
      [
        'standin forget --file tokens.txt --dry-run',
        'standin forget --file tokens.txt',
        'standin forget --file - --yes --json',
        'standin forget --values values.txt --scan',
      ],
    ),
  )
    .option('--file <file>', 'tokens, one a line; "-": standard input')
    .option('--values <file>', 'values, one a line, whose tokens to forget; "-": standard input')
    .option('--scan', 'open every record, to find all tokens of the values')
    .option('--space <name>', 'the space of the tokens, as in client list')
    .option('--dry-run', 'say how many are known, and change nothing')
    .option('--yes', 'do not ask')
    .action((tokens: string[], options: ForgetOptions, itself: Command) => {
      const { file, values, scan } = options;
      if (
        [tokens.length > 0, file !== undefined, values !== undefined].filter(Boolean).length !== 1
      )
        itself.error('error: name tokens, or a file of them with --file, or values with --values');
      if (scan === true && values === undefined) itself.error('error: --scan needs --values');
      return withVault((vault) => acting(forgetIn(vault, tokens, options)));
    });
}

/** How many are forgotten at once. A longer statement would hold up requests for its records. */
const BATCH = { tokens: 500, values: 100 } as const;
/** Unknown lines whose numbers are kept; all are counted. */
const MAX_UNKNOWN_LINES = 10_000;

type Named = keyof typeof BATCH;

/**
 * Removes the values behind tokens, or behind every token of values. Prints no token and no value.
 * @throws OperatorError when confirmation is needed, but nobody can be asked
 */
async function forgetIn(
  vault: Vault,
  named: readonly string[],
  options: ForgetOptions,
): Promise<Durable<object>> {
  const { values, scan, space = DEFAULT_SPACE, dryRun = false } = options;
  const file = values ?? options.file;
  const isSure = options.yes === true || dryRun;
  if (!isSure && !(canAsk() && file !== STANDARD_INPUT)) throw new OperatorError(NOBODY_TO_ASK);
  const of = values === undefined ? 'tokens' : 'values';
  const all = file === undefined ? numbered(named) : await linesOf(file, of);
  const follower = followerOf(vault);
  const parts = { vault, follower, kinds: new EveryKind(vault, vault.options.token_suffix) };
  const work = (lines: readonly Line[], isDryRun: boolean, settings?: ReadSettings) => {
    const texts = { tokens: [], values: [], [of]: lines.map(({ text }) => text) };
    return forget(parts, { ...texts, space, isDryRun }, settings);
  };
  const each = (isDryRun: boolean) => inBatches(of, all, (lines) => work(lines, isDryRun));
  if (!isSure) {
    const found = of === 'tokens' ? await each(true) : undefined;
    if (found?.isStopped) return report(vault, found, { ...options, dryRun: true });
    // Also goes on for forgotten tokens only, so that the report can promise that they stay
    // forgotten.
    if (found && found.known + found.forgotten === 0) return report(vault, found, options);
    if (found?.known !== 0) await confirm(found?.known, all.length);
  }
  if (scan !== true || all.length === 0) return report(vault, await each(dryRun), options);
  const scanned = (settings: ReadSettings) => work(all, dryRun, settings);
  const { result } = await watchedScan(vault, options, scanned);
  const tally = newTally(of);
  add(tally, all, result);
  return report(vault, tally, options);
}

const NOBODY_TO_ASK =
  'Forgetting cannot be undone, and this command cannot ask you first: there is no terminal, or the file is standard input. Add --yes to forget the values, or --dry-run to see how many are known.';

/** The number of tokens or values in each state. */
interface Tally extends Record<TokenState, number> {
  readonly of: Named;
  /** The first ones. */
  readonly unknownLines: number[];
  isStopped: boolean;
  /** Where tokens of the values may be left, in words. */
  readonly notSearched: Set<string>;
}

function newTally(of: Named): Tally {
  const counts = { known: 0, forgotten: 0, unknown: 0 };
  return { of, ...counts, unknownLines: [], isStopped: false, notSearched: new Set() };
}

/** Works through all lines, a batch at a time, until Ctrl-C. */
function inBatches(
  of: Named,
  all: readonly Line[],
  work: (lines: readonly Line[]) => Promise<ForgetResult>,
): Promise<Tally> {
  const tally = newTally(of);
  const progress = new Progress({ unit: of.slice(0, -1), total: all.length });
  const size = BATCH[of];
  return interruptible(async (stop) => {
    try {
      for (let from = 0; from < all.length; from += size) {
        tally.isStopped = stop.aborted;
        if (tally.isStopped) break;
        const batch = all.slice(from, from + size);
        add(tally, batch, await work(batch));
        progress.advance(batch.length);
      }
      return tally;
    } finally {
      if (all.length >= size) progress.end();
    }
  });
}

function add(tally: Tally, lines: readonly Line[], result: ForgetResult): void {
  const { of, unknownLines } = tally;
  const states = result[of];
  const counted = (state: TokenState) => states.filter((one) => one === state).length;
  // A value can have several tokens.
  tally.known += of === 'tokens' ? counted('known') : result.known;
  tally.forgotten += of === 'tokens' ? counted('forgotten') : result.forgotten;
  tally.unknown += counted('unknown');
  tally.isStopped ||= !result.isComplete;
  for (const [i, { line }] of lines.entries())
    if (states[i] === 'unknown' && unknownLines.length < MAX_UNKNOWN_LINES) unknownLines.push(line);
  for (const place of result.notSearched) tally.notSearched.add(place);
}

/** @param known of the tokens; undefined: values were named */
function confirm(known: number | undefined, values: number): Promise<void> {
  const tokens = known === 1 ? 'value of 1 known token' : `values of ${known} known tokens`;
  const what =
    known === undefined
      ? `Every token of ${count(values, 'value')} will be forgotten`
      : `The ${tokens} will be removed`;
  const question = `${what}. This cannot be undone; older backups still have them.`;
  return requireYes(question, 'Nothing was forgotten.');
}

async function report(
  vault: Vault,
  found: Tally,
  options: ForgetOptions,
): Promise<Durable<object>> {
  const tally = await confirmDurable(vault, found);
  const { of, known, forgotten, unknown, unknownLines, isStopped, notSearched } = tally;
  const isDryRun = options.dryRun === true;
  const what = isDryRun
    ? `known ${count(known)}, nothing was changed`
    : `forgotten ${count(known)}`;
  const lines = [
    `${what}; forgotten before ${count(forgotten)}; unknown ${count(unknown)}`,
    ...[...notSearched].map((place) => `Not searched: ${place}`),
  ];
  if (isStopped) lines.push('Stopped before the end. Run it again to go on.');
  const result = restate(tally, {
    ...{ is_dry_run: isDryRun, is_complete: !isStopped, [isDryRun ? 'known' : 'forgotten']: known },
    ...{ already_forgotten: forgotten, unknown, unknown_lines: unknownLines },
    ...(of === 'values' && { not_searched: [...notSearched] }),
  });
  const done = printDone(options, result, lines.join('\n'));
  if (isStopped) process.exitCode = EXIT_INTERRUPTED;
  else if (unknown > 0) throw new OperatorError(unknownText(unknown, of.slice(0, -1)));
  return done;
}

/** A script that erases must not take tokens of another vault as done. */
function unknownText(unknown: number, name: string): string {
  const [are, them] = unknown === 1 ? ['is', 'it'] : ['are', 'them'];
  return `${count(unknown, name)} ${are} unknown to this vault, so nothing was removed for ${them}. Check the ${name}s, and that this is their vault; --json has the lines.`;
}

/** A token or a value, and the number of its line, from 1. */
interface Line {
  readonly line: number;
  readonly text: string;
}

const numbered = (texts: readonly string[]) => texts.map((text, i) => ({ line: i + 1, text }));

/** Some 700,000 tokens. All lines are in memory, which takes eight times as much. */
const MAX_FILE_MIB = 16;
/** A scan compares each record with them. */
const MAX_VALUES = 100_000;
/** Far longer than any token, whose stem has the shape of at most 256 characters. */
const MAX_TOKEN_CHARACTERS = 1_000;

/**
 * The tokens or values of a file, one a line, without blank lines; `-` is standard input. In an
 * NDJSON file of values, each line is a JSON string. No token begins or ends with space.
 * @throws OperatorError when the file cannot be read, or a line cannot be one
 */
async function linesOf(file: string, of: Named): Promise<readonly Line[]> {
  const maxBytes = MAX_FILE_MIB * 2 ** 20;
  const text = await readText(file, maxBytes);
  const trimmed = (line: string) => (of === 'tokens' ? line.trim() : line.replace(/\r$/, ''));
  const lines = text.replace(/^\ufeff/, '').split('\n');
  const all = numbered(lines.map(trimmed)).filter(({ text }) => text !== '');
  const long = of === 'tokens' && all.find(({ text }) => text.length > MAX_TOKEN_CHARACTERS);
  if (long)
    throw new OperatorError(
      `Line ${long.line} of ${nameOf(file)} is longer than any token: the file must have one token a line. Nothing was forgotten.`,
    );
  const isLarge = Buffer.byteLength(text) > maxBytes;
  if (isLarge || (of === 'values' && all.length > MAX_VALUES))
    throw new OperatorError(
      `${nameOf(file)} has more than ${isLarge ? `${MAX_FILE_MIB} MiB` : count(MAX_VALUES, 'value')}: forget them in several files.`,
    );
  return of === 'values' && /\.(ndjson|jsonl)$/i.test(file) ? all.map(parsed) : all;
}

function parsed({ line, text: json }: Line): Line {
  try {
    const text: unknown = JSON.parse(json);
    if (typeof text === 'string') return { line, text };
  } catch {
    // Said below.
  }
  throw new OperatorError(`Line ${line} is not a JSON string. Nothing was forgotten.`);
}
