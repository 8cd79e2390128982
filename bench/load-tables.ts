import { cpu, latency, milliseconds, spread } from './cells.ts';
import { type ContestantName, TITLES } from './contestants.ts';
import { longestHeldUp } from './figures.ts';
import { type Load, STEADY_SHARE } from './loads.ts';
import { NONE, table } from './markdown.ts';
import type { Measurement } from './measurements.ts';

/** A column of a table: the heading, and the cell of a contestant. */
interface Column {
  readonly heading: string;
  cell(contestant: ContestantName): string;
}

/** The sections of the loads: one for each kind of request, with a row for each contestant. */
export function loadSections(measurements: readonly Measurement[]): string[] {
  const loads = [...new Set(measurements.map(({ load }) => load))];
  const named = (name: Load['name']) =>
    loads.filter((load) => load.name === name && !load.isSteady);
  const steady = loads.filter(({ isSteady }) => isSteady);
  const blocks = named('block');
  return [
    ...(['tokenize', 'detokenize', 'repeat', 'bulk'] as const).map((name) =>
      section(named(name)[0]?.title.replace(/, \d+ connections$/, ''), measurements, [
        ...named(name).map((load) => rateColumn(load, measurements)),
        ...costColumns(named(name)[0], measurements),
      ]),
    ),
    section(
      `At ${100 * STEADY_SHARE} % of the rate just reached, ${steady[0]?.connections} connections`,
      measurements,
      steady.flatMap((load) => steadyColumns(load, measurements)),
    ),
    section(blocks.at(-1)?.title, measurements, blockColumns(blocks, measurements)),
  ].filter((one) => one !== undefined);
}

/** Omits contestants without figures. undefined: no contestant has figures. */
function section(
  title: string | undefined,
  measurements: readonly Measurement[],
  columns: readonly Column[],
): string | undefined {
  const contestants = [...new Set(measurements.map(({ contestant }) => contestant))];
  const rows = contestants
    .map((name) => [TITLES[name], ...columns.map((column) => column.cell(name))])
    .filter((cells) => cells.slice(1).some((cell) => cell !== NONE));
  if (rows.length === 0) return undefined;
  return `## ${title}\n\n${table(['', ...columns.map(({ heading }) => heading)], rows)}`;
}

function roundsOf(measurements: readonly Measurement[], load: Load) {
  return (contestant: ContestantName) =>
    measurements.filter((one) => one.load === load && one.contestant === contestant);
}

function rateColumn(load: Load, measurements: readonly Measurement[]): Column {
  const rounds = roundsOf(measurements, load);
  const [what, count] = load.name === 'bulk' ? ['values', load.valuesPerRequest] : ['requests', 1];
  return {
    heading: `${load.connections} connections: ${what}/s (min–max)`,
    cell: (name) => spread(rounds(name).map(({ rate }) => rate * count)),
  };
}

/** From the load with the fewest connections, because more connections make requests cheaper. */
function costColumns(load: Load | undefined, measurements: readonly Measurement[]): Column[] {
  if (load === undefined) return [];
  const [what, count] = load.name === 'bulk' ? ['value', load.valuesPerRequest] : ['request', 1];
  const column = (heading: string, pick: (one: Measurement) => number | undefined): Column => ({
    heading,
    cell: (name) => cpu(roundsOf(measurements, load)(name), pick, 1_000 / count),
  });
  return [
    column(`CPU ms a ${what}: service`, ({ serviceCpuS }) => serviceCpuS),
    column('database', ({ databaseCpuS }) => databaseCpuS),
  ];
}

function steadyColumns(load: Load, measurements: readonly Measurement[]): Column[] {
  const rounds = roundsOf(measurements, load);
  const column = (heading: string, pick: (one: Measurement) => number): Column => ({
    heading,
    cell: (name) => latency(rounds(name).map(pick)),
  });
  return [
    column(`${load.name}: p50 ms`, ({ result }) => result.p50_ms),
    column('p99 ms', ({ result }) => result.p99_ms),
  ];
}

/** Latency of a slow stream of small requests, alone and beside large requests. */
function blockColumns([alone, beside]: readonly Load[], all: readonly Measurement[]): Column[] {
  if (alone === undefined || beside === undefined) return [];
  const column = (heading: string, load: Load, pick: (one: Measurement) => number): Column => ({
    heading,
    cell: (name) => latency(roundsOf(all, load)(name).map(pick)),
  });
  return [
    column('alone: p99 ms', alone, ({ result }) => result.p99_ms),
    column('beside: p99 ms', beside, ({ result }) => result.p99_ms),
    column('longest ms', beside, ({ result }) => result.maxMs),
    column('the large one ms', beside, ({ result }) => result.besideP50Ms),
    {
      heading: 'event loop held up: longest ms',
      cell: (name) => milliseconds(longestHeldUp(roundsOf(all, beside)(name))),
    },
  ];
}
