import type { Command } from 'commander';
import { OperatorError } from '../errors.ts';
import type { VaultOptions } from '../options.ts';
import { forget, type TokenState } from '../service/records/forget.ts';
import type { Vault } from '../service/vault.ts';
import { DEFAULT_SPACE, type Durable, type Token } from '../types.ts';
import { acting, command, interruptible, withVault } from './command.ts';
import {
  demandTerminal,
  type ForgetOptions,
  forgettingIn,
  isReadTwice,
  MAX_UNKNOWN_LINES,
  NO_WAY_BACK,
  report,
  type Tally,
} from './forget-report.ts';
import { forgetValues } from './forget-values.ts';
import { Progress } from './progress.ts';
import { isConfirmed } from './question.ts';
import { addRate } from './records.ts';
import { type TokenLine, tokenLines } from './token-lines.ts';

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
    .action((tokens: string[], options, itself: Command) => {
      const { file, values, scan } = options;
      if (
        [tokens.length > 0, file !== undefined, values !== undefined].filter(Boolean).length !== 1
      )
        itself.error('error: name tokens, or a file of them with --file, or values with --values');
      if (scan === true && values === undefined) itself.error('error: --scan needs --values');
      return withVault((vault, { vault: of }) =>
        acting(
          values === undefined
            ? forgetTokens(vault, of, tokens, options)
            : forgetValues(vault, of, values, options),
        ),
      );
    });
}

/** Tokens in one statement. A longer statement would hold up requests for the same records. */
const BATCH_TOKENS = 500;

interface TokensOptions extends ForgetOptions {
  readonly file?: string;
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
async function forgetTokens(
  vault: Vault,
  vaultOptions: VaultOptions,
  tokens: readonly string[],
  options: TokensOptions,
): Promise<Durable<object>> {
  const { file, space = DEFAULT_SPACE } = options;
  const isSure = options.yes === true || options.dryRun === true;
  if (!isSure) demandTerminal(file);
  const parts = forgettingIn(vault, vaultOptions);
  const work = (isDryRun: boolean) => async (batch: readonly Token[]) =>
    (await forget(parts, { tokens: batch, values: [], space, isDryRun })).tokens;
  return interruptible(async (stop) => {
    const source = await sourceOf(tokens, file);
    if (!isSure) {
      const found = await each(source, work(true), stop);
      if (found.isStopped) return report(vault, found, { ...options, dryRun: true });
      // Also goes on for forgotten tokens only, so that the report can promise that they stay
      // forgotten.
      if (found.known + found.forgotten === 0) return report(vault, found, options);
      const what =
        found.known === 1
          ? 'The value of 1 known token'
          : `The values of ${found.known} known tokens`;
      if (found.known > 0 && !(await isConfirmed(`${what} will be removed. ${NO_WAY_BACK}`, stop)))
        throw new OperatorError('Nothing was forgotten.');
    }
    return report(vault, await each(source, work(options.dryRun === true), stop), options);
  });
}

/** Works through the tokens, a batch at a time, until `stop`. */
async function each(
  source: Source,
  work: (tokens: readonly Token[]) => Promise<readonly TokenState[]>,
  stop: AbortSignal,
): Promise<Tally> {
  const unknownLines: number[] = [];
  const tally: Tally = { known: 0, forgotten: 0, unknown: 0, unknownLines, isStopped: false };
  const progress = new Progress({ unit: 'token', total: source.total });
  let isLong = false;
  try {
    for await (const batch of source.batches()) {
      tally.isStopped = stop.aborted;
      if (tally.isStopped) break;
      const states = await work(batch.map(({ token }) => token));
      states.forEach((state, i) => {
        tally[state]++;
        if (state === 'unknown' && unknownLines.length < MAX_UNKNOWN_LINES)
          unknownLines.push(batch[i]!.line);
      });
      isLong ||= batch.length === BATCH_TOKENS;
      progress.advance(batch.length);
    }
    return tally;
  } finally {
    if (isLong) progress.end();
  }
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
