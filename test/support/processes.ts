import { execFileSync } from 'node:child_process';

/** Living children of a process. */
export function childrenOf(pid: number): number[] {
  return children(pid).map((child) => child.pid);
}

function children(parent: number): { pid: number; command: string }[] {
  const listed = execFileSync('ps', ['-ww', '-eo', 'pid=,ppid=,stat=,args='], { encoding: 'utf8' });
  return listed.split('\n').flatMap((line) => {
    const [, pid, ppid, state, command] = /^ *(\d+) +(\d+) +(\S+) +(.*)$/.exec(line) ?? [];
    const isChild = Number(ppid) === parent && !state!.startsWith('Z');
    return isChild ? [{ pid: Number(pid), command: command!.trimEnd() }] : [];
  });
}

export function isRunning(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch {
    return false;
  }
}
