import { type ChildProcess, execFileSync, fork } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { childrenOf } from '../test/support/processes.ts';
import type { Leftovers } from './leftovers.ts';

/** Processes under test: their start, their end, and their CPU time and memory from /proc. */

/** On a busy machine, the embedded database takes a minute. */
const START_TIMEOUT_MS = 180_000;
const POLL_INTERVAL_MS = 50;
const STOP_TIMEOUT_MS = 10_000;

/** Starts a program of the benchmark, which reports its address. */
export async function startProgram(
  file: string,
  args: readonly string[],
  leftovers: Leftovers,
): Promise<{ child: ChildProcess; pid: number; url: string }> {
  const child = fork(new URL(file, import.meta.url), args, { execArgv: [] });
  leftovers.add(() => end(child, 'SIGKILL'));
  const url = await new Promise<string>((resolve, reject) => {
    child.once('message', (message: { url: string }) => resolve(message.url));
    child.once('exit', (code, signal) => reject(new Error(`${file} ended with ${code ?? signal}`)));
  });
  return { child, pid: child.pid!, url };
}

/** Waits until a started program answers. */
export async function healthy(
  url: string,
  child: ChildProcess,
  intervalMs = POLL_INTERVAL_MS,
): Promise<void> {
  const giveUpMs = performance.now() + START_TIMEOUT_MS;
  while (performance.now() < giveUpMs) {
    if (child.exitCode !== null) throw new Error(`ended with ${child.exitCode} at its start`);
    // A kept connection would hold up the end of the program.
    const answer = await fetch(url, { headers: { connection: 'close' } }).catch(() => undefined);
    await answer?.body?.cancel();
    if (answer?.status === 200) return;
    await new Promise((resolve) => setTimeout(resolve, intervalMs));
  }
  throw new Error(`not healthy within ${START_TIMEOUT_MS} ms`);
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

/**
 * CPU time of a process with all threads; NaN: not known.
 * @param times 2: its own user and system time; 4: also those of its ended children
 */
export function cpuSeconds(pid: number, times = 2): number {
  const text = readProc(`${pid}/stat`);
  // The name may have spaces. Two fields later is the 14th, the first of the times; see proc(5).
  const fields = text.slice(text.lastIndexOf(')') + 2).split(' ');
  const ticks = fields.slice(11, 11 + times).map(Number);
  return ticks.length < times ? NaN : ticks.reduce((sum, one) => sum + one) / TICKS_PER_S;
}

/** CPU time of a process and all its children, even ended ones: a Postgres with its backends. */
export function familyCpuSeconds(pid: number): number {
  const children = childrenOf(pid).map((child) => cpuSeconds(child) || 0);
  return children.reduce((sum, one) => sum + one, cpuSeconds(pid, 4));
}

/** Resident memory of a process; NaN: not known. */
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
