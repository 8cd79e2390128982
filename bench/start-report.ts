import { spread } from './cells.ts';
import { table, whole } from './markdown.ts';
import { STARTS, type StartTimes, TIMED, type Timed } from './start.ts';

const TITLES: Record<Timed, string> = {
  npm_start: '`npm start`, until the first 200 of /health',
  serve: '`node dist/cli.js serve`, the same',
  postgres: '`node dist/cli.js serve` on PostgreSQL, the same',
};

export function startSection(times: StartTimes): string {
  const { firstMs, timesMs } = times;
  const rows = TIMED.map((name) => [TITLES[name], spread(timesMs[name])]);
  const first = ['`npm start` on an empty folder, once', whole(firstMs)];
  return [
    '## Start, on the embedded database',
    table(['', 'median ms (min–max)'], [...rows, first]),
    `${STARTS} starts of each, in turns; /health is asked every 5 ms.`,
  ].join('\n\n');
}
