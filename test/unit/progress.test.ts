import { expect, test, vi } from 'vitest';
import { Progress, watched } from '../../src/commands/progress.ts';

function progress(isTTY: boolean, total: number | undefined, columns?: number) {
  let written = '';
  let nowMs = 0;
  const state: { wait: string | undefined } = { wait: undefined };
  const output = { isTTY, columns, write: (text: string) => (written += text) } as never;
  const waitsFor = () => state.wait;
  const made = new Progress({ unit: 'record', total, waitsFor, output, nowMs: () => nowMs });
  return {
    made,
    state,
    at(timeMs: number) {
      nowMs = timeMs;
    },
    written: () => written,
  };
}

test('a terminal has a bar with rate and time left, drawn over itself', () => {
  const { made, at, written } = progress(true, 1_000);
  at(100);
  made.advance(100);
  expect(written()).toBe('');
  at(1_000);
  made.advance(400);
  expect(written()).toBe(
    '\r[############............]  50 %  500 of 1,000 records, 500/s, 1 s left\x1b[K',
  );
  at(2_000);
  made.advance(500);
  made.end();
  expect(written()).toContain('100 %  1,000 of 1,000 records, 500/s, 0 s left\x1b[K\n');
});

test('elsewhere there are plain lines, one in 10 s and the last', () => {
  const { made, at, written } = progress(false, 100_000);
  at(9_999);
  made.advance(10);
  expect(written()).toBe('');
  at(10_000);
  made.advance(9_990);
  expect(written()).toBe(' 10 %  10,000 of 100,000 records, 1,000/s, 1 min 30 s left\n');
});

test.each<[string, number | undefined, [ms: number, count: number, share?: number][], string]>([
  ['that is not known is left out', undefined, [[1_000, 7]], '7 records, 7/s'],
  [
    'that is not known is told as a share',
    undefined,
    [
      [5_000, 100, 0.4],
      [10_000, 100, 0.65],
    ],
    ' 65 %  200 records, 20/s, 14 s left',
  ],
  ['that was too small grows', 5, [[1_000, 10]], '100 %  10 of 10 records, 10/s, 0 s left'],
  ['that was too large is what was done', 2, [[1_000, 1]], '100 %  1 of 1 record, 1/s, 0 s left'],
  ['of nothing is done', 0, [[10_000, 0]], '100 %  0 of 0 records, 0/s'],
  ['of which nothing is done has no time', 9, [[10_000, 0]], '  0 %  0 of 9 records, 0/s'],
  ['that took no time has no rate', undefined, [[0, 5]], '5 records, 0/s'],
  ['of 59 s', 69, [[10_000, 10]], ' 14 %  10 of 69 records, 1/s, 59 s left'],
  ['of 1 min', 70, [[10_000, 10]], ' 14 %  10 of 70 records, 1/s, 1 min 00 s left'],
  ['of 59 min', 3_609, [[10_000, 10]], '  0 %  10 of 3,609 records, 1/s, 59 min 59 s left'],
  ['of 1 h', 3_610, [[10_000, 10]], '  0 %  10 of 3,610 records, 1/s, 1 h 00 min left'],
  ['of 2 h', 7_390, [[10_000, 10]], '  0 %  10 of 7,390 records, 1/s, 2 h 03 min left'],
])('a total %s', (_, total, steps, line) => {
  const { made, at, written } = progress(false, total);
  for (const [ms, count, share] of steps) {
    at(ms);
    made.advance(count, share);
  }
  made.end(total === 2);
  expect(written().split('\n').at(-2)).toBe(line);
});

test('the line fits any width: a line that wrapped would stay on the terminal', () => {
  const shownAt = (columns: number, wait?: string) => {
    const { made, state, at, written } = progress(true, 1_000, columns);
    state.wait = wait;
    at(1_000);
    made.advance(500);
    return written().replace('\r', '').replace('\x1b[K', '');
  };
  for (let columns = 1; columns < 100; columns++) {
    expect(shownAt(columns).length).toBeLessThan(columns);
    expect(shownAt(columns, 'the service does not answer').length).toBeLessThan(columns);
  }
  expect(shownAt(70)).toBe(' 50 %  500 of 1,000 records, 500/s, 1 s left');
  expect(shownAt(40)).toBe(' 50 %  500 of 1,000 records, 500/s');
  expect(shownAt(40, 'the service does not answer')).toBe(' 50 %  500 of 1,000 records, waiting');
  expect(shownAt(20)).toBe(' 50 %, 500/s');
});

test('a reason to wait is shown at once, once, and then with the progress', () => {
  for (const isTTY of [true, false]) {
    const { made, state, at, written } = progress(isTTY, undefined);
    made.tick();
    expect(written()).toBe('');
    state.wait = 'a limit (429)';
    made.tick();
    expect(written()).toContain('0 records, waiting: a limit (429)');
    const before = written();
    made.tick();
    expect(written()).toBe(before);
    at(10_000);
    made.tick();
    expect(written().slice(before.length)).toContain('0 records, waiting: a limit (429)');
    made.advance(40);
    at(20_000);
    made.tick();
    expect(written()).toContain('40 records, 2/s, waiting: a limit (429)');
    state.wait = undefined;
    at(40_000);
    made.advance(0);
    expect(written()).toContain('40 records, 1/s');
  }
});

test('work that did nothing leaves no line on a terminal', () => {
  const { made, state, written } = progress(true, undefined);
  made.end();
  expect(written()).toBe('');
  state.wait = 'the service';
  made.tick();
  made.end();
  made.note('a line');
  expect(written().endsWith('\r\x1b[K\r\x1b[Ka line\n')).toBe(true);
});

test.each([
  ['all is done', 0, {}, '1 of 1'],
  ['it failed', 0, { error: 'x' }, '1 of 2'],
  ['a signal stops it', 1, {}, '1 of 2'],
])('watched work ends at an estimated total only when %s', async (_, signals, result, done) => {
  const { made, written } = progress(false, 2);
  const listeners = () => [...process.listeners('SIGINT'), ...process.listeners('SIGTERM')];
  const before = listeners();
  const exit = vi.spyOn(process, 'exit').mockReturnValue(undefined as never);
  const ended = await watched(made, async () => {
    made.advance(1);
    made.note('bad record');
    const added = listeners().filter((one) => !before.includes(one)) as (() => void)[];
    expect(added).toHaveLength(2);
    for (const stop of added.slice(0, signals)) stop();
    expect(exit).not.toHaveBeenCalled();
    if (signals > 0) added[1]!();
    return result;
  });
  // The second signal ends the process at once.
  expect(exit.mock.calls).toEqual(signals > 0 ? [[130]] : []);
  exit.mockRestore();
  expect([listeners(), ended]).toMatchObject([before, { result, isStopped: signals > 0 }]);
  expect(written()).toMatch(new RegExp(`^bad record\n.* ${done} records?`));
});
