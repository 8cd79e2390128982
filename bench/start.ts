import { spawn } from 'node:child_process';
import { SETTINGS } from '../src/config/settings.ts';
import { freePort } from '../test/support/processes.ts';
import { makePlace, type Place, ROOT } from '../test/support/program.ts';
import type { Leftovers } from './leftovers.ts';
import { healthy } from './processes.ts';
import { type Bench, tell } from './turns.ts';

const STARTS = 5;
const LOOK_INTERVAL_MS = 5;
const STOP_TIMEOUT_MS = 20_000;

/** The cell that the summary needs. */
export const START = { section: 'Start, until the first 200 of /health', column: 'ms' } as const;
export const NPM_START_ROW = '`npm start`, embedded';

/** Starts the service repeatedly. The first start, which makes the database, does not count. */
export async function measureStart({ leftovers, results }: Bench): Promise<void> {
  const part = leftovers.part();
  const place = await makePlace('embedded', '');
  part.add(async () => place.remove());
  for (let turn = 0; turn <= STARTS; turn++) {
    const ms = await timeStart(place, part);
    if (turn > 0) results.add(START.section, NPM_START_ROW, turn, { ms });
    tell(`start ${turn} of ${STARTS}: ${ms.toFixed(0)} ms`);
  }
  await part.removeAll();
}

/** Time from `npm start` to the first 200 of /health. */
async function timeStart(place: Place, leftovers: Leftovers): Promise<number> {
  const port = await freePort();
  const { PATH = '', HOME = '', TMPDIR } = process.env;
  const inherited = { PATH, HOME, ...(TMPDIR ? { TMPDIR } : {}) };
  const own = { ...place.env, PORT: String(port), OPS_PORT: '0' };
  const startedMs = performance.now();
  const child = spawn('npm', ['start'], {
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
  await healthy('npm start', `http://127.0.0.1:${port}/health`, child, LOOK_INTERVAL_MS);
  const tookMs = performance.now() - startedMs;
  signal('SIGINT');
  const force = setTimeout(() => signal('SIGKILL'), STOP_TIMEOUT_MS);
  await over;
  clearTimeout(force);
  return tookMs;
}

/** Empty variables count as "not set" and override the developer's .env file. */
const NO_SETTINGS = Object.fromEntries(Object.keys(SETTINGS).map((name) => [name, '']));
