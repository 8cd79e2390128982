import { expect, test } from 'vitest';
import { Progress } from '../../src/commands/progress.ts';

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
  expect(written().endsWith('\r\x1b[K')).toBe(true);
});
