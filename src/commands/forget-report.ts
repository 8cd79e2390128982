import { statSync } from 'node:fs';
import { OperatorError } from '../errors.ts';
import { kekSourceOf } from '../kek/kek-source.ts';
import type { VaultOptions } from '../options.ts';
import { EveryKind } from '../service/every-kind.ts';
import { KeyringFollower } from '../service/keys/keyring-follower.ts';
import type { Forgetting, TokenState } from '../service/records/forget.ts';
import { settled, type Vault } from '../service/vault.ts';
import { count } from '../terminal.ts';
import { type Durable, restate } from '../types.ts';
import { EXIT_INTERRUPTED, type OutputOptions, printDone } from './command.ts';
import { canAsk } from './question.ts';

export interface ForgetOptions extends OutputOptions {
  readonly space?: string;
  readonly dryRun?: boolean;
  readonly yes?: boolean;
}

/** What was found: how many of each state. */
export interface Tally extends Record<TokenState, number> {
  /** The first ones. */
  readonly unknownLines: readonly number[];
  isStopped: boolean;
  /** Where tokens of the values may be left, in words; undefined: tokens were named. */
  readonly notSearched?: readonly string[];
}

/** Unknown lines whose numbers are kept; all are counted. */
export const MAX_UNKNOWN_LINES = 10_000;
export const NO_WAY_BACK = 'This cannot be undone; older backups still have them.';

/** What forgets in an open vault. */
export function forgettingIn(vault: Vault, options: VaultOptions): Forgetting {
  const { wrappedKeys, plainKeys } = vault;
  const follower = new KeyringFollower(wrappedKeys, kekSourceOf(options), plainKeys);
  return { vault, follower, kinds: new EveryKind(vault, options.token_suffix) };
}

/**
 * A pipe can be read only once. A missing file counts as readable twice: reading it fails later.
 */
export function isReadTwice(file: string): boolean {
  return file !== '-' && statSync(file, { throwIfNoEntry: false })?.isFile() !== false;
}

/** @throws OperatorError when nobody can be asked */
export function demandTerminal(file: string | undefined): void {
  if (canAsk() && (file === undefined || isReadTwice(file))) return;
  throw new OperatorError(
    'Forgetting cannot be undone, and this command cannot ask you first: there is no terminal, or the input can be read only once. Add --yes to forget the values, or --dry-run to see how many are known.',
  );
}

export async function report(
  vault: Vault,
  found: Tally,
  options: ForgetOptions,
): Promise<Durable<object>> {
  const tally = await settled(vault, found);
  const { known, forgotten, unknown, unknownLines, isStopped, notSearched } = tally;
  const isDryRun = options.dryRun === true;
  const counts = isDryRun
    ? { known, already_forgotten: forgotten, unknown }
    : { forgotten: known, already_forgotten: forgotten, unknown };
  const what = isDryRun
    ? `known ${count(known)}, nothing was changed`
    : `forgotten ${count(known)}`;
  const lines = [
    `${what}; forgotten before ${count(forgotten)}; unknown ${count(unknown)}`,
    ...(notSearched ?? []).map((place) => `Not searched: ${place}`),
    ...(isStopped ? ['Stopped before the end. Run it again to go on.'] : []),
  ];
  const result = { is_dry_run: isDryRun, is_complete: !isStopped, ...counts };
  const done = printDone(
    options,
    restate(tally, { ...result, unknown_lines: unknownLines, not_searched: notSearched }),
    lines.join('\n'),
  );
  if (isStopped) process.exitCode = EXIT_INTERRUPTED;
  else if (unknown > 0) throw new OperatorError(unknownText(unknown, notSearched));
  return done;
}

/** A script that erases must not take tokens of another vault as done. */
function unknownText(unknown: number, notSearched: Tally['notSearched']): string {
  const name = notSearched === undefined ? 'token' : 'value';
  const what = `${count(unknown, name)} ${unknown === 1 ? 'is' : 'are'}`;
  return `${what} unknown to this vault, so nothing was removed for ${unknown === 1 ? 'it' : 'them'}. Check the ${name}s, and that this is their vault; --json has the lines.`;
}
