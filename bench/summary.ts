import { TITLES } from './contestants.ts';
import { filledTitle, MORE_RSS, SIZES } from './growth.ts';
import * as loads from './loads.ts';
import { isRate, median, NONE, type Results, table, threeDigits } from './results.ts';
import { START } from './start.ts';
import { CPU, LONGEST, STEADY_P99 } from './turns.ts';

/**
 * Section, row and column of a figure; the other row if it is a ratio, in the same round; its aim: a
 * rate is to be at least this, all else at most.
 */
type Row = readonly [string, string, string, (string | undefined)?, (number | undefined)?];

const RATE = 'requests/s';
const CPU_OF_ECHO = { tokenize: 3, detokenize: 2.5, repeat: undefined };
/** At 256 connections, to the last commit whose speed is the measure. */
const CPU_OF_PAST = { tokenize: 0.95, detokenize: 0.88, repeat: 0.9 };

function rowsOf(grown: number): Row[] {
  const { echo, naive, past, postgres } = TITLES;
  const { WITH_POLICY, WITHOUT_POLICY } = loads;
  const filled = filledTitle(postgres, grown);
  const small = loads.SMALL.flatMap((name) =>
    loads.CONNECTIONS.flatMap((count): Row[] => {
      const { title } = loads.small(name, count);
      const isMeasure = count > loads.STEADY_CONNECTIONS;
      return [
        [title, postgres, CPU, echo, CPU_OF_ECHO[name]],
        [title, postgres, RATE, echo],
        [title, postgres, RATE, naive],
        [title, postgres, STEADY_P99, echo, 2],
        [title, postgres, CPU, past, isMeasure ? CPU_OF_PAST[name] : undefined],
        [title, postgres, RATE, past, isMeasure && name === 'tokenize' ? 1 : undefined],
      ];
    }),
  );
  const policy = loads.POLICY_LOADS.flatMap(({ title }): Row[] => [
    [title, WITH_POLICY, CPU, WITHOUT_POLICY, 1.08],
    [title, WITH_POLICY, RATE, WITHOUT_POLICY, 0.9],
    [title, WITHOUT_POLICY, CPU, past],
    [title, WITHOUT_POLICY, RATE, past],
  ]);
  const growth = loads.GROWTH_LOADS.flatMap(({ title }): Row[] => [
    [title, filled, RATE, postgres, 0.8],
    [title, filled, 'p99 ms', postgres, 1.5],
  ]);
  return [
    ...small,
    ...policy,
    [loads.BULK.title, postgres, 'values/s', undefined, 80_000],
    [loads.BULK.title, postgres, LONGEST, undefined, 50],
    [START.section, START.row, START.column, undefined, 1_500],
    ...growth,
    [SIZES, filled, MORE_RSS, undefined, 64],
  ];
}

/**
 * Figures with aims, and ratios with their spread; undefined: the run measured none of them.
 * @param grown rows of the filled vault
 */
export function summarySection(results: Results, grown: number): string | undefined {
  const rows = rowsOf(grown).flatMap(([section, row, column, other, aim]) => {
    const cell = { section, row, column };
    const ratios = other === undefined ? [] : results.ratios(cell, other);
    const figure = other === undefined ? results.figure(cell) : median(ratios);
    if (figure === undefined) return [];
    const isMet = aim === undefined || (isRate(column) ? figure >= aim : figure <= aim);
    const wanted = aim && `at ${isRate(column) ? 'least' : 'most'} ${aim.toLocaleString('en-US')}`;
    const shown = isMet ? threeDigits(figure) : `**${threeDigits(figure)}**`;
    const spread = `${threeDigits(Math.min(...ratios))}–${threeDigits(Math.max(...ratios))}`;
    const cells = [section, row, column, other, shown, ratios.length > 1 && spread, wanted];
    return [cells.map((one) => one || NONE)];
  });
  if (rows.length === 0) return undefined;
  const words = 'Ratios are those of the same round: their median. Bold: misses its aim.';
  const headings = ['load', 'of', 'figure', 'to', '', 'min–max', 'aim'];
  return `## Summary\n\n${words}\n\n${table(headings, rows)}`;
}
