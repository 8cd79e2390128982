import { setTimeout as sleep } from 'node:timers/promises';
import { Unavailable } from '../errors.ts';
import type { Pool } from '../store/pool.ts';
import { countRecords } from '../store/record-counts.ts';
import {
  FIRST_RECORD,
  fingerprintOf,
  hexOf,
  PAGE_RECORDS,
  readPage,
  type WalkedRecord,
} from '../store/record-walk.ts';
import { commandDeadline } from '../timeouts.ts';
import type { TokenFingerprint } from '../types.ts';
import type { Vault } from '../vault/vault.ts';

/** The scan ends when the database is away for longer. A later run can continue it. */
const OUTAGE_TIMEOUT_MS = 60_000;
const FIRST_PAUSE_MS = 25;
const LONGEST_PAUSE_MS = 1_000;
/** With a rate, a scan takes this many batches a second. */
const BATCHES_A_SECOND = 10;

/** Settings that an operator gives for a scan over all records. */
export interface ScanSettings {
  /** Fingerprint to begin at, 32 hex digits; undefined: the first record. */
  readonly from?: string | undefined;
  /** Records a second; undefined: no limit. */
  readonly rate?: number | undefined;
  readonly stop: AbortSignal;
  /** Called with the number of further records passed, including those that needed nothing. */
  readonly onProgress: (records: number) => void;
}

export interface Scan extends ScanSettings {
  readonly pool: Pool;
  /** A scan skips records sealed with this key version. */
  readonly without?: number;
  readonly work: (records: readonly WalkedRecord[]) => Promise<void>;
  /** Resolves when everything that `work` started has ended. */
  readonly written?: () => Promise<void>;
}

/** Where a scan ended, with the error if the database ended it. */
export interface ScanEnd {
  /** Fingerprint to continue from, 32 hex digits; undefined: all records were passed. */
  readonly next: string | undefined;
  readonly error?: Unavailable;
}

/**
 * Passes over all records in the order of their fingerprints, while the service runs. It reads the
 * next page while `work` handles the current one.
 * @throws errors of `work`, except Unavailable
 */
export async function scan(options: Scan): Promise<ScanEnd> {
  const { pool, from, rate, stop, without, onProgress, work } = options;
  let at = from === undefined ? FIRST_RECORD : fingerprintOf(from);
  let isLast = false;
  const read = (start: TokenFingerprint) => {
    const reading = persistently(stop, () => readPage(pool, start, without, commandDeadline()));
    // The error is thrown where `reading` is awaited. Until then Node must not report it as
    // unhandled.
    reading.catch(() => {});
    return reading;
  };
  const end = async () => {
    await options.written?.();
    return { next: isLast ? undefined : hexOf(at) };
  };
  const throttle = new Throttle(rate);
  try {
    for (let reading = read(at); !isLast && !stop.aborted; ) {
      const { records, seen, next } = await reading;
      if (next !== undefined) reading = read(next);
      for (const batch of batchesOf(records, rate)) {
        await throttle.pass(batch.length, stop);
        at = batch[0]!.token_fingerprint;
        if (stop.aborted) return await end();
        await work(batch);
        onProgress(batch.length);
      }
      onProgress(seen - records.length);
      if (next === undefined) isLast = true;
      else at = next;
    }
    return await end();
  } catch (error) {
    if (!(error instanceof Unavailable)) throw error;
    return { next: hexOf(at), error };
  }
}

/** Estimates how many records a scan will take. */
export async function recordsFrom({ pool }: Vault, from: string | undefined): Promise<number> {
  const { records: all } = await countRecords(pool, commandDeadline());
  // Fingerprints are evenly spread.
  const share = from === undefined ? 0 : Number.parseInt(from.slice(0, 8), 16) / 2 ** 32;
  return Math.round(all * (1 - share));
}

function* batchesOf(records: readonly WalkedRecord[], rate = Infinity) {
  const size = Math.min(Math.ceil(rate / BATCHES_A_SECOND), PAGE_RECORDS);
  for (let at = 0; at < records.length; at += size) yield records.slice(at, at + size);
}

/**
 * Retries while the database is away, for OUTAGE_TIMEOUT_MS at most. `attempt` must be idempotent.
 */
export async function persistently<T>(stop: AbortSignal, attempt: () => Promise<T>): Promise<T> {
  const giveUpMs = performance.now() + OUTAGE_TIMEOUT_MS;
  for (let pauseMs = FIRST_PAUSE_MS; ; pauseMs = Math.min(2 * pauseMs, LONGEST_PAUSE_MS)) {
    try {
      return await attempt();
    } catch (error) {
      const isOver = stop.aborted || performance.now() > giveUpMs;
      if (!(error instanceof Unavailable) || isOver) throw error;
      await sleep(pauseMs);
    }
  }
}

/** Limits long work to a rate, so that requests keep their share of the database. */
export class Throttle {
  readonly #rate: number | undefined;
  #freeAtMs = performance.now();

  /** @param rate items a second; undefined: no limit */
  constructor(rate: number | undefined) {
    this.#rate = rate;
  }

  /** Resolves when the time of all earlier items has passed at this rate. */
  async pass(items: number, stop?: AbortSignal): Promise<void> {
    if (this.#rate === undefined) return;
    const nowMs = performance.now();
    const waitMs = this.#freeAtMs - nowMs;
    this.#freeAtMs = Math.max(this.#freeAtMs, nowMs) + (1000 * items) / this.#rate;
    if (waitMs > 0) await sleep(waitMs, undefined, { signal: stop }).catch(() => {});
  }
}
