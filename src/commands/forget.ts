import { statSync } from 'node:fs';
import type { Command } from 'commander';
import { OperatorError } from '../errors.ts';
import { forgetTokens, type TokenState, tokenStates } from '../service/records/removal.ts';
import { settled, type Vault } from '../service/vault.ts';
import { type Durable, restate, type Token } from '../types.ts';
import {
  acting,
  command,
  EXIT_INTERRUPTED,
  interruptible,
  type OutputOptions,
  printDone,
  withVault,
} from './command.ts';
import { Progress } from './progress.ts';
import { canAsk, isConfirmed } from './question.ts';
import { type TokenLine, tokenLines } from './token-lines.ts';

export function addForget(program: Command): void {
  command(
    program,
    'forget [token...]',
    'Remove the values behind tokens for ever; the tokens are unknown from then on.',
    [
      'standin forget --file tokens.txt --dry-run',
      'standin forget --file tokens.txt',
      'standin forget --file - --yes --json',
    ],
  )
    .option('--file <file>', 'tokens, one a line; "-": standard input')
    .option('--space <name>', 'the space of the tokens, as in client list')
    .option('--dry-run', 'say how many are known, and change nothing')
    .option('--yes', 'do not ask')
    .action((tokens: string[], options, itself: Command) => {
      if ((tokens.length === 0) === (options.file === undefined))
        itself.error('error: name tokens, or a file of them with --file');
      return withVault((vault) => acting(forget(vault, tokens, options)));
    });
}

/** Tokens in one statement. A longer statement would hold up requests for the same records. */
const BATCH_TOKENS = 500;
/** Unknown tokens whose line numbers are kept; all are counted. */
const MAX_UNKNOWN_LINES = 10_000;

interface ForgetOptions extends OutputOptions {
  readonly file?: string;
  readonly space?: string;
  readonly dryRun?: boolean;
  readonly yes?: boolean;
}

/** How many tokens were known, had been forgotten before, or are unknown. */
type Counts = Record<TokenState, number>;

interface Tally extends Counts {
  readonly unknown_lines: number[];
  isStopped: boolean;
}

/** Tokens that can be read several times. */
interface Source {
  readonly total: number | undefined;
  batches(): AsyncIterable<TokenLine[]>;
}

/**
 * Removes the values behind tokens. Prints no token.
 * @throws OperatorError when confirmation is needed, but nobody can be asked
 */
async function forget(
  vault: Vault,
  tokens: readonly string[],
  options: ForgetOptions,
): Promise<Durable<object>> {
  const isSure = options.yes === true || options.dryRun === true;
  if (!isSure) demandTerminal(options.file);
  const look = (batch: readonly Token[]) => tokenStates(vault, batch, options.space);
  const remove = (batch: readonly Token[]) => forgetTokens(vault, batch, options.space);
  const settledReport = async (tally: Tally, isDryRun = options.dryRun) =>
    report(await settled(vault, tally), { ...options, dryRun: isDryRun === true });
  return interruptible(async (stop) => {
    const source = await sourceOf(tokens, options.file);
    if (!isSure) {
      const found = await each(source, look, stop);
      if (found.isStopped) return settledReport(found, true);
      // Also goes on for forgotten tokens only, so that the report can promise that they stay
      // forgotten.
      if (found.known + found.forgotten === 0) return settledReport(found);
      if (found.known > 0 && !(await isConfirmed(questionOf(found), stop)))
        throw new OperatorError('Nothing was forgotten.');
    }
    return settledReport(await each(source, options.dryRun ? look : remove, stop));
  });
}

/** Works through the tokens, a batch at a time, until `stop`. */
async function each(
  source: Source,
  work: (tokens: readonly Token[]) => Promise<Durable<TokenState[]>>,
  stop: AbortSignal,
): Promise<Tally> {
  const tally: Tally = { known: 0, forgotten: 0, unknown: 0, unknown_lines: [], isStopped: false };
  const progress = new Progress({ unit: 'tokens', total: source.total });
  let isLong = false;
  try {
    for await (const batch of source.batches()) {
      tally.isStopped = stop.aborted;
      if (tally.isStopped) break;
      count(tally, batch, await work(batch.map(({ token }) => token)));
      isLong ||= batch.length === BATCH_TOKENS;
      progress.advance(batch.length);
    }
    return tally;
  } finally {
    if (isLong) progress.end();
  }
}

function count(tally: Tally, batch: readonly TokenLine[], states: readonly TokenState[]): void {
  states.forEach((state, i) => {
    tally[state]++;
    const isListed = state === 'unknown' && tally.unknown_lines.length < MAX_UNKNOWN_LINES;
    if (isListed) tally.unknown_lines.push(batch[i]!.line);
  });
}

async function sourceOf(tokens: readonly string[], file: string | undefined): Promise<Source> {
  if (file === undefined) {
    const all = tokens.map((token, i) => ({ line: i + 1, token: token as Token }));
    return { total: all.length, batches: () => inBatches(all) };
  }
  const batches = () => tokenLines(file, BATCH_TOKENS);
  if (!isReadTwice(file)) return { total: undefined, batches };
  let total = 0;
  for await (const batch of batches()) total += batch.length;
  return { total, batches };
}

async function* inBatches(all: readonly TokenLine[]): AsyncGenerator<TokenLine[]> {
  for (let from = 0; from < all.length; from += BATCH_TOKENS) {
    yield all.slice(from, from + BATCH_TOKENS);
  }
}

/**
 * A pipe can be read only once. A missing file counts as readable twice: reading it fails later.
 */
function isReadTwice(file: string): boolean {
  return file !== '-' && statSync(file, { throwIfNoEntry: false })?.isFile() !== false;
}

function demandTerminal(file: string | undefined): void {
  if (canAsk() && (file === undefined || isReadTwice(file))) return;
  throw new OperatorError(
    'Forgetting cannot be undone, and this command cannot ask you first: there is no terminal, or the tokens can be read only once. Add --yes to forget the values, or --dry-run to see how many are known.',
  );
}

function questionOf({ known }: Counts): string {
  const values = known === 1 ? 'The value of 1 known token' : `The values of ${known} known tokens`;
  return `${values} will be removed. This cannot be undone; older backups still have them.`;
}

function report(tally: Durable<Tally>, options: ForgetOptions): Durable<object> {
  const { known, forgotten, unknown, unknown_lines: unknownLines, isStopped } = tally;
  const isDryRun = options.dryRun === true;
  const counts = isDryRun
    ? { known, already_forgotten: forgotten, unknown }
    : { forgotten: known, already_forgotten: forgotten, unknown };
  const done = isDryRun ? `known ${known}, nothing was changed` : `forgotten ${known}`;
  const stopped = isStopped ? '\nStopped before the end. Run it again to go on.' : '';
  const printed = printDone(
    options,
    restate(tally, {
      ...{ is_dry_run: isDryRun, is_complete: !isStopped },
      ...{ ...counts, unknown_lines: unknownLines },
    }),
    `${done}; forgotten before ${forgotten}; unknown ${unknown}${stopped}`,
  );
  if (isStopped) process.exitCode = EXIT_INTERRUPTED;
  else if (unknown > 0) throw new OperatorError(unknownText(unknown));
  return printed;
}

/** A script that erases must not take tokens of another vault as done. */
function unknownText(unknown: number): string {
  const what = unknown === 1 ? '1 token is' : `${unknown} tokens are`;
  return `${what} unknown to this vault, so nothing was removed for ${unknown === 1 ? 'it' : 'them'}. Check the tokens, and that this is their vault; --json has the lines.`;
}
