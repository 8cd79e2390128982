import { readFileSync } from 'node:fs';

/** Resident memory of a process, in bytes; undefined: a system without /proc. */
export function processRssBytes(pid: number): number | undefined {
  try {
    const kib = /^VmRSS:\s+(\d+) kB$/m.exec(readFileSync(`/proc/${pid}/status`, 'latin1'))?.[1];
    return kib === undefined ? undefined : Number(kib) * 1_024;
  } catch {
    return undefined;
  }
}
