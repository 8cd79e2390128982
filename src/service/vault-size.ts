import type { Pool } from '../store/pool.ts';
import { countRecords, recordsBytes } from '../store/server.ts';
import { REQUEST_PATIENCE_MS } from '../timeouts.ts';

/** Between points of growth at first. */
const FIRST_INTERVAL_MS = 10_000;
/** Beyond it every second point goes, and the next ones are twice as far apart. */
const MAX_POINTS = 240;

export interface VaultSize {
  readonly records: number;
  /** The records are an estimate: there are more than 200,000. */
  readonly isEstimate: boolean;
  /** Of the table with its indexes; null: the database does not tell. */
  readonly bytes: number | null;
}

export interface GrowthPoint {
  /** Unix time. */
  readonly atMs: number;
  readonly records: number;
}

/**
 * How long a count holds that took so long: counting is to take a two-hundredth of the time at most
 * of one connection, and what is cheap may be seen to move.
 */
export function freshFor(tookMs: number): number {
  return Math.min(60_000, Math.max(1_000, 200 * tookMs));
}

/** How big the vault is, and how it grew while this process ran. */
export class VaultSizes {
  readonly #pool: Pool;
  #growth: GrowthPoint[] = [];
  #intervalMs = FIRST_INTERVAL_MS;
  #size: Promise<VaultSize> | undefined;
  #freshUntilMs = -Infinity;
  #timer: NodeJS.Timeout | undefined;

  constructor(pool: Pool) {
    this.#pool = pool;
  }

  /** From now on it looks by itself, less and less often. */
  start(): void {
    this.#timer = setTimeout(() => this.start(), this.#intervalMs);
    this.#timer.unref();
    this.read().catch(() => {});
  }

  stop(): void {
    clearTimeout(this.#timer);
  }

  /** Oldest first. */
  get growth(): readonly GrowthPoint[] {
    return this.#growth;
  }

  /** Not older than a minute. Rejects with Unavailable; then the next call asks again. */
  read(): Promise<VaultSize> {
    if (this.#size === undefined || performance.now() >= this.#freshUntilMs) {
      this.#freshUntilMs = Infinity;
      const size = this.#ask();
      this.#size = size;
      size.catch(() => {
        this.#size = undefined;
      });
    }
    return this.#size;
  }

  async #ask(): Promise<VaultSize> {
    const askedAtMs = performance.now();
    const deadlineMs = askedAtMs + REQUEST_PATIENCE_MS;
    const [{ records, isExact }, bytes] = await Promise.all([
      countRecords(this.#pool, deadlineMs),
      recordsBytes(this.#pool, deadlineMs).catch(() => null),
    ]);
    const nowMs = performance.now();
    this.#freshUntilMs = nowMs + freshFor(nowMs - askedAtMs);
    this.#remember({ atMs: Date.now(), records });
    return { records, isEstimate: !isExact, bytes };
  }

  #remember(point: GrowthPoint): void {
    const last = this.#growth.at(-1);
    // Asked for by others a little too early: still a point of its own in time.
    if (last !== undefined && point.atMs - last.atMs < 0.9 * this.#intervalMs) return;
    this.#growth.push(point);
    if (this.#growth.length <= MAX_POINTS) return;
    this.#growth = this.#growth.filter((_, i) => i % 2 === 0);
    this.#intervalMs *= 2;
  }
}
