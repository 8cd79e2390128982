import { type ChildProcess, execFileSync, spawn, spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import {
  closeSync,
  cpSync,
  existsSync,
  mkdirSync,
  openSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { ROOT } from '../support/program.ts';
import { MUTANTS } from './list.ts';
import { type Mutant, pathsOf, problemOf, roomOf } from './mutant.ts';

/**
 * Makes each change of the list in a copy of the repository, builds it and runs its tests, which must fail.
 * Results are kept in build/mutation, so a run that was ended goes on; a change to the file, the entry or
 * its tests makes an entry run again.
 */
type Outcome = 'killed' | 'survived' | 'timed out' | 'does not build' | 'tests fail without it';
interface Result {
  readonly outcome: Outcome;
  readonly seconds: number;
  /** The first test that failed. */
  readonly by?: string | undefined;
}
interface Tests {
  readonly end: 'passed' | 'failed' | 'late';
  readonly seconds: number;
  readonly by?: string | undefined;
}

const FOLDER = join(ROOT, 'build/mutation');
const RESULTS = join(FOLDER, 'results.json');
/** Longer than tests wait for a condition, so that they can tell which one. */
const LEAST_TIMEOUT_S = 180;
/** Of the time without the change; a change that hangs is noticed by this. */
const TIMEOUT_FACTOR = 4;
const BASE_TIMEOUT_S = 900;
/** A machine that needs so much longer for the same tests was too slow to tell a hang. */
const SLOW_FACTOR = 2;
/** Logs without colours. */
const PLAIN = { ...process.env, NO_COLOR: '1', FORCE_COLOR: '0' };
/** These run sources: they need neither a database nor a build. */
const PURE = /^(test\/unit|packages)\//;

const { values: options } = parseArgs({
  options: {
    /** Entries with this, or with one of several, in their id or file. */
    only: { type: 'string', multiple: true, default: [''] },
    /** Side by side; each has processes of its own. */
    jobs: { type: 'string', default: '1' },
    /** Also those that have a result. */
    again: { type: 'boolean', default: false },
  },
});
const results: Record<string, Result> = existsSync(RESULTS)
  ? JSON.parse(readFileSync(RESULTS, 'utf8'))
  : {};
const running = new Set<ChildProcess>();
/** By test file: what it does without a change. */
const bases = new Map<string, Promise<Tests>>();

function secondsSince(startedAtMs: number): number {
  return Math.round((performance.now() - startedAtMs) / 1000);
}

/** A result holds as long as all that it came of is the same. */
function keyOf(mutant: Mutant, folder = ROOT): string {
  const { file, tests } = pathsOf(mutant);
  const texts = [file, ...tests].map((path) => readFileSync(join(folder, path), 'utf8'));
  const hash = createHash('sha256').update(JSON.stringify([mutant, texts]));
  return `${mutant.id} ${hash.digest('hex').slice(0, 16)}`;
}

/** A copy of the repository as it is, built. */
function newCopy(name: string): string {
  const folder = join(FOLDER, name);
  rmSync(folder, { recursive: true, force: true });
  mkdirSync(folder, { recursive: true });
  const listed = execFileSync('git', ['ls-files', '-co', '--exclude-standard', '-z'], {
    cwd: ROOT,
    encoding: 'utf8',
  });
  for (const path of listed.split('\0').filter((one) => one && existsSync(join(ROOT, one))))
    cpSync(join(ROOT, path), join(folder, path));
  symlinkSync(join(ROOT, 'node_modules'), join(folder, 'node_modules'));
  // What install.sh of test/clients has made: without it, the tests of the Python client are skipped.
  const python = join(ROOT, 'build/python');
  mkdirSync(join(folder, 'build'));
  if (existsSync(python)) symlinkSync(python, join(folder, 'build/python'));
  // A change may leave a name that nobody uses.
  const settings = join(folder, 'tsconfig.json');
  const strict = readFileSync(settings, 'utf8');
  writeFileSync(settings, strict.replace(/("noUnused\w+": )true/g, '$1false'));
  if (!builds(folder)) throw new Error('the repository does not build');
  return folder;
}

async function runTests(
  folder: string,
  { id, name }: Mutant,
  file: string,
  timeoutS: number,
): Promise<Tests> {
  const projects = ['main', 'long', 'fault'].flatMap((one) => ['--project', one]);
  const named = name === undefined ? [] : ['-t', name];
  const env = PURE.test(file) ? { ...PLAIN, TEST_DATABASE_URL: '' } : PLAIN;
  const path = join(folder, '..', `${id}.log`);
  const log = openSync(path, 'w');
  const startedAtMs = performance.now();
  // A group of its own: what the tests start ends with it.
  const child = spawn(
    'node_modules/.bin/vitest',
    ['run', ...projects, '--maxWorkers', '1', '--bail', '1', ...named, file],
    { cwd: folder, detached: true, stdio: ['ignore', log, log], env },
  );
  const end = await endOf(child, timeoutS);
  closeSync(log);
  const [, by] = /^ *FAIL +(.+)$/m.exec(readFileSync(path, 'utf8')) ?? [];
  return { end, seconds: secondsSince(startedAtMs), by };
}

function endOf(child: ChildProcess, timeoutS: number): Promise<Tests['end']> {
  return new Promise((resolve) => {
    running.add(child);
    const timer = setTimeout(() => {
      process.kill(-child.pid!, 'SIGKILL');
      resolve('late');
    }, timeoutS * 1000);
    child.once('exit', (code) => {
      running.delete(child);
      clearTimeout(timer);
      resolve(code === 0 ? 'passed' : 'failed');
    });
  });
}

/** What the tests of a file do without a change, once for all that name them. */
function baseOf(folder: string, mutant: Mutant, file: string): Promise<Tests> {
  const key = JSON.stringify([file, mutant.name]);
  const base = bases.get(key) ?? runTests(folder, mutant, file, BASE_TIMEOUT_S);
  bases.set(key, base);
  return base;
}

function builds(folder: string): boolean {
  return spawnSync('npm', ['run', '-s', 'build'], { cwd: folder, stdio: 'ignore' }).status === 0;
}

/** Runs tests with the change made, and takes it back. Undefined: it does not build. */
async function runChanged(
  folder: string,
  mutant: Mutant,
  file: string,
  limitS: number,
): Promise<Tests | undefined> {
  const path = join(folder, pathsOf(mutant).file);
  const text = readFileSync(path, 'utf8');
  const isBuilt = !PURE.test(file);
  writeFileSync(
    path,
    text.replace(mutant.old, () => mutant.new),
  );
  try {
    if (isBuilt && !builds(folder)) return undefined;
    return await runTests(folder, mutant, file, limitS);
  } finally {
    writeFileSync(path, text);
    if (isBuilt) builds(folder);
  }
}

/** File by file: the first that notices is enough. */
async function tryOut(folder: string, mutant: Mutant): Promise<Result> {
  const startedAtMs = performance.now();
  const result = (outcome: Outcome, by?: string) => ({
    outcome,
    seconds: secondsSince(startedAtMs),
    by,
  });
  for (const file of pathsOf(mutant).tests) {
    let base = await baseOf(folder, mutant, file);
    for (;;) {
      if (base.end !== 'passed') return result('tests fail without it', base.by ?? file);
      const limitS = Math.max(LEAST_TIMEOUT_S, TIMEOUT_FACTOR * base.seconds);
      const tests = await runChanged(folder, mutant, file, limitS);
      if (tests === undefined) return result('does not build');
      if (tests.end === 'failed') return result('killed', tests.by);
      if (tests.end === 'passed') break;
      // Does the change hang, or was the machine slow?
      const { seconds } = base;
      base = await runTests(folder, mutant, file, BASE_TIMEOUT_S);
      if (base.end === 'passed' && base.seconds <= SLOW_FACTOR * seconds)
        return result('timed out', file);
    }
  }
  return result('survived');
}

const chosen = MUTANTS.filter(({ id, file }) =>
  options.only.some((part) => `${id} ${file}`.includes(part)),
);
const broken = MUTANTS.flatMap((mutant) => {
  const problem = problemOf(mutant, ROOT);
  return problem === undefined ? [] : [`${mutant.id}: ${problem}`];
});
if (broken.length > 0) throw new Error(`Mend the list first:\n${broken.join('\n')}`);
const left = chosen.filter((mutant) => options.again || results[keyOf(mutant)] === undefined);

/** One copy, and what it takes from the list. */
async function work(name: string): Promise<void> {
  const folder = newCopy(name);
  for (let next = left.shift(); next !== undefined; next = left.shift()) {
    const result = await tryOut(folder, next);
    results[keyOf(next, folder)] = result;
    writeFileSync(RESULTS, JSON.stringify(results, undefined, 1));
    console.log(
      `${result.outcome.padEnd(9)} ${result.seconds} s  ${next.id}  (${left.length} left)  ${result.by ?? ''}`,
    );
  }
  rmSync(folder, { recursive: true, force: true });
}

function report(): boolean {
  const rooms = [...new Set(chosen.map(roomOf))];
  const outcomeOf = (mutant: Mutant) => results[keyOf(mutant)]?.outcome ?? 'changed meanwhile';
  const count = (among: readonly Mutant[], outcome: string) =>
    among.filter((mutant) => outcomeOf(mutant) === outcome).length;
  console.log(
    '\n| Room | Changes | Killed | Timed out | Survived | Score |\n|---|---|---|---|---|---|',
  );
  for (const room of [...rooms, '']) {
    const among = chosen.filter((mutant) => room === '' || roomOf(mutant) === room);
    const [killed, late] = [count(among, 'killed'), count(among, 'timed out')];
    const score = Math.floor((100 * (killed + late)) / among.length);
    console.log(
      `| ${room || 'all'} | ${among.length} | ${killed} | ${late} | ${count(among, 'survived')} | ${score} % |`,
    );
  }
  const bad = chosen.filter((mutant) => !['killed', 'timed out'].includes(outcomeOf(mutant)));
  for (const mutant of bad)
    console.log(
      `\n${outcomeOf(mutant)}: ${mutant.id} (${pathsOf(mutant).file}): ${mutant.promise}`,
    );
  return bad.length === 0;
}

for (const signal of ['SIGINT', 'SIGTERM'] as const) {
  process.once(signal, () => {
    for (const child of running) process.kill(-child.pid!, 'SIGKILL');
    process.exit(1);
  });
}
mkdirSync(FOLDER, { recursive: true });
console.log(`${chosen.length} changes, ${left.length} to run`);
const jobs = Math.min(Number(options.jobs), left.length);
await Promise.all(Array.from({ length: jobs }, (_, i) => work(`copy-${i}`)));
process.exitCode = report() ? 0 : 1;
