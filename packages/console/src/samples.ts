import { HISTORY_MS, SAMPLE_INTERVAL_MS, type Sample } from './protocol.ts';

/** The charts draw no line between samples that are further apart. */
const GAP_MS = 3 * SAMPLE_INTERVAL_MS;

/** With a sample more, of the last 15 minutes. Without one that is not newer: times only rise. */
export function withSample(samples: readonly Sample[], sample: Sample): readonly Sample[] {
  if (sample.atMs <= (samples.at(-1)?.atMs ?? 0)) return samples;
  return windowOf([...samples, sample], HISTORY_MS);
}

/** The samples of the last `windowMs` before the newest sample. */
export function windowOf(samples: readonly Sample[], windowMs: number): readonly Sample[] {
  const fromMs = (samples.at(-1)?.atMs ?? 0) - windowMs;
  return samples.filter((sample) => sample.atMs >= fromMs);
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
