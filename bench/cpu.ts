import { execFileSync } from 'node:child_process';
import { readdirSync, readFileSync } from 'node:fs';

/** CPU time from /proc; undefined: a system without /proc. */

interface ProcessTimes {
  readonly parent_pid: number;
  /** User and system time of the process itself, in clock ticks. */
  readonly ownTicks: number;
  /** CPU time of ended children that the process has waited for. */
  readonly reapedTicks: number;
}

const ticksPerS = clockTicks();

function clockTicks(): number {
  try {
    return Number(execFileSync('getconf', ['CLK_TCK'], { encoding: 'utf8' })) || 100;
  } catch {
    return 100;
  }
}

/** CPU time of one process, with all threads. */
export function processCpuSeconds(pid: number): number | undefined {
  const times = readTimes(pid);
  return times && times.ownTicks / ticksPerS;
}

/** CPU time of a process and all its children, even ended ones: a Postgres with its backends. */
export function familyCpuSeconds(pid: number): number | undefined {
  const head = readTimes(pid);
  if (head === undefined) return undefined;
  let ticks = head.ownTicks + head.reapedTicks;
  for (const child of childrenOf(pid)) ticks += readTimes(child)?.ownTicks ?? 0;
  return ticks / ticksPerS;
}

export function childrenOf(pid: number): number[] {
  return processes().filter((other) => readTimes(other)?.parent_pid === pid);
}

function processes(): number[] {
  try {
    return readdirSync('/proc').map(Number).filter(Number.isInteger);
  } catch {
    return [];
  }
}

/** proc(5): fields 4, 14 to 17 of /proc/PID/stat, counted after the name, which may have spaces. */
function readTimes(pid: number): ProcessTimes | undefined {
  try {
    const text = readFileSync(`/proc/${pid}/stat`, 'latin1');
    const fields = text.slice(text.lastIndexOf(')') + 2).split(' ');
    const field = (number: number) => Number(fields[number - 3]);
    return {
      parent_pid: field(4),
      ownTicks: field(14) + field(15),
      reapedTicks: field(16) + field(17),
    };
  } catch {
    return undefined;
  }
}
