import { OldPrimary } from './database-error.ts';

/**
 * The highest timeline that any thread of the process has seen. Servers on a lower one are refused.
 */
export class Timeline {
  /** Pass it to the other threads. */
  readonly shared: SharedArrayBuffer;
  readonly #highest: Uint32Array;

  constructor(shared = new SharedArrayBuffer(Uint32Array.BYTES_PER_ELEMENT)) {
    this.shared = shared;
    this.#highest = new Uint32Array(shared);
  }

  /** @param timeline 0: unknown, never old */
  isOld(timeline: number): boolean {
    return timeline > 0 && timeline < Atomics.load(this.#highest, 0);
  }

  see(timeline: number): void {
    let highest = Atomics.load(this.#highest, 0);
    while (timeline > highest) {
      Atomics.compareExchange(this.#highest, 0, highest, timeline);
      highest = Atomics.load(this.#highest, 0);
    }
  }

  /**
   * @param where the server, in words for the operator
   * @throws OldPrimary
   */
  demand(timeline: number, where: string): void {
    this.see(timeline);
    if (this.isOld(timeline)) throw new OldPrimary(where, timeline, Atomics.load(this.#highest, 0));
  }
}
