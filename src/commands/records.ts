import { OperatorError } from '../errors.ts';
import { KeyRenewal } from '../service/keys/key-renewal.ts';
import { type PassEnd, recordsFrom } from '../service/records/record-pass.ts';
import type { BadRecord } from '../service/records/record-reader.ts';
import { reseal } from '../service/records/reseal.ts';
import { verify } from '../service/records/verify.ts';
import { kekSourceOf, lossOf, type Vault, type VaultOptions } from '../service/vault.ts';
import { EXIT_INTERRUPTED, interruptible } from './interrupt.ts';
import { type OutputOptions, print } from './output.ts';
import { Progress } from './progress.ts';

/** Work on all records: how fast, and from where. */
export interface RecordsOptions extends OutputOptions {
  /** Records a second. */
  readonly rate?: number;
  /** Fingerprint, 32 hex digits. */
  readonly from?: string;
}

/** Bad records that --json lists; all are named on standard error. */
const MAX_LISTED = 1_000;

const REASONS: Record<BadRecord['reason'], string> = {
  damaged: 'damaged: its row was changed',
  key_missing: 'key version not in the keyring',
};

export async function keyringReseal(
  vault: Vault,
  vault_options: VaultOptions,
  options: RecordsOptions,
): Promise<void> {
  const { result, listed, seconds } = await watched(vault, vault_options, options, reseal);
  const { key_version, resealed, bad, next } = result;
  const is_complete = next === undefined;
  print(
    options,
    { key_version, resealed, bad, bad_records: listed, is_complete, seconds },
    is_complete
      ? `${resealed} records were resealed with key version ${key_version}.`
      : `${resealed} records were resealed with key version ${key_version}. The rest: standin keyring reseal`,
  );
  conclude(result, bad);
}

export async function verifyRecords(
  vault: Vault,
  vault_options: VaultOptions,
  options: RecordsOptions,
): Promise<void> {
  const { result, listed, seconds } = await watched(vault, vault_options, options, verify);
  const { records, bad, next } = result;
  const rest = next === undefined ? '' : ` The rest: standin verify --from ${next}`;
  print(
    options,
    { records, bad, bad_records: listed, next: next ?? null, seconds },
    `${records} records were opened, ${bad} of them bad.${rest}`,
  );
  conclude(result, bad);
  const loss = lossOf(vault_options);
  if (loss !== undefined) throw new OperatorError(loss);
}

type Work<T> = (vault: Vault, settings: Parameters<typeof verify>[1]) => Promise<T>;

/** Runs it with a progress bar, until Ctrl-C, and names bad records as they are found. */
async function watched<T>(
  vault: Vault,
  vault_options: VaultOptions,
  { rate, from }: RecordsOptions,
  work: Work<T>,
): Promise<{ result: T; listed: readonly BadRecord[]; seconds: number }> {
  const renewal = new KeyRenewal(vault.keys, kekSourceOf(vault_options), vault.plain_keys);
  const progress = new Progress({ unit: 'records', total: await recordsFrom(vault, from) });
  const started_at_ms = performance.now();
  const listed: BadRecord[] = [];
  const onBad = (record: BadRecord) => {
    progress.note(`bad record ${record.fingerprint}: ${REASONS[record.reason]}`);
    if (listed.length < MAX_LISTED) listed.push(record);
  };
  const onProgress = (records: number) => progress.advance(records);
  try {
    const result = await interruptible((stop) =>
      work(vault, { from, rate, stop, renewal, onBad, onProgress }),
    );
    const seconds = Math.round(performance.now() - started_at_ms) / 1000;
    return { result, listed, seconds };
  } finally {
    progress.end();
  }
}

/** @throws OperatorError on bad records, or why the database ended it */
function conclude({ next, error }: PassEnd, bad: number): void {
  if (error !== undefined) throw error;
  if (bad > 0) {
    throw new OperatorError(
      `${bad} bad ${bad === 1 ? 'record' : 'records'}. Put their rows of standin.records back from a backup (docs/operating/keys.md).`,
    );
  }
  if (next !== undefined) process.exitCode = EXIT_INTERRUPTED;
}
