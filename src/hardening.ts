import { writeFileSync } from 'node:fs';

/**
 * Keeps the memory of this process, which has keys and values in it, out of a debugger and out of
 * core files. Children inherit what it says of core files; a signal handler they do not.
 */
export function harden(): void {
  // The default of Node would open a debugger port, with all keys behind it.
  process.on('SIGUSR1', () => {});
  emptyCoreFiles();
}

/** Which memory a core file has, one bit a kind (core(5)). A limit of its size Node cannot set. */
const CORE_FILTER = '/proc/self/coredump_filter';

function emptyCoreFiles(): void {
  try {
    writeFileSync(CORE_FILTER, '0');
  } catch {
    // Not Linux, or not allowed: docs/operating.md has what the supervisor can do.
  }
}
