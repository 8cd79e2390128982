import { HISTORY_MS, SAMPLE_INTERVAL_MS, type Sample } from '#console';
import type { Snapshot } from '../../metrics.ts';
import { rise, rounded, sampleBetween } from './sample.ts';
import { type Totals, totalsOf } from './totals.ts';

const MAX_SAMPLES = HISTORY_MS / SAMPLE_INTERVAL_MS;
/** The rates of clients cover several intervals, because most clients call only now and then. */
const RATE_INTERVALS = 5;

interface Reading {
  readonly totals: Totals;
  readonly takenMs: number;
}

/** Reads the metrics every SAMPLE_INTERVAL_MS, and keeps the rates between readings. */
export class Sampler {
  readonly #read: () => Promise<Snapshot>;
  readonly #listeners = new Set<(sample: Sample) => void>();
  readonly #samples: Sample[] = [];
  /** The latest readings, oldest first. */
  readonly #readings: Reading[] = [];
  #timer: NodeJS.Timeout | undefined;
  #isReading = false;

  /** @param read returns the metrics that a sample needs */
  constructor(read: () => Promise<Snapshot>) {
    this.#read = read;
  }

  start(): void {
    this.#timer = setInterval(() => void this.#look(), SAMPLE_INTERVAL_MS);
    this.#timer.unref();
    void this.#look();
  }

  stop(): void {
    clearInterval(this.#timer);
  }

  /** Oldest first. */
  get samples(): readonly Sample[] {
    return this.#samples;
  }

  get areLimitsShared(): boolean | null {
    return this.#readings.at(-1)?.totals.areLimitsShared ?? null;
  }

  get isDatabaseSafe(): boolean | null {
    return this.#readings.at(-1)?.totals.isDatabaseSafe ?? null;
  }

  /** Requests of a client per second, over the last RATE_INTERVALS. */
  rateOf(clientId: string): number {
    const [first, last] = [this.#readings[0], this.#readings.at(-1)];
    if (first === undefined || last === undefined || first === last) return 0;
    const countIn = ({ totals }: Reading) => totals.clients.get(clientId) ?? 0;
    return rounded((1000 * rise(countIn(first), countIn(last))) / (last.takenMs - first.takenMs));
  }

  /** @returns ends the subscription */
  subscribe(listener: (sample: Sample) => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  /** A slow reading delays the next reading, so its sample covers a longer time. */
  async #look(): Promise<void> {
    if (this.#isReading) return;
    this.#isReading = true;
    try {
      this.#take({ totals: totalsOf(await this.#read()), takenMs: performance.now() });
    } catch {
      // The next sample covers this interval too.
    } finally {
      this.#isReading = false;
    }
  }

  #take(reading: Reading): void {
    const before = this.#readings.at(-1);
    this.#readings.push(reading);
    if (this.#readings.length > RATE_INTERVALS + 1) this.#readings.shift();
    if (before === undefined) return;
    const intervalS = (reading.takenMs - before.takenMs) / 1000;
    const sample = sampleBetween(before.totals, reading.totals, Date.now(), intervalS);
    this.#samples.push(sample);
    if (this.#samples.length > MAX_SAMPLES) this.#samples.shift();
    for (const listener of this.#listeners) listener(sample);
  }
}
