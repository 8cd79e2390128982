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
  #sinceMs: number;
  #callsPerMs = Infinity;

  constructor(nowMs: number) {
    this.#sinceMs = nowMs;
  }

  begin(nowMs: number): void {
    this.#turn(nowMs);
    this.#calls++;
  }

  end(nowMs: number): void {
    this.#calls--;
    this.#answered++;
    this.#fewest = Math.min(this.#fewest, this.#calls);
    this.#turn(nowMs);
  }

  /** Whether the next call would wait too long. */
  isTooLong(nowMs: number): boolean {
    if (this.#calls < MIN_CALLS) return false;
    this.#turn(nowMs);
    return this.#calls / this.#callsPerMs > MAX_DELAY_MS;
  }

  #turn(nowMs: number): void {
    const passedMs = nowMs - this.#sinceMs;
    if (passedMs < WINDOW_MS) return;
    const seen = this.#answered / passedMs;
    if (this.#fewest < MIN_CALLS) {
      this.#callsPerMs = Math.max(seen, this.#callsPerMs * FORGET);
    } else if (this.#callsPerMs === Infinity) {
      this.#callsPerMs = seen;
    } else {
      this.#callsPerMs += NEWEST * (seen - this.#callsPerMs);
    }
    this.#answered = 0;
    this.#fewest = this.#calls;
    this.#sinceMs = nowMs;
  }
}
