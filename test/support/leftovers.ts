import { execFileSync, spawn } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import type { Socket } from 'node:net';

/**
 * Every process that a test starts inherits this variable, which names the run and the worker. The
 * processes that still have it when the next file or nothing follows end then, so that a test that
 * fails or times out leaves nothing running. Only on Linux, where /proc shows the variables of a process.
 */
const NAME = 'TEST_RUN';
/** Ends the processes with `$0` among their variables. */
const END = 'grep -lsaF "$0" /proc/[0-9]*/environ | cut -d/ -f3 | xargs -r kill -9 2>&-; true';
/** Without the variable, because the shell must not kill itself. */
const env = { PATH: process.env.PATH };

/** Names this run. Returns what ends its processes, as the end of this process does, even by SIGKILL. */
export function nameRun(): () => void {
  process.env[NAME] = `${randomBytes(8).toString('hex')}.`;
  const args = ['-c', `cat >/dev/null; ${END}`, mark()];
  const child = spawn('sh', args, { env, stdio: ['pipe', 'ignore', 'ignore'], detached: true });
  child.unref();
  (child.stdin as Socket).unref();
  return () => child.stdin.end();
}

/** Names the worker of the tests, and ends what its last test file left. */
export function nameWorker(): void {
  const [run] = (process.env[NAME] ?? '').split('.');
  // A process keeps the variables that it began with, so this worker itself has only the run's.
  process.env[NAME] = `${run}.${process.pid}.`;
  execFileSync('sh', ['-c', END, mark()], { env });
}

/** The variable, for processes that do not get the other variables of this process. */
export function marked(): Record<string, string> {
  const value = process.env[NAME];
  return value === undefined ? {} : { [NAME]: value };
}

function mark(): string {
  return `${NAME}=${process.env[NAME]}`;
}
