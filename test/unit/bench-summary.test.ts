import { describe, expect, test } from 'vitest';
import { filledTitle, MORE_RSS, SIZES } from '../../bench/growth.ts';
import {
  BULK,
  GROWTH_LOADS,
  POLICY_LOADS,
  small,
  WITH_POLICY,
  WITHOUT_POLICY,
} from '../../bench/loads.ts';
import { Results } from '../../bench/results.ts';
import { START } from '../../bench/start.ts';
import { summarySection } from '../../bench/summary.ts';
import { CPU, LONGEST, STEADY_P99 } from '../../bench/turns.ts';

const ROWS = 2_000_000;
const [POSTGRES, ECHO, PAST] = ['Standin on PostgreSQL', 'Fastify echo', 'earlier Standin'];
const FILLED = filledTitle(POSTGRES, ROWS);
const TOKENIZE = small('tokenize', 64).title;
const AT_256 = small('tokenize', 256).title;
const [POLICY, GROWTH] = [POLICY_LOADS[0]!.title, GROWTH_LOADS[0]!.title];
const RATE = 'requests/s';
const OF_START = [START.section, START.row, START.column] as const;

/** Rows of the summary after figures, each of one round: heading, row, column, figure. */
function summaryOf(...figures: [string, string, string, ...number[]][]): string[] {
  const results = new Results();
  for (const [section, row, column, ...rounds] of figures)
    for (const [i, figure] of rounds.entries())
      results.add(section, row, i + 1, { [column]: figure });
  return (summarySection(results, ROWS) ?? '').split('\n').slice(6);
}

describe('the summary of a benchmark', () => {
  test('compares each round with the same round of the other, and shows the spread', () => {
    const rows = summaryOf(
      [TOKENIZE, ECHO, 'requests/s', 1_000, 100, 10],
      [TOKENIZE, POSTGRES, 'requests/s', 390, 39, 10],
    );
    const cells = [TOKENIZE, POSTGRES, 'requests/s', ECHO, '0.39', '0.39–1.00', '–'];
    expect(rows).toEqual([`| ${cells.join(' | ')} |`]);
  });

  test.each([
    ['times the CPU of the echo', TOKENIZE, POSTGRES, CPU, ECHO, 100, [300, 301], 'at most 3'],
    ['the latency at one rate', TOKENIZE, POSTGRES, STEADY_P99, ECHO, 10, [20, 21], 'at most 2'],
    ['less CPU than before', AT_256, POSTGRES, CPU, PAST, 100, [95, 96], 'at most 0.95'],
    ['no lower rate than before', AT_256, POSTGRES, RATE, PAST, 100, [100, 99], 'at least 1'],
    ['a policy', POLICY, WITH_POLICY, CPU, WITHOUT_POLICY, 100, [108, 109], 'at most 1.08'],
    ['the rate of a filled vault', GROWTH, FILLED, RATE, POSTGRES, 100, [80, 79], 'at least 0.8'],
  ] as const)(
    'has %s, bold beyond its aim',
    (_, section, row, column, other, base, [good, bad], aim) => {
      const last = (figure: number) =>
        summaryOf([section, other, column, base], [section, row, column, figure])[0]!.split(' | ');
      expect(last(good).slice(4)).toEqual([(good / base).toFixed(2), '–', `${aim} |`]);
      expect(last(bad).slice(4)).toEqual([`**${(bad / base).toFixed(2)}**`, '–', `${aim} |`]);
    },
  );

  test.each([
    ['the longest of all rounds', BULK.title, POSTGRES, LONGEST, [12, 51, 13], '**51.0**'],
    ['the median of bulk', BULK.title, POSTGRES, 'values/s', [79_800, 80_100, 90_000], '80,100'],
    ['the median of a start', ...OF_START, [1_400, 1_499, 3_000], '1,499'],
    ['memory of a filled vault', SIZES, FILLED, MORE_RSS, [65], '**65.0**'],
  ] as const)('has %s', (_, section, row, column, figures, shown) => {
    expect(summaryOf([section, row, column, ...figures])[0]).toContain(` | – | ${shown} | – | at `);
  });

  test('is left out when nothing of it was measured', () => {
    expect(summaryOf([TOKENIZE, ECHO, 'requests/s', 1])).toEqual([]);
  });
});
