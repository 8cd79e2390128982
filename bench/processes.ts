import { type ChildProcess, execFileSync } from 'node:child_process';
import { once } from 'node:events';
import { readFile } from 'node:fs/promises';
import { setTimeout as sleep } from 'node:timers/promises';
import { childrenOf } from '../test/support/processes.ts';

/** Processes under test: their start, their end, and their CPU time and memory from /proc. */

/** On a busy machine, the embedded database takes a minute. */
const START_TIMEOUT_MS = 180_000;
const POLL_INTERVAL_MS = 5;
const STOP_TIMEOUT_MS = 10_000;

/** Waits until a started program answers. */
export async function healthy(url: string, child: ChildProcess): Promise<void> {
  const giveUpMs = performance.now() + START_TIMEOUT_MS;
  while (performance.now() < giveUpMs) {
    if (child.exitCode !== null) throw new Error(`ended with ${child.exitCode} at its start`);
    // A kept connection would hold up the end of the program.
    const answer = await fetch(url, { headers: { connection: 'close' } }).catch(() => undefined);
    await answer?.body?.cancel();
    if (answer?.status === 200) return;
    await sleep(POLL_INTERVAL_MS);
  }
  throw new Error(`not healthy within ${START_TIMEOUT_MS} ms`);
}

/** Asks a process to end, and kills it after a while. */
export async function end(child: ChildProcess, signal: NodeJS.Signals): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  child.kill(signal);
  setTimeout(() => child.kill('SIGKILL'), STOP_TIMEOUT_MS).unref();
  await once(child, 'exit');
}

const TICKS_PER_S = Number(execFileSync('getconf', ['CLK_TCK'], { encoding: 'utf8' }));

/**
 * CPU time of a process with all threads; NaN: not known.
 * @param times 2: its own user and system time; 4: also those of its ended children
 */
export async function cpuSeconds(pid: number, times = 2): Promise<number> {
  const text = await readProc(`${pid}/stat`);
  // The name may have spaces. Two fields later is the 14th, the first of the times; see proc(5).
  const fields = text.slice(text.lastIndexOf(')') + 2).split(' ');
  const ticks = fields.slice(11, 11 + times).map(Number);
  return ticks.length < times ? NaN : ticks.reduce((sum, one) => sum + one) / TICKS_PER_S;
}

/** CPU time of a process and all its children, even ended ones: a Postgres with its backends. */
export async function familyCpuSeconds(pid: number): Promise<number> {
  const own = await cpuSeconds(pid, 4);
  const children = await Promise.all(childrenOf(pid).map((child) => cpuSeconds(child)));
  return children.reduce((sum, one) => sum + (one || 0), own);
}

/** Resident memory of a process; NaN: not known. */
export async function rssMib(pid: number): Promise<number> {
  return Number(/^VmRSS:\s+(\d+) kB$/m.exec(await readProc(`${pid}/status`))?.[1]) / 1_024;
}

const readProc = (path: string) => readFile(`/proc/${path}`, 'latin1').catch(() => '');

/** Removes the processes and files of a run, at its end or an interruption, in reverse order. */
export class Leftovers {
  readonly #steps: (() => Promise<void>)[] = [];

  add(step: () => Promise<void>): void {
    this.#steps.push(step);
  }

  /** Leftovers of a part of the run, which removes them earlier if it succeeds. */
  part(): Leftovers {
    const part = new Leftovers();
    this.add(() => part.removeAll());
    return part;
  }

  /** A failed removal does not prevent the others. */
  async removeAll(): Promise<void> {
    for (let step = this.#steps.pop(); step !== undefined; step = this.#steps.pop())
      await step().catch(({ message }) => console.error(`While tidying up: ${message}`));
  }
}
