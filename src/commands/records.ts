import { type Command, InvalidArgumentError } from 'commander';
import { OperatorError } from '../errors.ts';
import type { VaultOptions } from '../options.ts';
import { KeyringFollower } from '../service/keys/keyring-follower.ts';
import { kekSourceOf } from '../service/keys/open-keys.ts';
import { type PassEnd, recordsFrom } from '../service/records/record-pass.ts';
import type { BadRecord, ReadSettings } from '../service/records/verify.ts';
import type { Vault } from '../service/vault.ts';
import { EXIT_INTERRUPTED, interruptible } from './interrupt.ts';
import type { OutputOptions } from './output.ts';
import { Progress } from './progress.ts';

/** Options of commands that work on all records. */
export interface RecordsOptions extends OutputOptions {
  /** Records a second. */
  readonly rate?: number;
  /** Fingerprint, 32 hex digits. */
  readonly from?: string;
}

/** Bad records in the --json output. Standard error names all of them. */
const MAX_LISTED = 1_000;

const REASONS: Record<BadRecord['reason'], string> = {
  damaged: 'damaged: its row was changed',
  key_missing: 'key version not in the keyring',
};

export function addRate(made: Command): Command {
  return made.option('--rate <n>', 'most records a second; default: no limit', rate);
}

function rate(text: string): number {
  const parsed = Number(text);
  if (!Number.isInteger(parsed) || parsed < 1 || parsed > 10_000_000)
    throw new InvalidArgumentError('It must be a whole number of records a second, 1 to 10000000.');
  return parsed;
}

type Work<T> = (vault: Vault, settings: ReadSettings) => Promise<T>;

/**
 * Runs `work` with a progress bar until it ends or Ctrl-C stops it. Prints bad records as they are
 * found.
 */
export async function watched<T>(
  vault: Vault,
  vaultOptions: VaultOptions,
  { rate, from }: RecordsOptions,
  work: Work<T>,
): Promise<{ result: T; listed: readonly BadRecord[]; seconds: number }> {
  const follower = new KeyringFollower(
    vault.keyringStore,
    kekSourceOf(vaultOptions),
    vault.plainKeys,
  );
  const progress = new Progress({ unit: 'records', total: await recordsFrom(vault, from) });
  const startedAtMs = performance.now();
  const listed: BadRecord[] = [];
  const onBad = (record: BadRecord) => {
    progress.note(`bad record ${record.fingerprint}: ${REASONS[record.reason]}`);
    if (listed.length < MAX_LISTED) listed.push(record);
  };
  const onProgress = (records: number) => progress.advance(records);
  try {
    const result = await interruptible((stop) =>
      work(vault, { from, rate, stop, follower, onBad, onProgress }),
    );
    const seconds = Math.round(performance.now() - startedAtMs) / 1000;
    return { result, listed, seconds };
  } finally {
    progress.end();
  }
}

/** @throws OperatorError on bad records; the error of the database, if that ended the work */
export function conclude({ next, error }: PassEnd, bad: number): void {
  if (error !== undefined) throw error;
  if (bad > 0) {
    throw new OperatorError(
      `${bad} bad ${bad === 1 ? 'record' : 'records'}. Restore their rows of standin.records from a backup (docs/operating/keys.md).`,
    );
  }
  if (next !== undefined) process.exitCode = EXIT_INTERRUPTED;
}
