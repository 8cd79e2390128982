import { TITLES } from './contestants.ts';
import { cpuOf, longestHeldUp, middle, rateOf, ratio } from './figures.ts';
import type { Growth, Turn } from './growth.ts';
import type { LoadName } from './loads.ts';
import { NONE, table, whole } from './markdown.ts';
import { median } from './measure.ts';
import type { Measurement } from './measurements.ts';
import type { StartTimes } from './start.ts';

/** What a summary is made of; undefined: not run. */
export interface Results {
  readonly measurements: readonly Measurement[];
  readonly start: StartTimes | undefined;
  readonly growth: Growth | undefined;
}

const SUBJECTS = ['postgres', 'embedded'] as const;

interface Aim {
  readonly what: string;
  /** undefined: a figure to know, without an aim. */
  readonly bound: { readonly kind: 'at least' | 'at most'; readonly number: number } | undefined;
  readonly text: (number: number) => string;
  readonly figure: (contestant: Measurement['contestant']) => number | undefined;
}

/** CPU of the service for a request, to that of the bare echo. */
const CPU_OF_ECHO = { tokenize: 3, detokenize: 2.5 } as const;
const REPEATED = 1;
const STEADY_P99_OF_ECHO = 2;
const BULK_VALUES_PER_S = 80_000;
const SMALL_P99_MS = 100;
const HELD_UP_MS = 50;
const START_S = 1.5;
const GROWN_RATE = 0.8;
const GROWN_P99 = 1.5;
const GROWN_RSS_MIB = 64;

/** Aims and what this run measured, one row each; undefined when it measured none of it. */
export function summarySection(results: Results): string | undefined {
  const rows = aims(results)
    .map(row)
    .filter((one) => one !== undefined);
  if (rows.length === 0) return undefined;
  const headings = SUBJECTS.map((contestant) => TITLES[contestant]);
  const summary = table(['', 'aim', ...headings], rows);
  return `## Summary\n\nBold: misses its aim.\n\n${summary}`;
}

function row({ what, bound, text, figure }: Aim): string[] | undefined {
  const figures = SUBJECTS.map(figure);
  if (figures.every((one) => one === undefined)) return undefined;
  const cells = figures.map((one) => {
    if (one === undefined) return NONE;
    return bound === undefined || isMet(one, bound) ? text(one) : `**${text(one)}**`;
  });
  return [
    what,
    bound === undefined ? NONE : `${bound.kind} ${bound.number.toLocaleString('en-US')}`,
    ...cells,
  ];
}

function isMet(figure: number, { kind, number }: NonNullable<Aim['bound']>): boolean {
  return kind === 'at least' ? figure >= number : figure <= number;
}

function aims({ measurements, start, growth }: Results): Aim[] {
  return [
    ...speedAims(measurements),
    ...latencyAims(measurements),
    {
      what: '`npm start` until healthy, s',
      bound: atMost(START_S),
      text: decimals(3),
      figure: (contestant) =>
        contestant === 'embedded' && start ? median(start.timesMs.npm_start)! / 1_000 : undefined,
    },
    ...(growth === undefined ? [] : growthAims(growth)),
  ];
}

function speedAims(measurements: readonly Measurement[]): Aim[] {
  const counts = connectionsOf(measurements);
  const both = (['tokenize', 'detokenize'] as const).flatMap((name) =>
    counts.map((connections) => ({ name, connections })),
  );
  const ratioTo = (other: 'echo' | 'naive', unit: string): Aim[] =>
    both.map(({ name, connections }) => ({
      what: `${name}, ${connections} connections, ${unit}`,
      bound: undefined,
      text: decimals(3),
      figure: (contestant) => {
        const load = { name, connections };
        const others = find(measurements, load, other);
        return ratio(find(measurements, load, contestant), others, rateOf);
      },
    }));
  const cpu = both.map(
    ({ name, connections }): Aim => ({
      what: `${name}, ${connections} connections, CPU of the service, times the echo`,
      bound: atMost(CPU_OF_ECHO[name]),
      text: decimals(2),
      figure: (contestant) => {
        const load = { name, connections };
        const echoes = find(measurements, load, 'echo');
        return ratio(find(measurements, load, contestant), echoes, cpuOf);
      },
    }),
  );
  return [
    ...cpu,
    ...ratioTo('echo', 'rate of the echo'),
    ...ratioTo('naive', 'times the rate of naive'),
    ...counts.map(
      (connections): Aim => ({
        what: `stored values, ${connections} connections, of the rate of new ones`,
        bound: atLeast(REPEATED),
        text: decimals(3),
        figure: (contestant) =>
          ratio(
            find(measurements, { name: 'repeat', connections }, contestant),
            find(measurements, { name: 'tokenize', connections }, contestant),
            rateOf,
          ),
      }),
    ),
    {
      what: 'bulk, values/s',
      bound: atLeast(BULK_VALUES_PER_S),
      text: whole,
      figure: (contestant) =>
        middle(
          find(measurements, { name: 'bulk' }, contestant),
          ({ rate, load }) => rate * load.valuesPerRequest,
        ),
    },
  ];
}

