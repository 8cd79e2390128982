import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { SETTINGS } from '../src/config/settings.ts';
import { freePort } from '../test/support/processes.ts';
import { environmentOf, makePlace, ROOT } from '../test/support/program.ts';
import type { Bench } from './contestants.ts';
import { healthy } from './processes.ts';
import { tell } from './turns.ts';

const STARTS = 5;

/** The cell that the summary needs. */
export const START = {
  section: 'Start, until the first 200 of /health',
  row: '`npm start`, embedded',
  column: 'ms',
} as const;

/** Empty variables count as "not set" and override the developer's .env file. */
const NO_SETTINGS = Object.fromEntries(Object.keys(SETTINGS).map((name) => [name, '']));

/**
 * Starts the service repeatedly, and takes the time from `npm start` to the first 200 of /health. The
 * first start, which makes the database, does not count.
 */
export async function measureStart({ leftovers, results }: Bench): Promise<void> {
  const part = leftovers.part();
  const place = await makePlace('embedded', '');
  part.add(async () => place.remove());
  const settings = { ...place, env: { ...NO_SETTINGS, ...place.env } };
  for (let turn = 0; turn <= STARTS; turn++) {
    const PORT = String(await freePort());
    const env = environmentOf(settings, { PORT, OPS_PORT: '0' });
    const startedMs = performance.now();
    // A process group, as a shell makes it: Ctrl-C goes to all of it.
    const child = spawn('npm', ['start'], {
      ...{ cwd: ROOT, env, detached: true },
      stdio: ['ignore', 'ignore', 'pipe'],
    });
    child.stderr.pipe(process.stderr, { end: false });
    // When no process of the group has standard error open, so all have ended.
    const over = once(child, 'close');
    const signal = (name: NodeJS.Signals) => {
      if (!child.stderr.closed) process.kill(-child.pid!, name);
    };
    part.add(async () => signal('SIGKILL'));
    await healthy(`http://127.0.0.1:${PORT}/health`, child);
    const ms = performance.now() - startedMs;
    signal('SIGINT');
    await over;
    if (turn > 0) results.add(START.section, START.row, turn, { ms });
    tell(`start ${turn} of ${STARTS}: ${ms.toFixed(0)} ms`);
  }
  await part.removeAll();
}
