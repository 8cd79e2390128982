import { setTimeout as sleep } from 'node:timers/promises';
import { Unavailable } from '../../errors.ts';
import {
  FIRST_RECORD,
  fingerprintOf,
  hexOf,
  type RecordWalk,
  type Window,
} from '../../store/record-walk.ts';
import { countRecords } from '../../store/server.ts';
import { commandDeadline } from '../../timeouts.ts';
import type { SealedRecord, TokenFingerprint } from '../../types.ts';
import type { Vault } from '../vault.ts';
import { Throttle } from './throttle.ts';

/** A database that is away for longer ends the pass; it can be gone on with. */
const OUTAGE_PATIENCE_MS = 60_000;
const FIRST_PAUSE_MS = 25;
const LONGEST_PAUSE_MS = 1_000;
/** With a rate, records come in so many portions a second. */
const PORTIONS_A_SECOND = 10;
/** At most what a window has. */
const MAX_PORTION_RECORDS = 1_000;

/** What people say of a pass over all records. */
export interface PassSettings {
  /** Fingerprint to begin at, 32 hex digits; undefined: that of the first record. */
  readonly from?: string | undefined;
  /** Records a second; undefined: no bound. */
  readonly rate?: number | undefined;
  readonly stop: AbortSignal;
  /** Told how many more records were passed, also those that needed nothing. */
  readonly onProgress: (records: number) => void;
}

export interface Pass extends PassSettings {
  readonly walk: RecordWalk;
  /** Records that are sealed with this key version are passed by. */
  readonly without?: number;
  readonly work: (records: readonly SealedRecord[]) => Promise<void>;
  /** Resolves when what `work` has begun is done. */
  readonly settled?: () => Promise<void>;
}

/** Where a pass ended, and why when the database ended it. */
export interface PassEnd {
  /** Fingerprint to go on from, 32 hex digits; undefined: all records were passed. */
  readonly next: string | undefined;
  readonly error?: Unavailable;
}

/**
 * Over all records in the order of their fingerprints, while others use the vault. The next window
 * is read while the last is worked on.
 * @throws what `work` throws, but for Unavailable
 */
export async function passOver(pass: Pass): Promise<PassEnd> {
  const place = {
    at: pass.from === undefined ? FIRST_RECORD : fingerprintOf(pass.from),
    isLast: false,
  };
  try {
    await walkFrom(place, pass);
    await pass.settled?.();
    return { next: place.isLast ? undefined : hexOf(place.at) };
  } catch (error) {
    if (!(error instanceof Unavailable)) throw error;
    return { next: hexOf(place.at), error };
  }
}

/** @param place where it is, kept up to date */
async function walkFrom(
  place: { at: TokenFingerprint; isLast: boolean },
  { walk, rate, stop, without, onProgress, work }: Pass,
): Promise<void> {
  const read = (from: TokenFingerprint) => {
    const reading = persistently(stop, () => walk.window(from, without, commandDeadline()));
    // It is thrown where it is awaited; until then it must not count as unhandled.
    reading.catch(() => {});
    return reading;
  };
  const throttle = new Throttle(rate);
  for (let reading: Promise<Window> | undefined = read(place.at); reading !== undefined; ) {
    const { records, seen, next }: Window = await reading;
    reading = next && read(next);
    for (const portion of portionsOf(records, rate)) {
      await throttle.pass(portion.length, stop);
      place.at = portion[0]!.token_fingerprint;
      if (stop.aborted) return;
      await work(portion);
      onProgress(portion.length);
    }
    onProgress(seen - records.length);
    if (next !== undefined) place.at = next;
    else place.isLast = true;
    if (stop.aborted) return;
  }
}

/** How many records a pass has before it, about. */
export async function recordsFrom({ pool }: Vault, from: string | undefined): Promise<number> {
  const { records: all } = await countRecords(pool, commandDeadline());
  // Fingerprints are evenly spread.
  const share = from === undefined ? 0 : Number.parseInt(from.slice(0, 8), 16) / 2 ** 32;
  return Math.round(all * (1 - share));
}

function portionsOf(records: readonly SealedRecord[], rate: number | undefined) {
  const wanted = rate === undefined ? Infinity : Math.ceil(rate / PORTIONS_A_SECOND);
  const size = Math.min(wanted, MAX_PORTION_RECORDS);
  const portions: SealedRecord[][] = [];
  for (let at = 0; at < records.length; at += size) portions.push(records.slice(at, at + size));
  return portions;
}

/** Tries again while the database is away, within bounds: `attempt` must be idempotent. */
export async function persistently<T>(stop: AbortSignal, attempt: () => Promise<T>): Promise<T> {
  const giveUpMs = performance.now() + OUTAGE_PATIENCE_MS;
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
