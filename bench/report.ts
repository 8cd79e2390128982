import { spread } from './cells.ts';
import { type ContestantName, TITLES } from './contestants.ts';
import type { Flags } from './flags.ts';
import { growthSection } from './growth-report.ts';
import { loadSections } from './load-tables.ts';
import { STEADY_SHARE } from './loads.ts';
import { table, whole } from './markdown.ts';
import type { Measurement } from './measurements.ts';
import { type CrewRounds, nodesSection } from './nodes.ts';
import type { OverloadRound } from './overload.ts';
import { failuresOfRound, overloadSection } from './overload-report.ts';
import { peersSection, withoutFolder } from './peers.ts';
import { STARTS, type StartTimes, TIMED, type Timed } from './start.ts';
import { type Results, summarySection } from './summary.ts';

/** All measurements of a run. */
export interface RunResults extends Results {
  readonly nodes: readonly CrewRounds[];
  readonly overload: readonly OverloadRound[];
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
  const sections = [
    '# Benchmarks',
    `Written by \`${command}\`: do not edit, run it again. All contestants took turns on one machine. Compare ratios: rates differ between machines and days.`,
    summarySection(results),
    `## Machine\n\n${facts.map(([name, value]) => `- ${name}: ${value}`).join('\n')}`,
    ...loadSections(measurements),
    ...(nodes.length === 0 ? [] : [nodesSection(nodes)]),
    ...(overload.length === 0 ? [] : [overloadSection(overload)]),
    start && startSection(start),
    growth && growthSection(growth),
    ...(measurements.length + nodes.length === 0
      ? []
      : [peersSection(contestantsOf(measurements)), checks(all(results)), method(flags)]),
  ];
  return `${sections.filter((one) => one !== undefined).join('\n\n')}\n`;
}

const START_TITLES: Record<Timed, string> = {
  npm_start: '`npm start`, until the first 200 of /health',
  serve: '`node dist/cli.js serve`, the same',
  postgres: '`node dist/cli.js serve` on PostgreSQL, the same',
};

function startSection(times: StartTimes): string {
  const { firstMs, timesMs } = times;
  const rows = TIMED.map((name) => [START_TITLES[name], spread(timesMs[name])]);
  const first = ['`npm start` on an empty folder, once', whole(firstMs)];
  return [
    '## Start, on the embedded database',
    table(['', 'median ms (min–max)'], [...rows, first]),
    `${STARTS} starts of each, in turns; /health is asked every 5 ms.`,
  ].join('\n\n');
}

/** Requests without a correct 200. */
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

function checks(measurements: readonly Measurement[]): string {
  const right = sum(measurements.map(({ result }) => result.right));
  const verified = sum(measurements.map((one) => one.verifiedTokens));
  const lines = [
    `${whole(right)} requests were answered with 200; ${whole(failuresOf(measurements))} were not.`,
    `The tokens of ${whole(verified)} new values, drawn at random, were detokenized and compared.`,
  ];
  for (const { load, contestant, result } of measurements) {
    for (const [reason, count] of Object.entries(result.failures)) {
      lines.push(`Failed: ${TITLES[contestant]}, ${load.title}: ${whole(count)} x ${reason}.`);
    }
  }
  return `## Checks\n\n${lines.map((line) => `- ${line}`).join('\n')}`;
}

const method = ({ seconds, rounds }: Flags): string => `## How it is measured

- ${rounds === 1 ? 'Figures are of one round' : `Figures are medians of ${rounds} rounds`} of ${seconds} s after a warm-up; ratios are medians of the ratios in each round. CPU (user and system time) is of the fewest connections.
- Own contestants are one Node.js process each; all get the same bodies of about 100 bytes: e-mail address, name, phone number. The echo parses the body and sends it back. The naive service seals with AES-256-GCM and awaits one statement a value in PostgreSQL, without API keys, checks, logs or metrics.
- Standin runs with default settings, but without rate limit and ops listener; its log goes to /dev/null. It answers 200 after COMMIT. The embedded database does not fsync.
- The generator is a process on the same cores, with one request at a time on each connection. It checks every status, and all data of detokenize and repeated requests.
- At ${100 * STEADY_SHARE} % of the rate and beside large requests, requests are sent when they are due, and latency counts from then. Small requests come every 5 ms; a large one follows 250 ms after the last answer.
- The event loop is held up for the longest time that GET /health/live took. The echo shows what the machine itself adds.`;

function contestantsOf(measurements: readonly Measurement[]): ContestantName[] {
  return [...new Set(measurements.map(({ contestant }) => contestant))];
}

function sum(numbers: readonly number[]): number {
  return numbers.reduce((total, number) => total + number, 0);
}
