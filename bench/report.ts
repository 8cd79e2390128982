import { cpu, latency, milliseconds, ratio, spread } from './cells.ts';
import { type ContestantName, TITLES } from './contestants.ts';
import { longestHeldUp, rateRatio } from './figures.ts';
import type { Flags } from './flags.ts';
import { growthSection } from './growth-report.ts';
import type { Load } from './loads.ts';
import { table, whole } from './markdown.ts';
import type { Measurement } from './measurements.ts';
import { type CrewRounds, nodesSection } from './nodes.ts';
import type { OverloadRound } from './overload.ts';
import { failuresOfRound, overloadSection } from './overload-report.ts';
import { peersSection, withoutFolder } from './peers.ts';
import { startSection } from './start-report.ts';
import { type Results, summarySection } from './summary.ts';

/** All that a run measured. */
export interface RunResults extends Results {
  readonly nodes: readonly CrewRounds[];
  readonly overload: readonly OverloadRound[];
}

/** A column of a table: its heading and its cell for the rounds of one contestant. */
interface Column {
  readonly heading: string;
  cell(rounds: readonly Measurement[]): string;
}

/** The Markdown page of a run. */
export function page(
  results: RunResults,
  facts: readonly (readonly [string, string])[],
  args: readonly string[],
  flags: Flags,
): string {
  const command = [
    'npm run bench',
    ...(args.length === 0 ? [] : ['--', ...args.map(withoutFolder)]),
  ].join(' ');
  const { measurements, nodes, overload, start, growth } = results;
  const loads = [...new Set(measurements.map(({ load }) => load))];
  const blocks = loads.filter(({ name }) => name === 'block');
  const sections = [
    '# Benchmarks',
    `Written by \`${command}\`: do not edit, run it again. All contestants ran on one machine in one run, in turns. Compare the ratios; requests a second of different machines or days say little.`,
    summarySection(results),
    table(['Machine', ''], facts),
    ...loads
      .filter((load) => !blocks.includes(load))
      .map((load) => section(load.title, columnsOf(load, measurements), measurements, load)),
    ...(blocks.length === 2 ? [blockSection(measurements, blocks)] : []),
    ...(nodes.length === 0 ? [] : [nodesSection(nodes)]),
    ...(overload.length === 0 ? [] : [overloadSection(overload)]),
    start && startSection(start),
    growth && growthSection(growth),
    ...(loads.length + nodes.length === 0
      ? []
      : [peersSection(contestantsOf(measurements)), checks(all(results)), method(flags)]),
  ];
  return `${sections.filter((one) => one !== undefined).join('\n\n')}\n`;
}

/** Requests that were not answered with 200 and what they should be. */
export function countFailures(results: RunResults): number {
  const overload = results.overload.map(failuresOfRound);
  return failuresOf(all(results)) + sum(overload) + (results.growth?.failures ?? 0);
}

function all({ measurements, nodes }: RunResults): Measurement[] {
  return [...measurements, ...nodes.flatMap(({ rounds }) => rounds)];
}

function failuresOf(measurements: readonly Measurement[]): number {
  return sum(measurements.flatMap(({ result }) => Object.values(result.failures)));
}

function section(
  title: string,
  columns: readonly Column[],
  measurements: readonly Measurement[],
  load: Load,
): string {
  const rows = contestantsOf(measurements).map((name) => {
    const rounds = measurements.filter((one) => one.load === load && one.contestant === name);
    return [TITLES[name], ...columns.map((column) => column.cell(rounds))];
  });
  return `## ${title}\n\n${table(['', ...columns.map(({ heading }) => heading)], rows)}`;
}

const longest: Column = {
  heading: 'longest ms',
  cell: (rounds) => latency(rounds.map(({ result }) => result.max_ms)),
};

function columnsOf(load: Load, measurements: readonly Measurement[]): Column[] {
  const is_bulk = load.name === 'bulk';
  const unit = is_bulk ? load.values_per_request : 1;
  const cpu_unit = is_bulk ? 1_000 / load.values_per_request : 1_000;
  const per = is_bulk ? '1,000 values' : '1,000 requests';
  const ratioTo = (name: ContestantName, heading: string): Column => {
    const others = measurements.filter((one) => one.contestant === name && one.load === load);
    return { heading, cell: (rounds) => ratio(rateRatio(rounds, others)) };
  };
  return [
    {
      heading: is_bulk ? 'values/s (min–max)' : 'requests/s (min–max)',
      cell: (rounds) => spread(rounds.map(({ rate }) => rate * unit)),
    },
    ...(load.is_steady ? [] : [ratioTo('echo', 'of the echo'), ratioTo('naive', 'times naive')]),
    { heading: 'p50 ms', cell: (rounds) => latency(rounds.map(({ result }) => result.p50_ms)) },
    { heading: 'p99 ms', cell: (rounds) => latency(rounds.map(({ result }) => result.p99_ms)) },
    ...(load.is_steady ? [longest] : []),
    {
      heading: `CPU s per ${per}: service`,
      cell: (rounds) => cpu(rounds, (one) => one.service_cpu_s, cpu_unit),
    },
    { heading: 'database', cell: (rounds) => cpu(rounds, (one) => one.database_cpu_s, cpu_unit) },
    { heading: 'generator', cell: (rounds) => cpu(rounds, (one) => one.result.cpu_s, cpu_unit) },
  ];
}

