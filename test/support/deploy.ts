import { execFileSync, spawnSync } from 'node:child_process';
import { ROOT } from './docs.ts';

/** Whether a program is installed. Tests that need a missing program are skipped. */
export function has(program: string, ...args: string[]): boolean {
  return spawnSync(program, args, { stdio: 'ignore' }).status === 0;
}

export function runTool(program: string, ...args: string[]): string {
  return execFileSync(program, args, { cwd: ROOT, encoding: 'utf8', stdio: 'pipe' });
}
