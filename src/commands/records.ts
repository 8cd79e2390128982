import { type Command, InvalidArgumentError } from 'commander';
import { OperatorError } from '../errors.ts';
import { kekSourceOf } from '../kek/kek-source.ts';
import { recordsFrom, type ScanEnd } from '../records/record-scan.ts';
import { reseal } from '../records/reseal.ts';
import { type BadRecord, type KindCount, type ReadSettings, verify } from '../records/verify.ts';
import { count } from '../terminal.ts';
import { DEFAULT_KIND, DEFAULT_SPACE, restate } from '../types.ts';
import { KeyringFollower } from '../vault/keyring-follower.ts';
import type { Vault } from '../vault/vault.ts';
import {
  acting,
  command,
  EXIT_INTERRUPTED,
  type OutputOptions,
  printDone,
  printPainted,
  tableText,
  whole,
  withVault,
} from './command.ts';
import { Progress, watched } from './progress.ts';

interface RecordsArguments extends OutputOptions {
  /** Records a second. */
  readonly rate?: number | undefined;
  /** Fingerprint, 32 hex digits. */
  readonly from?: string | undefined;
}

/** Bad records in the --json output. Standard error names all of them. */
const MAX_LISTED = 1_000;

const REASONS: Record<BadRecord['reason'], string> = {
  damaged: 'damaged: its row was changed',
  key_missing: 'key version not in the keyring',
};

export function addVerify(program: Command): void {
  addRate(
    command(program, 'verify', 'Open every record, and name the damaged ones.', [
      'standin verify',
      'standin verify --rate 5000 --from 80000000000000000000000000000000',
    ]),
  )
    .option(
      '--from <fingerprint>',
      'begin at this record; an interrupted run prints it',
      fingerprint,
    )
    .action((options) => withVault((vault) => verifyRecords(vault, options)));
}

/** `keyring reseal`. */
export function addReseal(keyring: Command): void {
  addRate(
    command(
      keyring,
      'reseal',
      'Seal all records with the primary, online; Ctrl-C stops, the next run goes on.',
      ['standin keyring reseal', 'standin keyring reseal --rate 2000'],
    ),
  ).action((options) => withVault((vault) => acting(resealRecords(vault, options))));
}

export function addRate(made: Command): Command {
  return made.option('--rate <n>', 'most records a second; default: no limit', rate);
}

export const rate = whole('a whole number of records a second, 1 to 10000000', 1, 10_000_000);

function fingerprint(text: string): string {
  const digits = text.replaceAll('-', '').toLowerCase();
  if (!/^[0-9a-f]{32}$/.test(digits)) throw new InvalidArgumentError('It must be 32 hex digits.');
  return digits;
}

async function verifyRecords(vault: Vault, options: RecordsArguments): Promise<void> {
  const work = (settings: ReadSettings) => verify(vault, settings);
  const { result, listed, seconds } = await watchedScan(vault, options, work);
  const { records, aliases, bad, by_kind: byKind, next } = result;
  const rest = next === undefined ? '' : ` The rest: standin verify --from ${next}`;
  const beside = aliases === 0 ? '' : `; besides, ${count(aliases, 'alias')} of imported tokens`;
  printPainted(
    options,
    {
      ...{ records, aliases, bad, bad_records: listed },
      ...{ by_kind: byKind, next: next ?? null, seconds },
    },
    `${count(records, 'record')} opened, ${count(bad)} of them bad${beside}.${rest}${byKindText(byKind)}`,
  );
  conclude(result, bad);
  // Imported here, so that help does not wait for the driver of the database.
  const { lossOf } = await import('../vault/vault.ts');
  const loss = lossOf(vault.options);
  if (loss !== undefined) throw new OperatorError(loss);
}

/** Empty when all records are as without a policy and without spaces. */
function byKindText(counts: readonly KindCount[]): string {
  if (counts.every(({ space, kind }) => space === DEFAULT_SPACE && kind === DEFAULT_KIND))
    return '';
  const rows = counts.map(({ space, kind, records }) => [space || '-', kind, count(records)]);
  const table = tableText({ headings: ['SPACE', 'KIND', 'RECORDS'], rows });
  const stray = counts.filter((one) => one.has_client === false).map(({ space }) => space);
  const notes = [...new Set(stray)].map(
    (space) =>
      `No client is in the space ${space}, so nobody can use its tokens. To make one: standin client create --name NAME --space ${space}`,
  );
  return ['', table, ...notes].join('\n');
}

async function resealRecords(vault: Vault, options: RecordsArguments) {
  const work = (settings: ReadSettings) => reseal(vault, settings);
  const { result, listed, seconds } = await watchedScan(vault, options, work);
  const { key_version: keyVersion, resealed, bad, next } = result;
  const isComplete = next === undefined;
  const report = { bad_records: listed, is_complete: isComplete, seconds };
  const done = printDone(
    options,
    restate(result, { key_version: keyVersion, resealed, bad, ...report }),
    `${count(resealed, 'record')} resealed with key version ${keyVersion}.${isComplete ? '' : ' The rest: standin keyring reseal'}`,
  );
  conclude(result, bad);
  return done;
}

/** Finds key versions that other processes add. */
export function followerOf({ wrappedKeys, plainKeys, options }: Vault): KeyringFollower {
  return new KeyringFollower(wrappedKeys, kekSourceOf(options), plainKeys);
}

/** Does work on records, and prints bad records as they are found. */
export async function watchedScan<T extends object>(
  vault: Vault,
  { rate, from }: Pick<RecordsArguments, 'rate' | 'from'>,
  work: (settings: ReadSettings) => Promise<T>,
) {
  const follower = followerOf(vault);
  const progress = new Progress({ unit: 'record', total: await recordsFrom(vault, from) });
  const listed: BadRecord[] = [];
  const onBad = (record: BadRecord) => {
    progress.note(`bad record ${record.fingerprint}: ${REASONS[record.reason]}`);
    if (listed.length < MAX_LISTED) listed.push(record);
  };
  const onProgress = (records: number) => progress.advance(records);
  const ended = await watched(progress, (stop) =>
    work({ from, rate, stop, follower, onBad, onProgress }),
  );
  return { ...ended, listed };
}

/** @throws OperatorError on bad records; the error of the database, if that ended the work */
function conclude({ next, error }: ScanEnd, bad: number): void {
  if (error !== undefined) throw error;
  if (bad > 0) {
    throw new OperatorError(
      `${count(bad, 'bad record')}. Restore their rows of standin.records from a backup (docs/operating/keys.md).`,
    );
  }
  if (next !== undefined) process.exitCode = EXIT_INTERRUPTED;
}
