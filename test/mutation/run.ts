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
import { changed, type Mutant, problemOf } from './mutant.ts';

/**
 * Makes each change of the list in a copy of the repository, builds it and runs its tests, which must fail.
 * Results are kept in build/mutation, so a run that was ended goes on; a change to the file, the entry or
 * its tests makes an entry run again.
 */
interface Result {
  /** `killed` or `timed out`: a test has noticed. Anything else: none has. */
  readonly outcome: string;
  /** The first test that failed, or the file that was too slow. */
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
const MIN_TIMEOUT_S = 180;
/** Of the time without the change; a change that hangs is noticed by this. */
const TIMEOUT_FACTOR = 4;
const BASE_TIMEOUT_S = 900;
/** A machine that needs so much longer for the same tests was too slow to tell a hang. */
const SLOW_FACTOR = 2;
const TOO_SLOW = 'the machine was too slow';
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

/** A result holds as long as all that it came of is the same. */
function keyOf(mutant: Mutant, folder = ROOT): string {
  const paths = [mutant.file, ...mutant.tests];
  const texts = paths.map((path) => readFileSync(join(folder, path), 'utf8'));
  const hash = createHash('sha256').update(JSON.stringify([mutant, texts]));
  return `${mutant.id} ${hash.digest('hex').slice(0, 16)}`;
}

/** A copy of the repository as it is, built. */
function newCopy(name: string): string {
  const folder = join(FOLDER, name);
  rmSync(folder, { recursive: true, force: true });
  const listed = execFileSync('git', ['ls-files', '-co', '--exclude-standard'], { cwd: ROOT });
  for (const path of listed.toString().trim().split('\n'))
    if (existsSync(join(ROOT, path))) cpSync(join(ROOT, path), join(folder, path));
  mkdirSync(join(folder, 'build'));
  // build/python is what install.sh of test/clients makes: without it, tests of the Python client are skipped.
  for (const path of ['node_modules', 'build/python'])
    if (existsSync(join(ROOT, path))) symlinkSync(join(ROOT, path), join(folder, path));
  // A change may leave a name that nobody uses.
  const settings = join(folder, 'tsconfig.json');
  const strict = readFileSync(settings, 'utf8');
  writeFileSync(settings, strict.replace(/("noUnused\w+": )true/g, '$1false'));
  if (!builds(folder)) throw new Error('the repository does not build');
  return folder;
}

function builds(folder: string): boolean {
  return spawnSync('npm', ['run', '-s', 'build'], { cwd: folder, stdio: 'ignore' }).status === 0;
}

/** Runs the tests of one file. */
async function runTests(
  folder: string,
  { id, name }: Mutant,
  file: string,
  timeoutS: number,
): Promise<Tests> {
  const projects = ['main', 'long', 'fault'].flatMap((one) => ['--project', one]);
  const named = name === undefined ? [] : ['-t', name];
  // Logs without colours.
  const env: NodeJS.ProcessEnv = { ...process.env, NO_COLOR: '1', FORCE_COLOR: '0' };
  if (PURE.test(file)) env.TEST_DATABASE_URL = '';
  const path = join(FOLDER, `${id}.log`);
  const log = openSync(path, 'w');
  const beganMs = performance.now();
  // A group of its own: what the tests start ends with it.
  const child = spawn(
    'node_modules/.bin/vitest',
    ['run', ...projects, '--maxWorkers', '1', '--bail', '1', ...named, file],
    { cwd: folder, detached: true, stdio: ['ignore', log, log], env },
  );
  running.add(child);
  let end: Tests['end'] | undefined;
  const timer = setTimeout(() => {
    end = 'late';
    process.kill(-child.pid!, 'SIGKILL');
  }, timeoutS * 1_000);
  const code = await new Promise((resolve) => child.once('exit', resolve));
  clearTimeout(timer);
  running.delete(child);
  closeSync(log);
  const [, by] = /^ *FAIL +(.+)$/m.exec(readFileSync(path, 'utf8')) ?? [];
  const seconds = (performance.now() - beganMs) / 1_000;
  return { end: end ?? (code === 0 ? 'passed' : 'failed'), seconds, by };
}

/** Runs tests with the change made, and takes it back. Undefined: it does not build. */
async function runChanged(
  folder: string,
  mutant: Mutant,
  file: string,
  timeoutS: number,
): Promise<Tests | undefined> {
  const path = join(folder, mutant.file);
  const text = readFileSync(path, 'utf8');
  const result = changed(mutant, text);
  if ('problem' in result) throw new Error(result.problem);
  const isBuilt = !PURE.test(file);
  writeFileSync(path, result.text);
  try {
    if (isBuilt && !builds(folder)) return undefined;
    return await runTests(folder, mutant, file, timeoutS);
  } finally {
    writeFileSync(path, text);
    if (isBuilt) builds(folder);
  }
}

/** File by file: the first that notices is enough. */
async function tryOut(folder: string, mutant: Mutant): Promise<Result> {
  for (const file of mutant.tests) {
    const key = JSON.stringify([file, mutant.name]);
    if (!bases.has(key)) bases.set(key, runTests(folder, mutant, file, BASE_TIMEOUT_S));
    const base = await bases.get(key)!;
    if (base.end !== 'passed') return { outcome: 'tests fail without it', by: base.by ?? file };
    const timeoutS = Math.max(MIN_TIMEOUT_S, TIMEOUT_FACTOR * base.seconds);
    const tests = await runChanged(folder, mutant, file, timeoutS);
    if (tests === undefined) return { outcome: 'does not build' };
    if (tests.end === 'failed') return { outcome: 'killed', by: tests.by };
    if (tests.end === 'passed') continue;
    // Does the change hang, or was the machine slow?
    const { seconds } = await runTests(folder, mutant, file, BASE_TIMEOUT_S);
    const isSlow = seconds > SLOW_FACTOR * base.seconds;
    return { outcome: isSlow ? TOO_SLOW : 'timed out', by: file };
  }
  return { outcome: 'survived' };
}

const chosen = MUTANTS.filter(({ id, file }) =>
  options.only.some((part) => `${id} ${file}`.includes(part)),
);
const broken = MUTANTS.map((mutant) => [mutant.id, problemOf(mutant, ROOT)] as const);
const problems = broken.flatMap(([id, problem]) => (problem ? [`${id}: ${problem}`] : []));
if (problems.length > 0) throw new Error(`Mend the list first:\n${problems.join('\n')}`);
const left = chosen.filter(
  (mutant) => options.again || (results[keyOf(mutant)]?.outcome ?? TOO_SLOW) === TOO_SLOW,
);

/** One copy, and what it takes from the list. */
async function work(name: string): Promise<void> {
  const folder = newCopy(name);
  for (let next = left.shift(); next !== undefined; next = left.shift()) {
    const result = await tryOut(folder, next);
    results[keyOf(next, folder)] = result;
    writeFileSync(RESULTS, JSON.stringify(results, undefined, 1));
    const { outcome, by = '' } = result;
    console.log(`${outcome.padEnd(9)} ${next.id}  (${left.length} left)  ${by}`);
  }
  rmSync(folder, { recursive: true, force: true });
}

/** @returns whether each change was noticed */
function report(): boolean {
  const outcomeOf = (mutant: Mutant) => results[keyOf(mutant)]?.outcome ?? 'changed meanwhile';
  const isNoticed = (mutant: Mutant) => /^(killed|timed out)$/.test(outcomeOf(mutant));
  const bad = chosen.filter((mutant) => !isNoticed(mutant));
  for (const mutant of bad)
    console.log(`\n${outcomeOf(mutant)}: ${mutant.id} (${mutant.file}): ${mutant.promise}`);
  console.log(`\n${chosen.length - bad.length} of ${chosen.length} changes noticed`);
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
