import { expect, onTestFinished, test, vi } from 'vitest';
import { remind } from '../../src/observe/reminder.ts';

test('a warning is logged at once, when it changes, and again every day', () => {
  vi.useFakeTimers();
  onTestFinished(() => void vi.useRealTimers());
  const logged: unknown[] = [];
  const log = { warn: (fields: object, words: string) => logged.push({ words, ...fields }) };
  let warning: string | undefined = 'two days';
  let days = 2;
  remind(
    log as never,
    () => warning,
    () => ({ days }),
  );
  expect(logged.splice(0)).toEqual([{ words: 'two days', days: 2 }]);
  const after = (ms: number) => {
    vi.advanceTimersByTime(ms);
    return logged.splice(0);
  };
  expect([after(86_390_000), after(10_000)]).toEqual([[], [{ words: 'two days', days: 2 }]]);
  [warning, days] = ['one day', 1];
  expect([after(9_999), after(1)]).toEqual([[], [{ words: 'one day', days: 1 }]]);
  expect([after(86_390_000), after(10_000)]).toEqual([[], [{ words: 'one day', days: 1 }]]);
  warning = undefined;
  expect(after(2 * 86_400_000)).toEqual([]);
  warning = 'one day';
  expect(after(10_000)).toHaveLength(1);
});
