import { TITLES } from './contestants.ts';
import { filledTitle, MORE_RSS, SIZES } from './growth.ts';
import * as loads from './loads.ts';
import { median, NONE, table, threeDigits } from './numbers.ts';
import { type Cell, isRate, type Results } from './results.ts';
import { START } from './start.ts';
import { CPU, LONGEST, STEADY_P99 } from './turns.ts';

/** A row of the summary: a figure, or its ratio to that of another in the same round. */
interface Row {
  readonly cell: Cell;
  /** The row of the other. */
  readonly other?: string;
  /** A rate is to be at least this, all else at most; undefined: a figure without an aim. */
  readonly aim?: number | undefined;
}

const RATE = 'requests/s';
const CPU_OF_ECHO = { tokenize: 3, detokenize: 2.5, repeat: undefined };
/** At 256 connections, to the last commit whose speed is the measure. */
const CPU_OF_PAST = { tokenize: 0.95, detokenize: 0.88, repeat: 0.9 };

function rowsOf(grown: number): Row[] {
  const { echo, naive, past, postgres } = TITLES;
  const { WITH_POLICY, WITHOUT_POLICY } = loads;
  const filled = filledTitle(postgres, grown);
  const ratio = (section: string, row: string, column: string, other: string, aim?: number) => ({
    ...{ cell: { section, row, column }, other, aim },
  });
  const small = loads.SMALL.flatMap((name) =>
    loads.CONNECTIONS.flatMap((count) => {
      const { title } = loads.small(name, count);
      const isMeasure = count > loads.STEADY_CONNECTIONS;
      return [
        ratio(title, postgres, CPU, echo, CPU_OF_ECHO[name]),
        ratio(title, postgres, RATE, echo),
        ratio(title, postgres, RATE, naive),
        ratio(title, postgres, STEADY_P99, echo, 2),
        ratio(title, postgres, CPU, past, isMeasure ? CPU_OF_PAST[name] : undefined),
        ratio(title, postgres, RATE, past, isMeasure && name === 'tokenize' ? 1 : undefined),
      ];
    }),
  );
  const policy = loads.POLICY_LOADS.flatMap(({ title }) => [
    ratio(title, WITH_POLICY, CPU, WITHOUT_POLICY, 1.08),
    ratio(title, WITH_POLICY, RATE, WITHOUT_POLICY, 0.9),
    ratio(title, WITHOUT_POLICY, CPU, past),
    ratio(title, WITHOUT_POLICY, RATE, past),
  ]);
  const growth = loads.GROWTH_LOADS.flatMap(({ title }) => [
    ratio(title, filled, RATE, postgres, 0.8),
    ratio(title, filled, 'p99 ms', postgres, 1.5),
  ]);
  const bulk = { section: loads.BULK.title, row: postgres };
  return [
    ...small,
    ...policy,
    { cell: { ...bulk, column: 'values/s' }, aim: 80_000 },
    { cell: { ...bulk, column: LONGEST }, aim: 50 },
    { cell: START, aim: 1_500 },
    ...growth,
    { cell: { section: SIZES, row: filled, column: MORE_RSS }, aim: 64 },
  ];
}

/**
 * Figures with aims, and ratios with their spread; undefined: the run measured none of them.
 * @param grown rows of the filled vault
 */
export function summarySection(results: Results, grown: number): string | undefined {
  const rows = rowsOf(grown).flatMap(({ cell, other, aim }) => {
    const ratios = other === undefined ? [] : results.ratios(cell, { row: other });
    const figure = other === undefined ? results.figure(cell) : median(ratios);
    if (figure === undefined) return [];
    const { section, row, column } = cell;
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
