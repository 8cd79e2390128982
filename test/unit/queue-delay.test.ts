import { describe, expect, test } from 'vitest';
import { MAX_DELAY_MS, MIN_CALLS, QueueDelay } from '../../src/service/threads/queue-delay.ts';

/** A server that answers calls one after the other, each in so many ms, in a time of its own. */
class Simulation {
  readonly #delay = new QueueDelay(0);
  readonly #queue: number[] = [];
  #now_ms = 0;
  #free_at_ms = 0;
  readonly waits_ms: number[] = [];
  answered = 0;
  refused = 0;
  service_ms: number;

  constructor(service_ms: number) {
    this.service_ms = service_ms;
  }

  /** Calls that come at equal distances. */
  run(duration_ms: number, calls_per_ms: number): this {
    const end_ms = this.#now_ms + duration_ms;
    for (let due_ms = this.#now_ms; due_ms < end_ms; due_ms += 1 / calls_per_ms) {
      this.#answerUntil(due_ms);
      this.#now_ms = due_ms;
      this.call();
    }
    this.#answerUntil(end_ms);
    this.#now_ms = end_ms;
    return this;
  }

  call(): void {
    if (this.#delay.isTooLong(this.#now_ms)) {
      this.refused++;
      return;
    }
    this.#delay.begin(this.#now_ms);
    this.#queue.push(this.#now_ms);
  }

  /** A server that answers nothing for so long. */
  stall(duration_ms: number): void {
    this.#free_at_ms = Math.max(this.#free_at_ms, this.#now_ms) + duration_ms;
  }

  forget(): void {
    this.waits_ms.length = 0;
    this.answered = 0;
    this.refused = 0;
  }

  get longest_ms(): number {
    return this.waits_ms.reduce((longest, one) => Math.max(longest, one), 0);
  }

  #answerUntil(now_ms: number): void {
    while (this.#queue.length > 0) {
      const begins_ms = Math.max(this.#queue[0]!, this.#free_at_ms);
      const ends_ms = begins_ms + this.service_ms;
      if (ends_ms > now_ms) return;
      this.#free_at_ms = ends_ms;
      this.waits_ms.push(ends_ms - this.#queue.shift()!);
      this.answered++;
      this.#delay.end(ends_ms);
    }
  }
}

describe('at three times capacity', () => {
  test.each([0.1, 0.5, 2])('of a call in %d ms, no time is lost, and waits are short', (ms) => {
    const simulation = new Simulation(ms).run(10_000, 3 / ms);
    expect(simulation.answered).toBeGreaterThan((0.99 * 10_000) / ms);
    expect(simulation.refused).toBeGreaterThan((1.9 * 10_000) / ms);
    expect(simulation.longest_ms).toBeLessThan(2 * MAX_DELAY_MS);
    // What was begun before it ended; then all is as if nothing had been.
    simulation.run(3 * MAX_DELAY_MS, 0.5 / ms).forget();
    simulation.run(2_000, 0.9 / ms);
    expect(simulation.refused).toBe(0);
    expect(simulation.longest_ms).toBeLessThan(2 * ms + 1);
  });
});

describe('nothing is refused', () => {
  test('just below capacity', () => {
    expect(new Simulation(1).run(10_000, 0.98).refused).toBe(0);
  });
  test.each([0, 1_000, 60_000])('of a burst after %d ms with little to do', (quiet_ms) => {
    const simulation = new Simulation(0.1).run(3_000, 30);
    simulation.run(1_000 + quiet_ms, 0.02).forget();
    for (let i = 0; i < 1_000; i++) simulation.call();
    simulation.run(1_000, 0.02);
    expect(simulation.refused).toBe(0);
  });
  test('of as many as may always wait, however slow the answers', () => {
    const simulation = new Simulation(2_000);
    simulation.run(1_000, MIN_CALLS / 1_001);
    expect(simulation.refused).toBe(0);
  });
});

test('a server that stalls gets no more than it has, and all again when it goes on', () => {
  const simulation = new Simulation(0.1).run(1_000, 5);
  simulation.forget();
  simulation.stall(3_000);
  simulation.run(2_900, 5);
  expect(simulation.refused).toBeGreaterThan(0.9 * 2_900 * 5);
  simulation.run(1_000, 5).forget();
  simulation.run(1_000, 5);
  expect(simulation.refused).toBe(0);
});

test('a server that becomes slower or faster is noticed', () => {
  const simulation = new Simulation(0.1).run(2_000, 9);
  expect(simulation.refused).toBe(0);
  simulation.service_ms = 1;
  simulation.run(3_000, 9).forget();
  simulation.run(2_000, 9);
  expect(simulation.longest_ms).toBeLessThan(2 * MAX_DELAY_MS);
  expect(simulation.answered).toBeGreaterThan(1_980);
  simulation.service_ms = 0.1;
  simulation.run(3_000, 9).forget();
  simulation.run(1_000, 9);
  expect(simulation.refused).toBe(0);
});
