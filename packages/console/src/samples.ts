import { HISTORY_MS, SAMPLE_INTERVAL_MS, type Sample } from './protocol.ts';

/** One more than fits: a line begins at the left edge of the longest window. */
const MAX_SAMPLES = HISTORY_MS / SAMPLE_INTERVAL_MS + 1;
/** Samples further apart than this have nothing between them: no line is drawn. */
const GAP_MS = 3 * SAMPLE_INTERVAL_MS;

/** The samples of the last 15 minutes, oldest first, however long the page is open. */
export class Samples {
  #kept: Sample[] = [];

  /** What was seen before the history began stays: a restart of the service forgets it there. */
  replace(history: readonly Sample[]): void {
    const first_ms = history[0]?.at_ms ?? Number.POSITIVE_INFINITY;
    this.#kept = [...this.#kept.filter((sample) => sample.at_ms < first_ms), ...history];
    this.#drop();
  }

  /** A sample that is not newer than the last one is passed over: time walks one way. */
  add(sample: Sample): void {
    const last = this.last;
    if (last !== undefined && sample.at_ms <= last.at_ms) return;
    this.#kept.push(sample);
    this.#drop();
  }

  get last(): Sample | undefined {
    return this.#kept.at(-1);
  }

  /** Of the last `window_ms` before the newest. */
  window(window_ms: number): readonly Sample[] {
    const from_ms = (this.last?.at_ms ?? 0) - window_ms;
    return this.#kept.filter((sample) => sample.at_ms >= from_ms);
  }

  #drop(): void {
    const from_ms = (this.last?.at_ms ?? 0) - HISTORY_MS;
    const first = this.#kept.findIndex((sample) => sample.at_ms >= from_ms);
    this.#kept = this.#kept.slice(Math.max(first, 0)).slice(-MAX_SAMPLES);
  }
}

export type Pick = (sample: Sample) => number | null;

/** What a chart draws: Unix times in s, then one column a pick; a row of nulls in every gap. */
export function columnsOf(
  samples: readonly Sample[],
  picks: readonly Pick[],
): [number[], ...(number | null)[][]] {
  const times: number[] = [];
  const values: (number | null)[][] = picks.map(() => []);
  let before_ms = samples[0]?.at_ms ?? 0;
  for (const sample of samples) {
    if (sample.at_ms - before_ms > GAP_MS) {
      times.push((before_ms + SAMPLE_INTERVAL_MS) / 1_000);
      for (const column of values) column.push(null);
    }
    times.push(sample.at_ms / 1_000);
    picks.forEach((pick, i) => {
      values[i]!.push(pick(sample));
    });
    before_ms = sample.at_ms;
  }
  return [times, ...values];
}

/** A line of a chart in numbers; null where nothing was measured. */
export interface Figures {
  readonly now: number | null;
  readonly mean: number | null;
  readonly highest: number | null;
  /** Of a rate a second: how many in all. */
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
    const since_ms = sample.at_ms - (samples[i - 1]?.at_ms ?? sample.at_ms - SAMPLE_INTERVAL_MS);
    total += (value * Math.min(since_ms, GAP_MS)) / 1_000;
    sum += value;
    count++;
    highest = Math.max(highest ?? value, value);
  });
  const last = samples.at(-1);
  const now = last === undefined ? null : pick(last);
  return { now, mean: count === 0 ? null : sum / count, highest, total };
}

/** Requests that were answered, whatever the answer. */
export function requestsOf(operation: Sample['tokenize']): number {
  return operation.succeeded + operation.refused + operation.failed;
}

export function hasRequests(samples: readonly Sample[]): boolean {
  return samples.some(
    ({ tokenize, detokenize, shed }) => requestsOf(tokenize) + requestsOf(detokenize) + shed > 0,
  );
}
