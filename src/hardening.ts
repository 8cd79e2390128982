import { spawnSync } from 'node:child_process';
import { writeFileSync } from 'node:fs';

/**
 * Keeps the memory of this process, which has keys and values in it, out of a debugger and out of
 * core files. Children inherit what it says of core files; a signal handler they do not.
 */
export function harden(): void {
  // The default of Node would open a debugger port, with all keys behind it.
  process.on('SIGUSR1', () => {});
  preventCoreFiles();
}

/** Which memory a core file has, one bit a kind (core(5)). */
const CORE_FILTER = '/proc/self/coredump_filter';
const PRLIMIT_TIMEOUT_MS = 2_000;

/**
 * Two ways, because either can fail. The filter leaves memory out, but the kernel writes the
 * registers of all threads all the same, and halves of keys were found in those of copies. Node
 * cannot set the limit of its size, so the program of util-linux does. Elsewhere than on Linux, or
 * without both: docs/operating.md has what the supervisor can do.
 */
function preventCoreFiles(): void {
  if (process.platform !== 'linux') return;
  try {
    writeFileSync(CORE_FILTER, '0');
  } catch {
    // Not allowed here.
  }
  spawnSync('prlimit', ['--core=0', '--pid', String(process.pid)], {
    stdio: 'ignore',
    timeout: PRLIMIT_TIMEOUT_MS,
  });
}
