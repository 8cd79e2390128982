import { existsSync, mkdirSync, readFileSync, rmdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

/** A Linux control group, of either version, with a memory limit. */
export interface MemoryGroup {
  readonly folder: string;
  /** How many processes the kernel has killed at the memory limit. */
  kills(): number;
  /** Moves a process into the group. Its later children are in the group too. */
  take(pid: number): void;
  /** Moves a process out of the group. */
  give(pid: number): void;
}

let last = 0;

/** undefined: this machine does not allow it. */
export function makeMemoryGroup(limitBytes: number): MemoryGroup | undefined {
  if (process.platform !== 'linux' || process.getuid?.() !== 0) return undefined;
  const name = `standin-test-${process.pid}-${++last}`;
  const roots = [
    { root: '/sys/fs/cgroup/memory', limit: 'memory.limit_in_bytes', events: 'memory.oom_control' },
    { root: '/sys/fs/cgroup', limit: 'memory.max', events: 'memory.events' },
  ];
  for (const { root, limit, events } of roots) {
    const folder = join(root, name);
    try {
      if (!existsSync(join(root, 'cgroup.procs'))) continue;
      mkdirSync(folder);
      writeFileSync(join(folder, limit), String(limitBytes));
      const kills = () => {
        const text = readFileSync(join(folder, events), 'utf8');
        return Number(/^oom_kill (\d+)$/m.exec(text)?.[1] ?? Number.NaN);
      };
      const move = (to: string) => (pid: number) =>
        writeFileSync(join(to, 'cgroup.procs'), String(pid));
      if (kills() === 0) return { folder, kills, take: move(folder), give: move(root) };
      rmdirSync(folder);
    } catch {
      if (existsSync(folder)) rmdirSync(folder);
    }
  }
  return undefined;
}
