import { HISTORY_MS, SAMPLE_INTERVAL_MS, type Sample } from './protocol.ts';

/** One sample more than intervals, so that a line begins at the left edge of the window. */
const MAX_SAMPLES = HISTORY_MS / SAMPLE_INTERVAL_MS + 1;
/** The charts draw no line between samples that are further apart. */
const GAP_MS = 3 * SAMPLE_INTERVAL_MS;

/** The samples of the last 15 minutes, oldest first. */
export class SampleHistory {
  #kept: Sample[] = [];

  /** Keeps older samples, because a restarted service has lost them. */
  replace(history: readonly Sample[]): void {
    const firstMs = history[0]?.atMs ?? Number.POSITIVE_INFINITY;
    this.#kept = [...this.#kept.filter((sample) => sample.atMs < firstMs), ...history];
    this.#drop();
  }

  /** Ignores a sample that is not newer than the last sample, so that times only rise. */
  add(sample: Sample): void {
    const last = this.last;
    if (last !== undefined && sample.atMs <= last.atMs) return;
    this.#kept.push(sample);
    this.#drop();
  }

  get last(): Sample | undefined {
    return this.#kept.at(-1);
  }

  /** The samples of the last `windowMs` before the newest sample. */
  window(windowMs: number): readonly Sample[] {
    const fromMs = (this.last?.atMs ?? 0) - windowMs;
    return this.#kept.filter((sample) => sample.atMs >= fromMs);
  }

  #drop(): void {
    const fromMs = (this.last?.atMs ?? 0) - HISTORY_MS;
    const first = this.#kept.findIndex((sample) => sample.atMs >= fromMs);
    this.#kept = this.#kept.slice(Math.max(first, 0)).slice(-MAX_SAMPLES);
  }
}

export type Pick = (sample: Sample) => number | null;

/** The data of a chart: Unix times in s, then a column for each pick. A null marks a gap. */
export function columnsOf(
  samples: readonly Sample[],
  picks: readonly Pick[],
): [number[], ...(number | null)[][]] {
  const times: number[] = [];
  const values: (number | null)[][] = picks.map(() => []);
  let beforeMs = samples[0]?.atMs ?? 0;
  for (const sample of samples) {
    if (sample.atMs - beforeMs > GAP_MS) {
      times.push((beforeMs + SAMPLE_INTERVAL_MS) / 1_000);
      for (const column of values) column.push(null);
    }
    times.push(sample.atMs / 1_000);
    picks.forEach((pick, i) => {
      values[i]!.push(pick(sample));
    });
    beforeMs = sample.atMs;
  }
  return [times, ...values];
}

/** The key figures of a line; null: nothing was measured. */
export interface Figures {
  readonly now: number | null;
  readonly mean: number | null;
  readonly highest: number | null;
  /** The integral of a rate per second: the count in the window. */
  readonly total: number;
}

export function figuresOf(samples: readonly Sample[], pick: Pick): Figures {
  let sum = 0;
  let count = 0;
  let total = 0;
  let highest: number | null = null;
  samples.forEach((sample, i) => {
    const value = pick(sample);
    if (value === null) return;
    const sinceMs = sample.atMs - (samples[i - 1]?.atMs ?? sample.atMs - SAMPLE_INTERVAL_MS);
    total += (value * Math.min(sinceMs, GAP_MS)) / 1_000;
    sum += value;
    count++;
    highest = Math.max(highest ?? value, value);
  });
  const last = samples.at(-1);
  const now = last === undefined ? null : pick(last);
  return { now, mean: count === 0 ? null : sum / count, highest, total };
}

/** All answered requests. */
export function requestsOf(operation: Sample['tokenize']): number {
  return operation.succeeded + operation.refused + operation.failed;
}

export function hasRequests(samples: readonly Sample[]): boolean {
  return samples.some(
    ({ tokenize, detokenize, shed }) => requestsOf(tokenize) + requestsOf(detokenize) + shed > 0,
  );
}
