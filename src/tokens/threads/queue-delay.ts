/**
 * Calls that would wait longer than this are refused, so that their callers can try another node.
 */
export const MAX_DELAY_MS = 500;
/**
 * This many calls may always wait, even on a slow machine. A burst is no overload, and fewer calls
 * tell little about the rate.
 */
export const MIN_CALLS = 256;
const WINDOW_MS = 100;
/** Weight of the newest window. */
const NEWEST = 0.5;
/** Factor by which the rate grows in a window that measured nothing. */
const FORGET = 1.1;

/**
 * Estimates the wait of a call by Little's law: the calls ahead divided by the answer rate.
 * The rate is measured only while there is always work. With less work, answers come only as fast
 * as questions, which says nothing about capacity.
 * The age of the oldest call needs no rate, but reacts too late: at three times capacity, three
 * times too many calls are already queued.
 */
export class QueueDelay {
  #calls = 0;
  #answered = 0;
  /** The fewest calls at any time in the window. */
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
