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
  readonly is_estimate: boolean;
  /** Of the table with its indexes; null: the database does not tell. */
  readonly bytes: number | null;
}

export interface GrowthPoint {
  /** Unix time. */
  readonly at_ms: number;
  readonly records: number;
}

/**
 * How long a count holds that took so long: counting is to take a two-hundredth of the time at most
 * of one connection, and what is cheap may be seen to move.
 */
export function freshFor(took_ms: number): number {
  return Math.min(60_000, Math.max(1_000, 200 * took_ms));
}

/** How big the vault is, and how it grew while this process ran. */
export class VaultSizes {
  readonly #pool: Pool;
  #growth: GrowthPoint[] = [];
  #interval_ms = FIRST_INTERVAL_MS;
  #size: Promise<VaultSize> | undefined;
  #fresh_until_ms = -Infinity;
  #timer: NodeJS.Timeout | undefined;

  constructor(pool: Pool) {
    this.#pool = pool;
  }

  /** From now on it looks by itself, less and less often. */
  start(): void {
    this.#timer = setTimeout(() => this.start(), this.#interval_ms);
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
    if (this.#size === undefined || performance.now() >= this.#fresh_until_ms) {
      this.#fresh_until_ms = Infinity;
      const size = this.#ask();
      this.#size = size;
      size.catch(() => {
        this.#size = undefined;
      });
    }
    return this.#size;
  }

  async #ask(): Promise<VaultSize> {
    const asked_at_ms = performance.now();
    const deadline_ms = asked_at_ms + REQUEST_PATIENCE_MS;
    const [{ records, is_exact }, bytes] = await Promise.all([
      countRecords(this.#pool, deadline_ms),
      recordsBytes(this.#pool, deadline_ms).catch(() => null),
    ]);
    const now_ms = performance.now();
    this.#fresh_until_ms = now_ms + freshFor(now_ms - asked_at_ms);
    this.#remember({ at_ms: Date.now(), records });
    return { records, is_estimate: !is_exact, bytes };
  }

  #remember(point: GrowthPoint): void {
    const last = this.#growth.at(-1);
    // Asked for by others a little too early: still a point of its own in time.
    if (last !== undefined && point.at_ms - last.at_ms < 0.9 * this.#interval_ms) return;
    this.#growth.push(point);
    if (this.#growth.length <= MAX_POINTS) return;
    this.#growth = this.#growth.filter((_, i) => i % 2 === 0);
    this.#interval_ms *= 2;
  }
}