/** Latency of a paced trickle of small requests, alone and beside large ones. */
function blockSection(measurements: readonly Measurement[], blocks: readonly Load[]): string {
  const alone = blocks.find((load) => !load.is_beside)!;
  const beside = blocks.find((load) => load.is_beside)!;
  const under = (load: Load, rounds: readonly Measurement[]) =>
    measurements.filter((one) => one.load === load && one.contestant === rounds[0]?.contestant);
  const column = (heading: string, load: Load, pick: (one: Measurement) => number): Column => ({
    heading,
    cell: (rounds) => latency(under(load, rounds).map(pick)),
  });
  const heldUp = (heading: string, load: Load): Column => ({
    heading,
    cell: (rounds) => milliseconds(longestHeldUp(under(load, rounds))),
  });
  const columns = [
    column('alone: p50 ms', alone, ({ result }) => result.p50_ms),
    column('p99 ms', alone, ({ result }) => result.p99_ms),
    column('beside: p50 ms', beside, ({ result }) => result.p50_ms),
    column('p99 ms', beside, ({ result }) => result.p99_ms),
    column('longest ms', beside, ({ result }) => result.max_ms),
    column('the large one ms', beside, ({ result }) => result.beside_p50_ms),
    heldUp('event loop held up: alone, longest ms', alone),
    heldUp('beside, longest ms', beside),
  ];
  return section(beside.title, columns, measurements, beside);
}

function checks(measurements: readonly Measurement[]): string {
  const right = sum(measurements.map(({ result }) => result.right));
  const verified = sum(measurements.map((one) => one.verified_tokens));
  const lines = [
    `${whole(right)} requests were answered with 200 and counted; ${whole(failuresOf(measurements))} were not.`,
    `The tokens of ${whole(verified)} new values, drawn at random, were detokenized after their round and compared.`,
  ];
  for (const { load, contestant, result } of measurements) {
    for (const [reason, count] of Object.entries(result.failures)) {
      lines.push(`Failed: ${TITLES[contestant]}, ${load.title}: ${whole(count)} x ${reason}.`);
    }
  }
  return `## Checks\n\n${lines.map((line) => `- ${line}`).join('\n')}`;
}

const method = ({ seconds, rounds }: Flags): string => `## How it is measured

- ${rounds === 1 ? 'Figures are of one round' : `Figures are medians of ${rounds} rounds`} of ${seconds} s, after a warm-up; in a round the contestants take turns. Ratios are medians of the ratios within each round.
- Every contestant but other products is one Node.js process (Standin with its default threads). All get the same bodies: an e-mail address, a name and a phone number, about 100 bytes of JSON. The echo parses the body and sends it back. The naive service makes a token with one HMAC and seals with AES-256-GCM, then awaits one \`insert\` (or \`select\`) a value; it has no API keys, checks, logs or metrics.
- Standin runs as \`standin serve\` with default settings, but without rate limit and ops listener; its access log goes to /dev/null. A 200 is sent after COMMIT. The settings of PostgreSQL are above; its WAL files had been used before, as on a server that has run for a while; the embedded database does not fsync.
- The load generator is a process of its own on the same cores. Each connection sends its next request when it has its answer, so latency grows with the connections. At 70 % of the rate that a contestant reached, in the same round and right before, requests are sent when they are due, whatever the answers do, and latency counts from then: waiting for a free connection counts, and so does what the timer of the generator is late, about 1 ms. It checks the status of every answer, and the whole data of those to detokenize and repeated requests. It costs as much CPU as wrk does with distinct bodies.
- Small requests beside large ones are sent every 5 ms, whatever the answers do; waiting for a free connection counts as latency. A large one follows 250 ms after the answer to the one before. How long the event loop is held up is the longest that GET /health/live took in any round, asked every 5 ms on a connection of its own by a process that does nothing else; waiting for a processor counts, so the echo's is what the machine itself adds.
- CPU seconds are user and system time of the processes (\`/proc/PID/stat\`): they vary less than requests a second when others use the machine.`;

function contestantsOf(measurements: readonly Measurement[]): ContestantName[] {
  return [...new Set(measurements.map(({ contestant }) => contestant))];
}

function sum(numbers: readonly number[]): number {
  return numbers.reduce((total, number) => total + number, 0);
}
