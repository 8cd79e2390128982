import { describe, expect, test } from 'vitest';
import { filledTitle, growthLoad, RECORD_BYTES, RSS, SIZES_TITLE } from '../../bench/growth.ts';
import { BULK, CPU, LONGEST, small } from '../../bench/loads.ts';
import { Results } from '../../bench/results.ts';
import { NPM_START_ROW, START } from '../../bench/start.ts';
import { summarySection } from '../../bench/summary.ts';
import { STEADY_P99 } from '../../bench/turns.ts';

const ROWS = 2_000_000;
const [POSTGRES, EMBEDDED, ECHO] = ['Standin on PostgreSQL', 'Standin, embedded', 'Fastify echo'];
const TOKENIZE = small('tokenize', 64).title;

/** The cells of the row that begins so, of PostgreSQL and of the embedded database. */
function row(results: Results, beginning: string): string[] {
  const page = summarySection(results, ROWS);
  const line = page!.split('\n').find((text) => text.startsWith(`| ${beginning}`));
  return line!.slice(2, -2).split(' | ').slice(1);
}

describe('the summary of a benchmark', () => {
  test('compares each round with the same round of the other', () => {
    const results = new Results();
    for (const [round, rates] of [
      [1, [1_000, 390, 410]],
      [2, [100, 39, 41]],
      [3, [10, 10, 10]],
    ] as const) {
      for (const [i, name] of [ECHO, POSTGRES, EMBEDDED].entries()) {
        results.add(TOKENIZE, name, round, { 'requests/s': rates[i] });
      }
    }
    const cells = row(results, 'tokenize, 64 connections, rate of the echo');
    expect(cells).toEqual(['–', '0.39', '0.41']);
  });

  test('shows what a figure misses its aim by', () => {
    const results = new Results();
    const { title } = small('detokenize', 256);
    results.add(title, ECHO, 1, { [CPU]: 100 });
    results.add(title, POSTGRES, 1, { [CPU]: 251 });
    results.add(title, EMBEDDED, 1, { [CPU]: 250 });
    const cells = row(results, 'detokenize, 256 connections, CPU');
    expect(cells).toEqual(['at most 2.5', '**2.51**', '2.50']);
  });

  test('takes the latency at the rate of all, not the one at the peak', () => {
    const results = new Results();
    results.add(TOKENIZE, POSTGRES, 1, { 'p99 ms': 90 });
    results.add(TOKENIZE, ECHO, 1, { [STEADY_P99]: 10 });
    results.add(TOKENIZE, POSTGRES, 1, { [STEADY_P99]: 19.9 });
    results.add(TOKENIZE, EMBEDDED, 1, { [STEADY_P99]: 20.1 });
    const cells = row(results, 'tokenize, 64 connections at one rate');
    expect(cells).toEqual(['at most 2', '1.99', '**2.01**']);
  });

  test('takes the longest of all rounds for the event loop', () => {
    const results = new Results();
    for (const [i, ms] of [12, 51, 13].entries()) {
      results.add(BULK.title, POSTGRES, i + 1, { [LONGEST]: ms });
    }
    expect(row(results, 'event loop')).toEqual(['at most 50', '**51.00**', '–']);
  });

  test('has bulk in values, stored values against new ones, and a start of the embedded kind', () => {
    const results = new Results();
    results.add(BULK.title, POSTGRES, 1, { 'values/s': 79_800 });
    results.add(BULK.title, EMBEDDED, 1, { 'values/s': 80_100 });
    results.add(TOKENIZE, POSTGRES, 1, { 'requests/s': 100 });
    results.add(small('repeat', 64).title, POSTGRES, 1, { 'requests/s': 99 });
    expect(row(results, 'bulk')).toEqual(['at least 80,000', '**79,800**', '80,100']);
    expect(row(results, 'stored values, 64').slice(1, 2)).toEqual(['**0.99**']);
    for (const [i, ms] of [1_400, 1_499, 3_000].entries()) {
      results.add(START.section, NPM_START_ROW, i, { ms });
    }
    expect(row(results, '`npm start`')).toEqual(['at most 1,500', '–', '1,499']);
  });

  test('has ratios, memory and bytes of a vault that was filled', () => {
    const results = new Results();
    const filled = filledTitle(POSTGRES, ROWS);
    const { title: tokenize } = growthLoad('tokenize');
    const { title: detokenize } = growthLoad('detokenize');
    results.add(tokenize, POSTGRES, 1, { 'requests/s': 1_000 });
    results.add(tokenize, filled, 1, { 'requests/s': 810 });
    results.add(detokenize, POSTGRES, 1, { 'p99 ms': 4 });
    results.add(detokenize, filled, 1, { 'p99 ms': 7 });
    results.add(SIZES_TITLE, filledTitle(POSTGRES, 100_000), 1, { [RSS]: 100 });
    results.add(SIZES_TITLE, filledTitle(POSTGRES, 1_000_000), 1, { [RSS]: 165 });
    results.add(SIZES_TITLE, filled, 1, { [RSS]: 999, [RECORD_BYTES]: 144 });
    const figure = (beginning: string) => row(results, beginning)[1];
    expect(figure('tokenize with 2,000,000 rows')).toEqual('0.81');
    expect(figure('detokenize with 2,000,000 rows')).toEqual('**1.75**');
    expect(figure('memory of the service')).toEqual('**65.00**');
    expect(figure('bytes a row')).toEqual('144');
  });

  test('is left out when nothing of it was measured', () => {
    const results = new Results();
    expect(summarySection(results, ROWS)).toBeUndefined();
    results.add(TOKENIZE, ECHO, 1, { 'requests/s': 1 });
    expect(summarySection(results, ROWS)).toBeUndefined();
  });
});
