import { NONE, table, whole } from './markdown.ts';
import { median } from './measure.ts';
import { BUILD_CHECK, partsOf, STARTS, type StartTimes, TIMED, type Timed } from './start.ts';

const TITLES: Record<Timed, string> = {
  npm_start: '`npm start`, until the first 200 of /health',
  serve: '`node dist/cli.js serve`, the same',
  postgres: '`node dist/cli.js serve` on PostgreSQL, the same',
  build: `\`${BUILD_CHECK}\`, nothing to do`,
  modules: "`import './dist/main.js'`, the modules of the service",
  node: '`node -e 0`',
};

export function startSection(times: StartTimes): string {
  const { first_ms, times_ms } = times;
  const rows = TIMED.map((name) => {
    const all_ms = times_ms[name];
    const cells = [median(all_ms), ...(all_ms.length === 0 ? [] : [min(all_ms), max(all_ms)])];
    return [
      TITLES[name],
      ...[0, 1, 2].map((i) => (cells[i] === undefined ? NONE : whole(cells[i]))),
    ];
  });
  const first = ['`npm start` on an empty folder, once', whole(first_ms), NONE, NONE];
  const parts = partsOf(times);
  const all_ms = parts.reduce((sum, [, ms]) => sum + ms, 0);
  return [
    '## Start, on the embedded database',
    table(['', 'median ms', 'min', 'max'], [...rows, first]),
    table(
      ['Of the fastest `npm start`', 'ms', 'share'],
      parts.map(([title, ms]) => [title, whole(ms), `${whole((100 * ms) / all_ms)} %`]),
    ),
    `${STARTS} starts of each, in turns, of a build and a folder that are there. /health is asked every 5 ms, each time on a new connection. The parts are differences of the minima above, which others on the machine disturb least.`,
  ].join('\n\n');
}

function min(numbers: readonly number[]): number {
  return Math.min(...numbers);
}

function max(numbers: readonly number[]): number {
  return Math.max(...numbers);
}
