import { describe, expect, test } from 'vitest';
import { MAX_DELAY_MS, MIN_CALLS, QueueDelay } from '../../src/tokens/threads/queue-delay.ts';

/** A server that answers calls one after the other, each in so many ms, in a time of its own. */
class Simulation {
  readonly #delay = new QueueDelay(0);
  readonly #queue: number[] = [];
  #nowMs = 0;
  #freeAtMs = 0;
  longestMs = 0;
  answered = 0;
  refused = 0;
  serviceMs: number;

  constructor(serviceMs: number) {
    this.serviceMs = serviceMs;
  }

  /** Calls that come at equal distances. */
  run(durationMs: number, callsPerMs: number): this {
    const endMs = this.#nowMs + durationMs;
    for (let dueMs = this.#nowMs; dueMs < endMs; dueMs += 1 / callsPerMs) {
      this.#answerUntil(dueMs);
      this.#nowMs = dueMs;
      this.call();
    }
    this.#answerUntil(endMs);
    this.#nowMs = endMs;
    return this;
  }

  call(): void {
    if (this.#delay.isTooLong(this.#nowMs)) {
      this.refused++;
      return;
    }
    this.#delay.begin(this.#nowMs);
    this.#queue.push(this.#nowMs);
  }

  forget(): void {
    this.longestMs = 0;
    this.answered = 0;
    this.refused = 0;
  }

  #answerUntil(nowMs: number): void {
    while (this.#queue.length > 0) {
      const beginsMs = Math.max(this.#queue[0]!, this.#freeAtMs);
      const endsMs = beginsMs + this.serviceMs;
      if (endsMs > nowMs) return;
      this.#freeAtMs = endsMs;
      this.longestMs = Math.max(this.longestMs, endsMs - this.#queue.shift()!);
      this.answered++;
      this.#delay.end(endsMs);
    }
  }
}

describe('at three times capacity', () => {
  test.each([0.1, 0.5, 2])('of a call in %d ms, no time is lost, and waits are short', (ms) => {
    const simulation = new Simulation(ms).run(10_000, 3 / ms);
    expect(simulation.answered).toBeGreaterThan((0.99 * 10_000) / ms);
    expect(simulation.refused).toBeGreaterThan((1.9 * 10_000) / ms);
    expect(simulation.longestMs).toBeLessThan(2 * MAX_DELAY_MS);
    // What was begun before it ended; then all is as if nothing had been.
    simulation.run(3 * MAX_DELAY_MS, 0.5 / ms).forget();
    simulation.run(2_000, 0.9 / ms);
    expect(simulation.refused).toBe(0);
    expect(simulation.longestMs).toBeLessThan(2 * ms + 1);
  });
});

describe('nothing is refused', () => {
  test('just below capacity', () => {
    expect(new Simulation(1).run(10_000, 0.98).refused).toBe(0);
  });
  test.each([0, 1_000, 60_000])('of a burst after %d ms with little to do', (quietMs) => {
    const simulation = new Simulation(0.1).run(3_000, 30);
    simulation.run(1_000 + quietMs, 0.02).forget();
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

test('a server that becomes slower or faster is noticed', () => {
  const simulation = new Simulation(0.1).run(2_000, 9);
  expect(simulation.refused).toBe(0);
  simulation.serviceMs = 1;
  simulation.run(3_000, 9).forget();
  simulation.run(2_000, 9);
  expect(simulation.longestMs).toBeLessThan(2 * MAX_DELAY_MS);
  expect(simulation.answered).toBeGreaterThan(1_980);
  simulation.serviceMs = 0.1;
  simulation.run(3_000, 9).forget();
  simulation.run(1_000, 9);
  expect(simulation.refused).toBe(0);
});

test('more than 500 ms of calls are too many, and 255 never are, by a rate that follows', () => {
  const delay = new QueueDelay(0);
  const end = (calls: number, nowMs: number) => {
    for (let i = 0; i < calls; i++) delay.end(nowMs);
    return delay.isTooLong(nowMs);
  };
  for (let i = 0; i < 600; i++) delay.begin(0);
  delay.begin(100);
  // Of a full window, 100 calls in 100 ms; then half of 1, and half of 60 in 100 ms.
  expect([end(99, 199), end(1, 200), end(1, 250)]).toEqual([false, true, false]);
  expect([end(58, 299), end(1, 300), end(40, 399)]).toEqual([false, true, true]);
  expect([end(1, 399), end(143, 399)]).toEqual([false, false]);
  // At 256 calls a window still counts, and halves the rate when nothing is answered.
  expect([end(1, 450), end(0, 500), end(0, 600), end(1, 601)]).toEqual([false, false, true, false]);
});
