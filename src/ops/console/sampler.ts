import {
  HISTORY_MS,
  type Latency,
  type OperationSample,
  SAMPLE_INTERVAL_MS,
  type Sample,
  type StringsState,
} from '#console';
import type { Snapshot } from '../../metrics.ts';
import {
  type BatchCounters,
  type Counters,
  countersOf,
  type OperationCounters,
} from './counters.ts';

const MAX_SAMPLES = HISTORY_MS / SAMPLE_INTERVAL_MS;
/** The rates of clients cover several intervals, because most clients call only now and then. */
const RATE_INTERVALS = 5;

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
    return this.#readings.at(-1)?.counters.areLimitsShared ?? null;
  }

  get isDatabaseSafe(): boolean | null {
    return this.#readings.at(-1)?.counters.isDatabaseSafe ?? null;
  }

  /** Of a client since the start; null: it sent nothing under a policy with fields. */
  stringsOf(clientId: string): StringsState | null {
    return this.#readings.at(-1)?.counters.strings.get(clientId) ?? null;
  }

  /** Requests of a client per second, over the last RATE_INTERVALS. */
  rateOf(clientId: string): number {
    const [first, last] = [this.#readings[0], this.#readings.at(-1)];
    if (first === undefined || last === undefined || first === last) return 0;
    const countIn = ({ counters }: Reading) => counters.clients.get(clientId) ?? 0;
    return rounded((1000 * rise(countIn(first), countIn(last))) / (last.takenMs - first.takenMs));
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
  async #look(): Promise<void> {
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
    this.#takeClients(before.counters.clients, reading.counters.clients, intervalS);
    for (const listener of this.#listeners) listener(sample);
  }

  #takeClients(
    before: ReadonlyMap<string, number>,
    after: ReadonlyMap<string, number>,
    intervalS: number,
  ): void {
    for (const [clientId, count] of after) {
      const rates = this.#clientRates.get(clientId) ?? [];
      this.#clientRates.set(clientId, rates);
      rates.push(rounded(rise(before.get(clientId) ?? 0, count) / intervalS));
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
  const rate = (earlier: number, later: number) => rounded(rise(earlier, later) / intervalS);
  return {
    atMs,
    tokenize: operationBetween(before.tokenize, after.tokenize, rate),
    detokenize: operationBetween(before.detokenize, after.detokenize, rate),
    limited: rate(before.limited, after.limited),
    shed: rate(before.shed, after.shed),
    batch: {
      insert: sizeBetween(before.insert, after.insert),
      find: sizeBetween(before.find, after.find),
    },
  };
}

/** The rise of a counter. A counter that fell was reset to 0 in between. */
export function rise(before: number, after: number): number {
  return after < before ? after : after - before;
}

function rounded(number: number): number {
  return Math.round(number * 1000) / 1000;
}

function operationBetween(
  before: OperationCounters,
  after: OperationCounters,
  rate: (earlier: number, later: number) => number,
): OperationSample {
  const requests = [...after.buckets].map(
    ([boundS, count]) => [boundS, rise(before.buckets.get(boundS) ?? 0, count)] as const,
  );
  return {
    succeeded: rate(before.succeeded, after.succeeded),
    refused: rate(before.refused, after.refused),
    failed: rate(before.failed, after.failed),
    values: rate(before.values, after.values),
    latency: latencyOf(requests.toSorted(([a], [b]) => a - b)),
  };
}

function sizeBetween(before: BatchCounters, after: BatchCounters): number | null {
  const statements = rise(before.statements, after.statements);
  return statements === 0 ? null : rounded(rise(before.records, after.records) / statements);
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
