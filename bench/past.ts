import { execFileSync, execSync } from 'node:child_process';
import { existsSync, mkdirSync, renameSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { ROOT } from '../test/support/program.ts';

/** The last commit whose speed is the measure. */
export const PAST = 'e0c8a12';

/**
 * The program of another commit, which is built once, below build/. Its commands and settings for a
 * vault and a client must be those of today, as they are since e0c8a12; it needs to know no policy.
 */
export function buildPast(commit: string): string {
  const folder = join(ROOT, 'build/past', commit);
  if (!existsSync(folder)) {
    const unfinished = `${folder}.unfinished`;
    rmSync(unfinished, { recursive: true, force: true });
    mkdirSync(unfinished, { recursive: true });
    const source = execFileSync('git', ['archive', commit], { cwd: ROOT, maxBuffer: 1 << 30 });
    execFileSync('tar', ['-x'], { cwd: unfinished, input: source });
    for (const command of ['npm ci --silent --no-audit --no-fund', 'npm run -s build'])
      execSync(command, { cwd: unfinished, stdio: ['ignore', 2, 2] });
    renameSync(unfinished, folder);
  }
  return join(folder, 'dist/cli.js');
}
