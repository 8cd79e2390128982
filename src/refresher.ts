import { setTimeout as sleep } from 'node:timers/promises';
import { operatorError } from './errors.ts';

/** The shortest time between reads that requests wait for. */
const LEAST_INTERVAL_MS = 50;
/** Bounds the reads that wait for a database that does not answer. */
const MAX_UNDER_WAY = 3;

interface Settings {
  readonly intervalMs: number;
  /** Between the starts of two reads. */
  readonly leastIntervalMs?: number;
  /** A clock that never goes back. */
  readonly nowMs: () => number;
}

/** Keeps a copy of what others change: reads it at an interval, and when somebody asks. */
export class Refresher {
  readonly #read: (startedAtMs: number) => Promise<() => void>;
  readonly #settings: Settings;
  #startedAtMs = -Infinity;
  /** When the latest read that was taken had begun. */
  #takenMs = -Infinity;
  #underWay = 0;
  #next: Promise<void> | undefined;
  #latest = Promise.resolve();
  #timer: NodeJS.Timeout | undefined;

  /** @param read never rejects; resolves to what takes its result */
  constructor(read: (startedAtMs: number) => Promise<() => void>, settings: Settings) {
    this.#read = read;
    this.#settings = settings;
  }

  /** Reads now, and then at each interval. Resolves after the first read. */
  start(): Promise<void> {
    this.#timer = setInterval(() => void this.refresh(), this.#settings.intervalMs).unref();
    return this.refresh();
  }

  /** Ends the reads at the interval. Nothing takes the result of one that is under way. */
  stop(): void {
    clearInterval(this.#timer);
    this.#takenMs = this.#settings.nowMs();
  }

  /** Resolves after a read that begins after this call. Calls at the same time share one. */
  refresh(): Promise<void> {
    this.#next ??= this.#soon();
    this.#latest = this.#next;
    return this.#next;
  }

  /** When the latest read began; -Infinity: there was none. */
  get startedAtMs(): number {
    return this.#startedAtMs;
  }

  /** Resolves after the latest read that somebody asked for. */
  get latest(): Promise<void> {
    return this.#latest;
  }

  async #soon(): Promise<void> {
    const { leastIntervalMs = LEAST_INTERVAL_MS, nowMs } = this.#settings;
    await sleep(Math.max(0, this.#startedAtMs + leastIntervalMs - nowMs()));
    while (this.#underWay >= MAX_UNDER_WAY) await sleep(leastIntervalMs);
    this.#next = undefined;
    await this.#now();
  }

  async #now(): Promise<void> {
    const startedAtMs = this.#settings.nowMs();
    this.#startedAtMs = startedAtMs;
    this.#underWay++;
    try {
      const take = await this.#read(startedAtMs);
      // A slow read may end after a later one.
      if (startedAtMs < this.#takenMs) return;
      this.#takenMs = startedAtMs;
      take();
    } finally {
      this.#underWay--;
    }
  }
}

/** Calls `onChange` with a problem that differs from the last one; undefined: there is none. */
export function whenItChanges<T>(onChange: (problem: T) => void): (problem: T) => void {
  // Reasons for an unavailable database differ only in their cause.
  const inWords = (problem: T | undefined) => String(operatorError(problem) ?? problem);
  let last = inWords(undefined);
  return (problem) => {
    const words = inWords(problem);
    if (words !== last) onChange(problem);
    last = words;
  };
}
