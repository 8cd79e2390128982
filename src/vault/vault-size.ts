import type { Pool } from '../store/pool.ts';
import { countRecords, recordsBytes } from '../store/record-counts.ts';
import { VAULT_TIMEOUT_MS } from '../timeouts.ts';

/** First interval between growth points. */
const FIRST_INTERVAL_MS = 10_000;
/** Beyond this, every second point is dropped, and the interval doubles. */
const MAX_POINTS = 240;

interface VaultSize {
  readonly records: number;
  /** Whether `records` is an estimate, above 200,000 records. */
  readonly isEstimate: boolean;
  /** Size of the table with its indexes; null: the database did not tell. */
  readonly bytes: number | null;
}

interface GrowthPoint {
  /** Unix time in milliseconds. */
  readonly atMs: number;
  readonly records: number;
}

/**
 * Keeps an answer for 200 times the time that it took: counting may use one connection for at most
 * a 200th of the time, but cheap counts should look live. After a failure, the next call asks.
 */
export function keptFresh<T>(ask: () => Promise<T>): () => Promise<T> {
  let latest: Promise<T> | undefined;
  let freshUntilMs = Infinity;
  return () => {
    if (latest !== undefined && performance.now() < freshUntilMs) return latest;
    freshUntilMs = Infinity;
    const askedAtMs = performance.now();
    const asked = ask();
    latest = asked;
    asked.then(
      () => {
        const nowMs = performance.now();
        freshUntilMs = nowMs + Math.min(60_000, Math.max(1_000, 200 * (nowMs - askedAtMs)));
      },
      () => {
        latest = undefined;
      },
    );
    return asked;
  };
}

/** Counts of the records, further and further apart. */
export class Growth {
  /** Oldest first. */
  points: GrowthPoint[] = [];
  intervalMs = FIRST_INTERVAL_MS;

  /** The last point is the newest count. It stays if it is an interval after the one before. */
  add(point: GrowthPoint): void {
    const [before, last] = this.points.slice(-2);
    // A count requested slightly early still makes a point of its own.
    const isEarly = last !== undefined && last.atMs - before!.atMs < 0.9 * this.intervalMs;
    if (isEarly) this.points.pop();
    this.points.push(point);
    if (this.points.length <= MAX_POINTS) return;
    this.points = this.points.filter((_, i) => i % 2 === 0);
    this.intervalMs *= 2;
  }
}

/** The size of the vault, and its growth while this process runs. */
export class VaultSizes {
  readonly #pool: Pool;
  readonly growth = new Growth();
  /** Rejects with Unavailable. */
  readonly read = keptFresh(() => this.#ask());
  #timer: NodeJS.Timeout | undefined;

  constructor(pool: Pool) {
    this.#pool = pool;
  }

  /** Counts now, then less and less often. */
  start(): void {
    this.#timer = setTimeout(() => this.start(), this.growth.intervalMs).unref();
    this.read().catch(() => {});
  }

  stop(): void {
    clearTimeout(this.#timer);
  }

  async #ask(): Promise<VaultSize> {
    const deadlineMs = performance.now() + VAULT_TIMEOUT_MS;
    const [{ records, isExact }, bytes] = await Promise.all([
      countRecords(this.#pool, deadlineMs),
      recordsBytes(this.#pool, deadlineMs).catch(() => null),
    ]);
    this.growth.add({ atMs: Date.now(), records });
    return { records, isEstimate: !isExact, bytes };
  }
}
