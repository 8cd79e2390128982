import { expect, onTestFinished, test, vi } from 'vitest';
import { Growth, keptFresh } from '../../src/vault/vault-size.ts';

test.each([
  [1, 1_000],
  [100, 20_000],
  [1_000, 60_000],
])('what took %i ms to ask is asked for again after %i ms', async (tookMs, keptMs) => {
  let nowMs = 0;
  const clock = vi.spyOn(performance, 'now').mockImplementation(() => nowMs);
  onTestFinished(() => clock.mockRestore());
  let asked = 0;
  const read = keptFresh(async () => {
    nowMs += tookMs;
    return ++asked;
  });
  expect(await read()).toBe(1);
  nowMs += keptMs - 1;
  expect(await read()).toBe(1);
  nowMs += 1;
  const second = read();
  nowMs += keptMs;
  // That one is under way.
  expect(read()).toBe(second);
  expect(await second).toBe(2);
});

test('the growth has the newest count, and those before it an interval apart, which doubles with too many', () => {
  const early = new Growth();
  for (const atMs of [0, 8_999, 9_000, 17_999, 12_000]) early.add({ atMs, records: 1 });
  expect(early.points.map(({ atMs }) => atMs)).toEqual([0, 9_000, 12_000]);
  const growth = new Growth();
  const lengths = Array.from({ length: 243 }, (_, i) => {
    growth.add({ atMs: i * 10_000, records: i });
    return growth.points.length;
  });
  expect(lengths.slice(-4)).toEqual([240, 121, 122, 122]);
  expect(growth.points.slice(-3).map(({ records }) => records)).toEqual([238, 240, 242]);
  expect(growth.intervalMs).toBe(20_000);
});
