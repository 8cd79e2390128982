import { expect, test } from 'vitest';
import { Refresher } from '../../src/refresher.ts';
import { monotonicMs } from '../../src/timeouts.ts';
import { until } from '../support/service.ts';

const settings = { intervalMs: 60_000, leastIntervalMs: 1, nowMs: monotonicMs };

/** So long that another refresher reads so often: what may begin has begun. */
async function reads(count: number): Promise<void> {
  const other = new Refresher(async () => () => {}, settings);
  for (let i = 0; i < count; i++) await other.refresh();
}

test('a database that does not answer is asked three times at most, however many wait', async () => {
  const answers: (() => void)[] = [];
  const refresher = new Refresher(
    () => new Promise((resolve) => answers.push(() => resolve(() => {}))),
    settings,
  );
  for (const count of [1, 2, 3]) {
    void refresher.refresh();
    await until(() => answers.length === count, 'a read');
  }
  const fourth = refresher.refresh();
  expect(refresher.refresh()).toBe(fourth);
  await reads(9);
  expect(answers).toHaveLength(3);
  answers[0]!();
  await until(() => answers.length === 4, 'the next read');
  answers[3]!();
  await fourth;
});

test('a read begins no sooner than the least interval after the last one', async () => {
  let count = 0;
  const read = async () => {
    count++;
    return () => {};
  };
  const refresher = new Refresher(read, { ...settings, leastIntervalMs: 2_000 });
  await refresher.refresh();
  const second = refresher.refresh();
  await reads(9);
  expect(count).toBe(1);
  await second;
  expect(count).toBe(2);
});

test('nothing takes the result of a read that was under way at the stop', async () => {
  let answer = () => {};
  let taken = 0;
  const refresher = new Refresher(
    () => new Promise((resolve) => (answer = () => resolve(() => taken++))),
    settings,
  );
  const first = refresher.start();
  await until(() => refresher.startedAtMs > 0, 'a read');
  refresher.stop();
  answer();
  await first;
  expect(taken).toBe(0);
});