function latencyAims(measurements: readonly Measurement[]): Aim[] {
  const steady = (['tokenize', 'detokenize'] as const).map(
    (name): Aim => ({
      what: `${name} at 70 % of its peak, p99 to that of the echo`,
      bound: atMost(STEADY_P99_OF_ECHO),
      text: decimals(2),
      figure: (contestant) => {
        const load = { name, isSteady: true };
        const echoes = find(measurements, load, 'echo');
        return ratio(find(measurements, load, contestant), echoes, ({ result }) => result.p99_ms);
      },
    }),
  );
  const beside = (contestant: Measurement['contestant']) =>
    find(measurements, { name: 'block', isBeside: true }, contestant);
  return [
    ...steady,
    {
      what: 'small requests beside large ones, p99 ms',
      bound: atMost(SMALL_P99_MS),
      text: decimals(2),
      figure: (contestant) => middle(beside(contestant), ({ result }) => result.p99_ms),
    },
    {
      what: 'event loop held up by large requests, longest ms',
      bound: atMost(HELD_UP_MS),
      text: decimals(2),
      figure: (contestant) => longestHeldUp(beside(contestant)),
    },
  ];
}

function growthAims({ rows, rounds, milestones }: Growth): Aim[] {
  const ratio = (figure: (turn: Turn) => number) =>
    median(rounds.map(({ empty, full }) => figure(full) / figure(empty)));
  // The aim for memory is about the first million.
  const [first, later] = milestones;
  const last = milestones.at(-1)!;
  const of = (
    what: string,
    bound: Aim['bound'],
    number: number | undefined,
    digits: number,
  ): Aim => ({
    what,
    bound,
    text: decimals(digits),
    figure: (contestant) => (contestant === 'postgres' ? number : undefined),
  });
  const grown = `with ${whole(rows)} records`;
  return [
    of(
      `tokenize ${grown}, of the rate of an empty vault`,
      atLeast(GROWN_RATE),
      ratio(({ tokenize }) => tokenize.right / tokenize.durationS),
      3,
    ),
    of(
      `detokenize ${grown}, p99 to that of an empty vault`,
      atMost(GROWN_P99),
      ratio(({ detokenize }) => detokenize.p99_ms),
      3,
    ),
    ...(first === undefined || later === undefined || first.rssBytes === 0
      ? []
      : [
          of(
            `memory of the service, from ${whole(first.rows)} records to ${whole(later.rows)}, MiB more`,
            atMost(GROWN_RSS_MIB),
            (later.rssBytes - first.rssBytes) / 2 ** 20,
            1,
          ),
        ]),
    of(
      'bytes a record, with its index',
      undefined,
      (last.tableBytes + last.indexBytes) / last.rows,
      0,
    ),
  ];
}

interface Wanted {
  readonly name: LoadName;
  readonly connections?: number;
  readonly isSteady?: boolean;
  readonly isBeside?: boolean;
}

function find(
  measurements: readonly Measurement[],
  { name, connections, isSteady = false, isBeside = false }: Wanted,
  contestant: Measurement['contestant'],
): Measurement[] {
  return measurements.filter(
    ({ load, contestant: other }) =>
      other === contestant &&
      load.name === name &&
      load.isSteady === isSteady &&
      load.isBeside === isBeside &&
      (connections === undefined || load.connections === connections),
  );
}

/** Of the loads that are run with several numbers of them. */
function connectionsOf(measurements: readonly Measurement[]): number[] {
  const small = ['tokenize', 'detokenize', 'repeat'];
  const loads = measurements.flatMap(({ load }) => (small.includes(load.name) ? load : []));
  return [...new Set(loads.map(({ connections }) => connections))];
}

function atLeast(number: number): Aim['bound'] {
  return { kind: 'at least', number };
}

function atMost(number: number): Aim['bound'] {
  return { kind: 'at most', number };
}

function decimals(digits: number): (number: number) => string {
  return (number) => number.toFixed(digits);
}
