import { type ChildProcess, spawn } from 'node:child_process';
import { get } from 'node:http';
import { SETTINGS } from '../src/config/settings.ts';
import { freePort } from '../test/support/ports.ts';
import { CLI, makePlace, type Place, ROOT } from '../test/support/program.ts';
import type { DatabaseServer } from './database.ts';
import type { Leftovers } from './leftovers.ts';
import type { Progress } from './progress.ts';

/** The kinds of start, timed in turns until the first 200 of /health. */
export const TIMED = ['npm_start', 'serve', 'postgres'] as const;
export type Timed = (typeof TIMED)[number];

export interface StartTimes {
  /** `npm start` in an empty folder. */
  readonly firstMs: number;
  /** Empty: not measured. */
  readonly timesMs: Readonly<Record<Timed, readonly number[]>>;
}

/** A program and its arguments. */
type Command = readonly [string, ...string[]];

export const STARTS = 5;
const LOOK_INTERVAL_MS = 5;
const LOOK_TIMEOUT_MS = 1_000;
const START_TIMEOUT_MS = 60_000;
const STOP_TIMEOUT_MS = 20_000;

const NPM_START: Command = ['npm', 'start'];
const SERVE: Command = [process.execPath, CLI, 'serve'];

/** Starts the service repeatedly. Only the first start makes the database and the build. */
export async function measureStart(
  server: DatabaseServer | undefined,
  progress: Progress,
  leftovers: Leftovers,
): Promise<StartTimes> {
  const part = leftovers.part();
  const embedded = await makePlace('embedded', '');
  part.add(async () => embedded.remove());
  const postgres = server && (await makePlace('server', server.url));
  if (postgres !== undefined) {
    part.add(async () => postgres.remove());
    part.add(() => server!.drop(postgres.env.DATABASE_URL!));
    // Makes the vault first, because that is not part of a start.
    await timeStart(SERVE, postgres, part);
  }
  const firstMs = await timeStart(NPM_START, embedded, part);
  const timesMs: Record<Timed, number[]> = { npm_start: [], serve: [], postgres: [] };
  for (let turn = 1; turn <= STARTS; turn++) {
    const text = `start ${turn} of ${STARTS}`;
    progress.begin(text);
    timesMs.npm_start.push(await timeStart(NPM_START, embedded, part));
    timesMs.serve.push(await timeStart(SERVE, embedded, part));
    if (postgres !== undefined) timesMs.postgres.push(await timeStart(SERVE, postgres, part));
    const [npmMs, serveMs] = [timesMs.npm_start.at(-1)!, timesMs.serve.at(-1)!];
    progress.end(text, `npm start ${npmMs.toFixed(0)} ms, serve ${serveMs.toFixed(0)} ms`);
  }
  await part.removeAll();
  return { firstMs, timesMs };
}

/** Time from the start of a program to the first 200 of /health. */
async function timeStart(command: Command, place: Place, leftovers: Leftovers): Promise<number> {
  const port = await freePort();
  const startedMs = performance.now();
  const group = new Group(command, { ...place.env, PORT: String(port), OPS_PORT: '0' }, leftovers);
  while (!(await isHealthy(port))) {
    if (group.isOver) throw new Error(`${command.join(' ')} ended: ${group.stderr}`);
    if (performance.now() - startedMs > START_TIMEOUT_MS) {
      throw new Error(`${command.join(' ')} was not healthy within ${START_TIMEOUT_MS} ms`);
    }
    await new Promise((resolve) => setTimeout(resolve, LOOK_INTERVAL_MS));
  }
  const tookMs = performance.now() - startedMs;
  await group.end();
  return tookMs;
}

function isHealthy(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const options = {
      host: '127.0.0.1',
      port,
      path: '/health',
      agent: false,
      timeout: LOOK_TIMEOUT_MS,
    };
    const request = get(options, (response) => {
      response.resume();
      resolve(response.statusCode === 200);
    });
    request.on('error', () => resolve(false));
    request.on('timeout', () => request.destroy());
  });
}

/** A program in its own process group, as started by a shell. */
class Group {
  /** Resolves when no process of the group has standard error open, so all processes have ended. */
  readonly over: Promise<void>;
  isOver = false;
  stderr = '';
  readonly #child: ChildProcess;

  constructor([file, ...args]: Command, env: Record<string, string>, leftovers: Leftovers) {
    const { PATH = '', HOME = '', TMPDIR = '' } = process.env;
    const inherited = TMPDIR === '' ? { PATH, HOME } : { PATH, HOME, TMPDIR };
    this.#child = spawn(file, args, {
      cwd: ROOT,
      env: { ...inherited, ...NO_SETTINGS, ...env },
      stdio: ['ignore', 'ignore', 'pipe'],
      detached: true,
    });
    this.#child.stderr!.setEncoding('utf8').on('data', (text: string) => {
      this.stderr += text;
    });
    this.over = new Promise((resolve, reject) => {
      this.#child.once('error', reject);
      this.#child.once('close', () => {
        this.isOver = true;
        resolve();
      });
    });
    leftovers.add(() => this.end());
  }

  /** Sends SIGINT to the group, as Ctrl-C does, and SIGKILL after a while. */
  async end(): Promise<void> {
    if (this.isOver) return;
    this.#signal('SIGINT');
    const force = setTimeout(() => this.#signal('SIGKILL'), STOP_TIMEOUT_MS);
    await this.over;
    clearTimeout(force);
  }

  #signal(signal: NodeJS.Signals): void {
    try {
      process.kill(-this.#child.pid!, signal);
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'ESRCH') throw error;
    }
  }
}

/** Empty variables count as "not set" and override the developer's .env file. */
const NO_SETTINGS = Object.fromEntries(Object.keys(SETTINGS).map((name) => [name, '']));
