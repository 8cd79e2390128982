import {
  type DetectionsOfDay,
  HISTORY_MS,
  type Latency,
  type OperationSample,
  SAMPLE_INTERVAL_MS,
  type Sample,
  type StringsState,
} from '#console';
import type { Snapshot } from '../../observe/metrics.ts';

const MAX_SAMPLES = HISTORY_MS / SAMPLE_INTERVAL_MS;
/** The rates of clients cover several samples, because most clients call only now and then. */
const RATE_SAMPLES = 5;
const CLIENT = 'client.';
const FOUND = 'found.';
const MAX_DAYS = 7;

/** Sums of counters since the start of the service by names such as `tokenize.refused`. */
type Counters = ReadonlyMap<string, number>;

type Labels = Readonly<Record<string, string | number>>;
interface Series {
  readonly value: number;
  readonly labels: Labels;
  readonly metricName?: string;
}

/** The name of the sum of a series; undefined: the console does not show it. */
const NAMES: Readonly<Record<string, (labels: Labels, part: string) => string | undefined>> = {
  standin_requests_total: ({ route, status }) => named(route, outcomeOf(Number(status))),
  standin_request_duration_seconds: ({ route, le }, part) =>
    part === '_bucket' ? named(route, `le.${le}`) : undefined,
  standin_values_total: ({ operation }) => `${operation}.values`,
  /** `insert_sum`, and `insert_count`. */
  standin_batch_records: ({ statement }, part) => `${statement}${part}`,
  /** The console shows no look-ups. */
  standin_rate_limit_rejections_total: ({ limit }) => (limit === 'lookup' ? undefined : 'limited'),
  standin_requests_shed_total: () => 'shed',
  standin_client_requests_total: ({ client_id: id }) => `client.${id}`,
  standin_client_strings_total: ({ client_id: id, outcome }) => `${outcome}.${id}`,
  standin_detections_total: ({ kind }) => `found.${kind}`,
  standin_rate_limit_shared: () => 'areLimitsShared',
  standin_postgres_safe: () => 'isDatabaseSafe',
};

/** The console reads them every few seconds, so only cheap ones are here. */
export const SAMPLED = Object.keys(NAMES);

function named(route: string | number | undefined, what: string): string | undefined {
  const [, operation] = /^\/api\/v1\/(?:text\/)?((?:de)?tokenize)$/.exec(String(route)) ?? [];
  return operation && `${operation}.${what}`;
}

/** A 503 is a refusal, too: overloaded. */
function outcomeOf(status: number): string {
  if (status >= 500 && status !== 503) return 'failed';
  return status >= 400 ? 'refused' : 'succeeded';
}

export function countersOf(metrics: Snapshot): Counters {
  const sums = new Map<string, number>();
  for (const { name, values } of metrics) {
    // The types of prom-client lack `metricName` and the labels of histograms.
    for (const { labels, value, metricName = name } of values as Series[]) {
      const sum = NAMES[name]?.(labels, metricName.slice(name.length));
      if (sum !== undefined) sums.set(sum, (sums.get(sum) ?? 0) + value);
    }
  }
  return sums;
}

/** Reads the metrics every SAMPLE_INTERVAL_MS, and keeps the rates between readings. */
export class Sampler {
  /** Called with each new sample. */
  onSample: (sample: Sample) => void = () => {};
  /** Oldest first. */
  readonly samples: Sample[] = [];
  readonly #read: (names: readonly string[]) => Promise<Snapshot>;
  /** By client, one rate for each of the latest samples since its first request. */
  readonly #clientRates = new Map<string, number[]>();
  /** By day, and kind. */
  readonly #detections: Detections = new Map();
  #latest: { readonly counters: Counters; readonly takenMs: number } | undefined;
  #timer: NodeJS.Timeout | undefined;
  #isReading = false;

