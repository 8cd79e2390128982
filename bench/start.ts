import { spawn } from 'node:child_process';
import { SETTINGS } from '../src/config/settings.ts';
import { freePort } from '../test/support/processes.ts';
import { CLI, makePlace, type Place, ROOT } from '../test/support/program.ts';
import { healthy } from './processes.ts';
import { type Bench, tell } from './turns.ts';

/** A program and its arguments. */
type Command = readonly [string, ...string[]];

const STARTS = 5;
const LOOK_INTERVAL_MS = 5;
const STOP_TIMEOUT_MS = 20_000;

const NPM_START: Command = ['npm', 'start'];
const SERVE: Command = [process.execPath, CLI, 'serve'];

/** The cell that the summary needs. */
export const START = { section: 'Start, until the first 200 of /health', column: 'ms' } as const;
export const NPM_START_ROW = '`npm start`, embedded';

/** Starts the service repeatedly. Only the first start makes the database and the build. */
export async function measureStart(bench: Bench): Promise<void> {
  const { server, results } = bench;
  const part = bench.leftovers.part();
  const embedded = await makePlace('embedded', '');
  part.add(async () => embedded.remove());
  const kinds: [row: string, command: Command, place: Place][] = [
    [NPM_START_ROW, NPM_START, embedded],
    ['`node dist/cli.js serve`, embedded', SERVE, embedded],
  ];
  const time = (command: Command, place: Place) =>
    timeStart(command, place, { ...bench, leftovers: part });
  if (server !== undefined) {
    const place = await makePlace('server', server.url);
    part.add(async () => place.remove());
    // Makes the vault first, because that is not part of a start.
    await time(SERVE, place);
    kinds.push(['`node dist/cli.js serve`, PostgreSQL', SERVE, place]);
  }
  const firstMs = await time(NPM_START, embedded);
  results.add(START.section, '`npm start` on an empty folder, once', 1, { ms: firstMs });
  for (let turn = 1; turn <= STARTS; turn++) {
    for (const [row, command, place] of kinds) {
      const ms = await time(command, place);
      results.add(START.section, row, turn, { ms });
      tell(`start ${turn} of ${STARTS}: ${row}: ${ms.toFixed(0)} ms`);
    }
  }
  results.note(START.section, `Medians of ${STARTS} starts of each, in turns.`);
  await part.removeAll();
}

/** Time from the start of a program to the first 200 of /health. */
async function timeStart([file, ...args]: Command, place: Place, { leftovers }: Bench) {
  const port = await freePort();
  const { PATH = '', HOME = '', TMPDIR } = process.env;
  const inherited = { PATH, HOME, ...(TMPDIR ? { TMPDIR } : {}) };
  const own = { ...place.env, PORT: String(port), OPS_PORT: '0' };
  const startedMs = performance.now();
  const child = spawn(file, args, {
    cwd: ROOT,
    env: { ...inherited, ...NO_SETTINGS, ...own },
    stdio: ['ignore', 'ignore', 'pipe'],
    // A process group, as a shell makes it: Ctrl-C goes to all of it.
    detached: true,
  });
  child.stderr.pipe(process.stderr, { end: false });
  // When no process of the group has standard error open, so all have ended.
  const over = new Promise((resolve) => child.once('close', resolve));
  const signal = (name: NodeJS.Signals) => {
    try {
      process.kill(-child.pid!, name);
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'ESRCH') throw error;
    }
  };
  leftovers.add(async () => signal('SIGKILL'));
  await healthy(`${file} ${args[0]}`, `http://127.0.0.1:${port}/health`, child, LOOK_INTERVAL_MS);
  const tookMs = performance.now() - startedMs;
  signal('SIGINT');
  const force = setTimeout(() => signal('SIGKILL'), STOP_TIMEOUT_MS);
  await over;
  clearTimeout(force);
  return tookMs;
}

/** Empty variables count as "not set" and override the developer's .env file. */
const NO_SETTINGS = Object.fromEntries(Object.keys(SETTINGS).map((name) => [name, '']));
