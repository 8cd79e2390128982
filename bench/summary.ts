import { TITLES } from './contestants.ts';
import { filledTitle, growthLoad, MILESTONES, RECORD_BYTES, RSS, SIZES_TITLE } from './growth.ts';
import {
  BULK,
  CONNECTIONS,
  CPU,
  LONGEST,
  type SmallLoadName,
  STEADY_CONNECTIONS,
  small,
} from './loads.ts';
import { NONE, table, whole } from './numbers.ts';
import { policyLoad, WITH_POLICY, WITHOUT_POLICY } from './policy.ts';
import type { Cell, Results } from './results.ts';
import { NPM_START_ROW, START } from './start.ts';
import { STEADY_P99 } from './turns.ts';

const SUBJECTS = [TITLES.postgres, TITLES.embedded];

/** CPU of the service for a request, to that of the bare echo. */
const CPU_OF_ECHO = { tokenize: atMost(3), detokenize: atMost(2.5) } as const;
const STEADY_P99_OF_ECHO = atMost(2);
const REPEATED = atLeast(1);
const OF_NO_POLICY = atLeast(0.9);
const BULK_VALUES_PER_S = atLeast(80_000);
const HELD_UP_MS = atMost(50);
const START_MS = atMost(1_500);
const GROWN_RATE = atLeast(0.8);
const GROWN_P99 = atMost(1.5);
const GROWN_RSS_MIB = atMost(64);

interface Bound {
  readonly kind: 'at least' | 'at most';
  readonly number: number;
}

/** @param row the title of a contestant */
type Figure = (row: string) => number | undefined;

/** A row of the summary; undefined: a figure without an aim. */
type Aim = readonly [what: string, bound: Bound | undefined, figure: Figure];

/**
 * Aims and measured figures, one per row; undefined: the run measured none of them.
 * @param grown rows of the filled vault
 */
export function summarySection(results: Results, grown: number): string | undefined {
  const aims = [
    ...CONNECTIONS.flatMap((count) => smallAims(results, count)),
    ...otherAims(results),
    ...growthAims(results, grown),
  ];
  const rows = aims.map(row).filter((one) => one !== undefined);
  if (rows.length === 0) return undefined;
  const summary = table(['', 'aim', ...SUBJECTS], rows);
  return `## Summary\n\nBold: misses its aim.\n\n${summary}`;
}

function row([what, bound, figure]: Aim): string[] | undefined {
  const figures = SUBJECTS.map(figure);
  if (figures.every((one) => one === undefined)) return undefined;
  const cells = figures.map((one) => {
    if (one === undefined) return NONE;
    return bound === undefined || isMet(one, bound) ? text(one) : `**${text(one)}**`;
  });
  const aim = bound === undefined ? NONE : `${bound.kind} ${bound.number.toLocaleString('en-US')}`;
  return [what, aim, ...cells];
}

function text(figure: number): string {
  return figure < 1_000 ? figure.toFixed(figure < 100 ? 2 : 0) : whole(figure);
}

function isMet(figure: number, { kind, number }: Bound): boolean {
  return kind === 'at least' ? figure >= number : figure <= number;
}

/** The loads of small requests. */
function smallAims(results: Results, connections: number): Aim[] {
  const title = (name: 'tokenize' | 'detokenize' | 'repeat') => small(name, connections).title;
  const to = (section: string, column: string, other: Partial<Cell>) => (row: string) =>
    results.ratio({ section, row, column }, other);
  const both = (['tokenize', 'detokenize'] as const).flatMap((name): Aim[] => {
    const what = `${name}, ${connections} connections,`;
    const [rate, echo] = ['requests/s', { row: TITLES.echo }];
    const cpu = `${what} CPU of the service, times the echo`;
    const aim: Aim = [cpu, CPU_OF_ECHO[name], to(title(name), CPU, echo)];
    if (connections !== STEADY_CONNECTIONS) return [aim];
    const naive = { row: TITLES.naive };
    return [
      aim,
      [`${what} rate of the echo`, undefined, to(title(name), rate, echo)],
      [`${what} times the rate of naive`, undefined, to(title(name), rate, naive)],
    ];
  });
  const toNew = to(title('repeat'), 'requests/s', { section: title('tokenize') });
  return [
    ...both,
    [`stored values, ${connections} connections, of the rate of new ones`, REPEATED, toNew],
  ];
}

function otherAims(results: Results): Aim[] {
  const steady = (name: 'tokenize' | 'detokenize'): Aim => {
    const section = small(name, STEADY_CONNECTIONS).title;
    const figure: Figure = (row) =>
      results.ratio({ section, row, column: STEADY_P99 }, { row: TITLES.echo });
    return [
      `${name}, 64 connections at one rate, p99 to that of the echo`,
      STEADY_P99_OF_ECHO,
      figure,
    ];
  };
  const ofNoPolicy = (name: SmallLoadName): Aim => {
    const cell = { section: policyLoad(name).title, row: WITH_POLICY, column: 'requests/s' };
    const figure: Figure = (row) =>
      row === TITLES.postgres ? results.ratio(cell, { row: WITHOUT_POLICY }) : undefined;
    const what = name === 'repeat' ? 'stored values' : name;
    return [`${what} under a policy of ten fields, of the rate without`, OF_NO_POLICY, figure];
  };
  const bulk = (column: string) => (row: string) =>
    results.figure({ section: BULK.title, row, column });
  const start: Figure = (row) =>
    row === TITLES.embedded ? results.figure({ ...START, row: NPM_START_ROW }) : undefined;
  return [
    steady('tokenize'),
    steady('detokenize'),
    ...(['tokenize', 'repeat', 'detokenize'] as const).map(ofNoPolicy),
    ['bulk, values/s', BULK_VALUES_PER_S, bulk('values/s')],
    ['event loop held up by bulk requests, longest ms', HELD_UP_MS, bulk(LONGEST)],
    ['`npm start` until healthy, ms', START_MS, start],
  ];
}

function growthAims(results: Results, rows: number): Aim[] {
  const grown = `with ${whole(rows)} rows`;
  const toSmall = (name: 'tokenize' | 'detokenize', column: string) => (title: string) =>
    results.ratio(
      { section: growthLoad(name).title, row: filledTitle(title, rows), column },
      { row: title },
    );
  const size = (title: string, rows: number, column: string) =>
    results.figure({ section: SIZES_TITLE, row: filledTitle(title, rows), column });
  const [first, later] = MILESTONES;
  const memory: Figure = (title) => {
    const [start, end] = [size(title, first, RSS), size(title, later, RSS)];
    return start === undefined || end === undefined ? undefined : end - start;
  };
  const span = `from ${whole(first)} rows to ${whole(later)}`;
  return [
    [
      `tokenize ${grown}, of the rate of a small vault`,
      GROWN_RATE,
      toSmall('tokenize', 'requests/s'),
    ],
    [
      `detokenize ${grown}, p99 to that of a small vault`,
      GROWN_P99,
      toSmall('detokenize', 'p99 ms'),
    ],
    [`memory of the service, ${span}, MiB more`, GROWN_RSS_MIB, memory],
    ['bytes a row, with its index', undefined, (title) => size(title, rows, RECORD_BYTES)],
  ];
}

function atLeast(number: number): Bound {
  return { kind: 'at least', number };
}

function atMost(number: number): Bound {
  return { kind: 'at most', number };
}
