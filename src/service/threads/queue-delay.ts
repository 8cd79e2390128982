/** A call that would wait longer than this is better refused: its caller can go elsewhere. */
export const MAX_DELAY_MS = 500;
/**
 * As many may always wait, also on a slow machine: a burst is no overload, and fewer say little of
 * the rate.
 */
export const MIN_CALLS = 256;
const WINDOW_MS = 100;
/** How much the newest window counts. */
const NEWEST = 0.5;
/** What is known of the rate is forgotten by this, in a window with nothing to learn. */
const FORGET = 1.1;

/**
 * How long a call would wait, by Little's law: those before it, divided by the rate at which they
 * are answered. The rate is what was seen while there was always work: with less to do, answers
 * come as slowly as questions, which says nothing. The age of the oldest call, which needs no
 * rate, comes too late: at three times capacity, three times as many are already behind it.
 */
export class QueueDelay {
  #calls = 0;
  #answered = 0;
  /** The fewest at any time of the window. */
  #fewest = 0;
  #since_ms: number;
  #calls_per_ms = Infinity;

  constructor(now_ms: number) {
    this.#since_ms = now_ms;
  }

  begin(now_ms: number): void {
    this.#turn(now_ms);
    this.#calls++;
  }

  end(now_ms: number): void {
    this.#calls--;
    this.#answered++;
    this.#fewest = Math.min(this.#fewest, this.#calls);
    this.#turn(now_ms);
  }

  /** Whether the next call would wait too long. */
  isTooLong(now_ms: number): boolean {
    if (this.#calls < MIN_CALLS) return false;
    this.#turn(now_ms);
    return this.#calls / this.#calls_per_ms > MAX_DELAY_MS;
  }

  #turn(now_ms: number): void {
    const passed_ms = now_ms - this.#since_ms;
    if (passed_ms < WINDOW_MS) return;
    const seen = this.#answered / passed_ms;
    if (this.#fewest < MIN_CALLS) {
      this.#calls_per_ms = Math.max(seen, this.#calls_per_ms * FORGET);
    } else if (this.#calls_per_ms === Infinity) {
      this.#calls_per_ms = seen;
    } else {
      this.#calls_per_ms += NEWEST * (seen - this.#calls_per_ms);
    }
    this.#answered = 0;
    this.#fewest = this.#calls;
    this.#since_ms = now_ms;
  }
}