  /** @param read returns the metrics of these names */
  constructor(read: (names: readonly string[]) => Promise<Snapshot>) {
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

  /** null: it was not measured yet. */
  is(name: 'areLimitsShared' | 'isDatabaseSafe'): boolean | null {
    const value = this.#latest?.counters.get(name);
    return value === undefined ? null : value === 1;
  }

  /** Of a client since the start; null: it sent nothing under a policy with fields. */
  stringsOf(clientId: string): StringsState | null {
    const counters = this.#latest?.counters;
    const replaced = counters?.get(`replaced.${clientId}`);
    const passed = counters?.get(`passed.${clientId}`);
    if (replaced === undefined && passed === undefined) return null;
    return { replaced: replaced ?? 0, passed: passed ?? 0 };
  }

  /** Requests of a client per second, over the last RATE_SAMPLES. */
  rateOf(clientId: string): number {
    const rates = this.#clientRates.get(clientId)?.slice(-RATE_SAMPLES) ?? [0];
    const sum = rates.reduce((all, one) => all + one);
    return rounded(sum / Math.max(1, Math.min(RATE_SAMPLES, this.samples.length)));
  }

  /** The rates of a client, oldest first; empty if it has sent nothing, or is not counted alone. */
  ratesOf(clientId: string): { readonly atMs: number; readonly requestsPerS: number }[] {
    const rates = this.#clientRates.get(clientId) ?? [];
    const samples = this.samples.slice(-rates.length || this.samples.length);
    return samples.map(({ atMs }, i) => ({ atMs, requestsPerS: rates[i] ?? 0 }));
  }

  get detections(): DetectionsOfDay[] {
    return [...this.#detections].map(([day, counts]) => ({
      ...{ day, counts: [...counts].map(([kind, count]) => ({ kind, count })) },
    }));
  }

  /** A slow reading delays the next reading, so its sample covers a longer time. */
  async #sample(): Promise<void> {
    if (this.#isReading) return;
    this.#isReading = true;
    try {
      this.#take(countersOf(await this.#read(SAMPLED)));
    } catch {
      // The next sample covers this interval too.
    } finally {
      this.#isReading = false;
    }
  }

  #take(counters: Counters): void {
    const before = this.#latest;
    this.#latest = { counters, takenMs: performance.now() };
    addDetections(this.#detections, before?.counters ?? new Map(), counters, new Date());
    if (before === undefined) return;
    const intervalS = (this.#latest.takenMs - before.takenMs) / 1000;
    const sample = sampleBetween(before.counters, counters, Date.now(), intervalS);
    keep(this.samples, sample);
    for (const name of counters.keys()) {
      if (!name.startsWith(CLIENT)) continue;
      const clientId = name.slice(CLIENT.length);
      const rates = this.#clientRates.get(clientId) ?? [];
      this.#clientRates.set(clientId, rates);
      keep(rates, rounded(riseOf(name, before.counters, counters) / intervalS));
    }
    this.onSample(sample);
  }
}

/** Adds one as the newest, up to MAX_SAMPLES. */
function keep<T>(list: T[], one: T): void {
  if (list.push(one) > MAX_SAMPLES) list.shift();
}

/** Counts since the start, by day in UTC, and kind. */
type Detections = Map<string, Map<string, number>>;

/** Adds the rise between two readings to the day of the later one. Keeps MAX_DAYS. */
export function addDetections(
  detections: Detections,
  before: Counters,
  after: Counters,
  now: Date,
): void {
  const day = now.toISOString().slice(0, 10);
  for (const name of after.keys()) {
    const rise = name.startsWith(FOUND) ? riseOf(name, before, after) : 0;
    if (rise === 0) continue;
    const counts = detections.get(day) ?? new Map<string, number>();
    const kind = name.slice(FOUND.length);
    detections.set(day, counts.set(kind, (counts.get(kind) ?? 0) + rise));
  }
  if (detections.size > MAX_DAYS) detections.delete(detections.keys().next().value!);
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
