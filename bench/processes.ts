import { type ChildProcess, execFileSync, fork } from 'node:child_process';
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import type { Leftovers } from './leftovers.ts';

/** Processes under test: their start, their end, and their CPU time and memory from /proc. */

const START_TIMEOUT_MS = 60_000;
const LOOK_INTERVAL_MS = 50;
const STOP_TIMEOUT_MS = 10_000;

/**
 * Starts a program of the benchmark, which reports its address.
 * @param node the Node that runs the program
 */
export async function startProgram(
  file: string,
  args: readonly string[],
  leftovers: Leftovers,
  node = process.execPath,
): Promise<{ child: ChildProcess; url: string }> {
  const child = fork(new URL(file, import.meta.url), args, { execArgv: [], execPath: node });
  leftovers.add(() => end(child, 'SIGKILL'));
  const url = await new Promise<string>((resolve, reject) => {
    child.once('message', (message: { url: string }) => resolve(message.url));
    child.once('exit', (code, signal) => reject(new Error(`${file} ended with ${code ?? signal}`)));
  });
  return { child, url };
}

/** Waits until a started program answers. @param name for error messages */
export async function healthy(
  name: string,
  url: string,
  child: ChildProcess,
  intervalMs = LOOK_INTERVAL_MS,
): Promise<void> {
  const giveUpMs = performance.now() + START_TIMEOUT_MS;
  while (performance.now() < giveUpMs) {
    if (child.exitCode !== null) throw new Error(`${name} ended with ${child.exitCode}`);
    // A kept connection would hold up the end of the program.
    const answer = await fetch(url, { headers: { connection: 'close' } }).catch(() => undefined);
    await answer?.body?.cancel();
    if (answer?.status === 200) return;
    await new Promise((resolve) => setTimeout(resolve, intervalMs));
  }
  throw new Error(`${name} was not healthy within ${START_TIMEOUT_MS} ms`);
}

/** Asks a process to end, and kills it after a while. */
export async function end(child: ChildProcess, signal: NodeJS.Signals): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  const exit = new Promise((resolve) => child.once('exit', resolve));
  child.kill(signal);
  const force = setTimeout(() => child.kill('SIGKILL'), STOP_TIMEOUT_MS);
  await exit;
  clearTimeout(force);
}

const TICKS_PER_S = Number(execFileSync('getconf', ['CLK_TCK'], { encoding: 'utf8' }));

/** CPU time of these processes, with all threads; undefined: a system without /proc. */
export function cpuSeconds(pids: readonly number[]): number | undefined {
  return seconds(pids.map((pid) => readTimes(pid)?.ownTicks));
}

/** CPU time of a process and all its children, even ended ones: a Postgres with its backends. */
export function familyCpuSeconds(pid: number): number | undefined {
  const head = readTimes(pid);
  const children = childrenOf(pid).map((child) => readTimes(child)?.ownTicks ?? 0);
  return seconds([head?.ownTicks, head?.reapedTicks, ...children]);
}

function seconds(ticks: readonly (number | undefined)[]): number | undefined {
  let sum = 0;
  for (const one of ticks) {
    if (one === undefined) return undefined;
    sum += one;
  }
  return sum / TICKS_PER_S;
}

export function childrenOf(pid: number): number[] {
  if (!existsSync('/proc')) return [];
  const processes = readdirSync('/proc').map(Number).filter(Number.isInteger);
  return processes.filter((other) => readTimes(other)?.parentPid === pid);
}

/** Resident memory of a process; undefined: a system without /proc. */
export function rssMib(pid: number): number | undefined {
  const kib = /^VmRSS:\s+(\d+) kB$/m.exec(readProc(`${pid}/status`) ?? '')?.[1];
  return kib === undefined ? undefined : Number(kib) / 1_024;
}

/** proc(5): fields 4, 14 to 17 of /proc/PID/stat, counted after the name, which may have spaces. */
function readTimes(pid: number) {
  const text = readProc(`${pid}/stat`);
  if (text === undefined) return undefined;
  const fields = text.slice(text.lastIndexOf(')') + 2).split(' ');
  const field = (number: number) => Number(fields[number - 3]);
  // User and system time of the process itself, and of ended children that it has waited for.
  const [ownTicks, reapedTicks] = [field(14) + field(15), field(16) + field(17)];
  return { parentPid: field(4), ownTicks, reapedTicks };
}

function readProc(path: string): string | undefined {
  try {
    return readFileSync(`/proc/${path}`, 'latin1');
  } catch {
    return undefined;
  }
}
