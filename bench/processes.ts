import { type ChildProcess, execFileSync, fork } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { childrenOf } from '../test/support/processes.ts';
import type { Leftovers } from './leftovers.ts';

/** Processes under test: their start, their end, and their CPU time and memory from /proc. */

const START_TIMEOUT_MS = 60_000;
const LOOK_INTERVAL_MS = 50;
const STOP_TIMEOUT_MS = 10_000;

/** Starts a program of the benchmark, which reports its address. */
export async function startProgram(
  file: string,
  args: readonly string[],
  leftovers: Leftovers,
): Promise<{ child: ChildProcess; url: string }> {
  const child = fork(new URL(file, import.meta.url), args, { execArgv: [] });
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

/** Fields of /proc/PID/stat, see proc(5): user and system time, of the process and of ended children. */
const [OWN, REAPED] = [
  [14, 15],
  [16, 17],
] as const;

/** CPU time of a process with all threads; NaN: a system without /proc. */
export function cpuSeconds(pid: number, times: readonly (readonly number[])[] = [OWN]): number {
  const text = readProc(`${pid}/stat`);
  // The fields are counted after the name, which may have spaces.
  const fields = text.slice(text.lastIndexOf(')') + 2).split(' ');
  const ticks = times.flat().map((number) => Number(fields[number - 3]));
  return ticks.reduce((sum, one) => sum + one, 0) / TICKS_PER_S;
}

/** CPU time of a process and all its children, even ended ones: a Postgres with its backends. */
export function familyCpuSeconds(pid: number): number {
  const children = childrenOf(pid).map((child) => cpuSeconds(child) || 0);
  return children.reduce((sum, one) => sum + one, cpuSeconds(pid, [OWN, REAPED]));
}

/** Resident memory of a process; NaN: a system without /proc. */
export function rssMib(pid: number): number {
  return Number(/^VmRSS:\s+(\d+) kB$/m.exec(readProc(`${pid}/status`))?.[1]) / 1_024;
}

function readProc(path: string): string {
  try {
    return readFileSync(`/proc/${path}`, 'latin1');
  } catch {
    return '';
  }
}
