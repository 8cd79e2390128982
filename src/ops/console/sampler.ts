import {
  HISTORY_MS,
  type Latency,
  type OperationSample,
  SAMPLE_INTERVAL_MS,
  type Sample,
  type StringsState,
} from '#console';
import type { Snapshot } from '../../observe/metrics.ts';
import { type Counters, countersOf } from './counters.ts';

const MAX_SAMPLES = HISTORY_MS / SAMPLE_INTERVAL_MS;
/** The rates of clients cover several intervals, because most clients call only now and then. */
const RATE_INTERVALS = 5;
const CLIENT = 'client.';

interface Reading {
  readonly counters: Counters;
  readonly takenMs: number;
}

/** Reads the metrics every SAMPLE_INTERVAL_MS, and keeps the rates between readings. */
export class Sampler {
  readonly #read: () => Promise<Snapshot>;
  readonly #listeners = new Set<(sample: Sample) => void>();
  readonly #samples: Sample[] = [];
  /** By client, one rate for each of the latest samples since its first request. */
  readonly #clientRates = new Map<string, number[]>();
  /** The latest readings, oldest first. */
  readonly #readings: Reading[] = [];
  #timer: NodeJS.Timeout | undefined;
  #isReading = false;

  /** @param read returns the metrics that a sample needs */
  constructor(read: () => Promise<Snapshot>) {
    this.#read = read;
  }

  start(): void {
    this.#timer = setInterval(() => void this.#sample(), SAMPLE_INTERVAL_MS);
    this.#timer.unref();
    void this.#sample();
  }

  stop(): void {
    clearInterval(this.#timer);
  }

  /** Oldest first. */
  get samples(): readonly Sample[] {
    return this.#samples;
  }

  /** null: it was not measured yet. */
  is(name: 'areLimitsShared' | 'isDatabaseSafe'): boolean | null {
    const value = this.#readings.at(-1)?.counters.get(name);
    return value === undefined ? null : value === 1;
  }

  /** Of a client since the start; null: it sent nothing under a policy with fields. */
  stringsOf(clientId: string): StringsState | null {
    const counters = this.#readings.at(-1)?.counters;
    const replaced = counters?.get(`replaced.${clientId}`);
    const passed = counters?.get(`passed.${clientId}`);
    if (replaced === undefined && passed === undefined) return null;
    return { replaced: replaced ?? 0, passed: passed ?? 0 };
  }

  /** Requests of a client per second, over the last RATE_INTERVALS. */
  rateOf(clientId: string): number {
    const [first, last] = [this.#readings[0], this.#readings.at(-1)];
    if (first === undefined || last === undefined || first === last) return 0;
    const count = riseOf(CLIENT + clientId, first.counters, last.counters);
    return rounded((1000 * count) / (last.takenMs - first.takenMs));
  }

  /** The rates of a client, oldest first; empty if it has sent nothing, or is not counted alone. */
  ratesOf(clientId: string): { readonly atMs: number; readonly requestsPerS: number }[] {
    const rates = this.#clientRates.get(clientId) ?? [];
    const samples = this.#samples.slice(-rates.length || this.#samples.length);
    return samples.map(({ atMs }, i) => ({ atMs, requestsPerS: rates[i] ?? 0 }));
  }

  /** @returns ends the subscription */
  subscribe(listener: (sample: Sample) => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  /** A slow reading delays the next reading, so its sample covers a longer time. */
  async #sample(): Promise<void> {
    if (this.#isReading) return;
    this.#isReading = true;
    try {
      this.#take({ counters: countersOf(await this.#read()), takenMs: performance.now() });
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
    const sample = sampleBetween(before.counters, reading.counters, Date.now(), intervalS);
    this.#samples.push(sample);
    if (this.#samples.length > MAX_SAMPLES) this.#samples.shift();
    this.#takeClients(before.counters, reading.counters, intervalS);
    for (const listener of this.#listeners) listener(sample);
  }

  #takeClients(before: Counters, after: Counters, intervalS: number): void {
    for (const name of after.keys()) {
      if (!name.startsWith(CLIENT)) continue;
      const clientId = name.slice(CLIENT.length);
      const rates = this.#clientRates.get(clientId) ?? [];
      this.#clientRates.set(clientId, rates);
      rates.push(rounded(riseOf(name, before, after) / intervalS));
      if (rates.length > MAX_SAMPLES) rates.shift();
    }
  }
}

/**
 * The rates between two readings of the counters.
 * @param atMs Unix time of the later reading
 * @param intervalS time between the readings, above 0
 */
export function sampleBetween(
  before: Counters,
  after: Counters,
  atMs: number,
  intervalS: number,
): Sample {
  const rate = (name: string) => rounded(riseOf(name, before, after) / intervalS);
  const operation = (name: string): OperationSample => ({
    succeeded: rate(`${name}.succeeded`),
    refused: rate(`${name}.refused`),
    failed: rate(`${name}.failed`),
    values: rate(`${name}.values`),
    latency: latencyOf(bucketsOf(`${name}.le.`, before, after)),
  });
  const batch = (statement: string) => {
    const statements = riseOf(`${statement}_count`, before, after);
    const records = riseOf(`${statement}_sum`, before, after);
    return statements === 0 ? null : rounded(records / statements);
  };
  return {
    atMs,
    tokenize: operation('tokenize'),
    detokenize: operation('detokenize'),
    limited: rate('limited'),
    shed: rate('shed'),
    batch: { insert: batch('insert'), find: batch('find') },
  };
}

/** The rise of a counter. A counter that fell was reset to 0 in between. */
function riseOf(name: string, before: Counters, after: Counters): number {
  const [earlier, later] = [before.get(name) ?? 0, after.get(name) ?? 0];
  return later < earlier ? later : later - earlier;
}

/** Requests by upper bound of their time in seconds, cumulative, by rising bound. */
function bucketsOf(prefix: string, before: Counters, after: Counters): [number, number][] {
  const names = [...after.keys()].filter((name) => name.startsWith(prefix));
  return names
    .map((name): [number, number] => [
      Number(name.slice(prefix.length).replace('+Inf', 'Infinity')),
      riseOf(name, before, after),
    ])
    .sort(([a], [b]) => a - b);
}

function rounded(number: number): number {
  return Math.round(number * 1000) / 1000;
}

/** @param buckets cumulative: [bound in seconds, requests up to it], by rising bound */
export function latencyOf(buckets: readonly (readonly [number, number])[]): Latency | null {
  const requests = buckets.at(-1)?.[1] ?? 0;
  if (requests === 0) return null;
  const quantile = (share: number) => rounded(1000 * quantileOf(buckets, share * requests));
  return { p50_ms: quantile(0.5), p95_ms: quantile(0.95), p99_ms: quantile(0.99) };
}

/** Interpolates within a bucket as histogram_quantile of Prometheus does, up to the last bound. */
function quantileOf(buckets: readonly (readonly [number, number])[], rank: number): number {
  let lowerS = 0;
  let below = 0;
  for (const [boundS, count] of buckets) {
    if (boundS === Infinity) break;
    if (count >= rank) return lowerS + (boundS - lowerS) * ((rank - below) / (count - below));
    lowerS = boundS;
    below = count;
  }
  return lowerS;
}
