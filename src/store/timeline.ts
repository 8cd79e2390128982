import { OldPrimary } from './database-error.ts';

/** The highest timeline that a process has seen, in all its threads: the least that it accepts. */
export class Timeline {
  /** For other threads. */
  readonly shared: SharedArrayBuffer;
  readonly #highest: Uint32Array;

  constructor(shared = new SharedArrayBuffer(Uint32Array.BYTES_PER_ELEMENT)) {
    this.shared = shared;
    this.#highest = new Uint32Array(shared);
  }

  /** @param timeline 0: not known, which is never old */
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

  /** @param where the server, in words. @throws OldPrimary */
  demand(timeline: number, where: string): void {
    this.see(timeline);
    if (this.isOld(timeline)) throw new OldPrimary(where, timeline, Atomics.load(this.#highest, 0));
  }
}
