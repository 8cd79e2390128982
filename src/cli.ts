#!/usr/bin/env node
import { spawnSync } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { CommanderError } from 'commander';
import { buildProgram } from './commands/program.ts';
import { errorCode, InternalError, operatorError } from './errors.ts';
import { shownLines } from './terminal.ts';

/**
 * The command line. Exit codes: 0 done, 1 a problem that is named on standard error, 2 wrong usage.
 */
const FAILED = 1;
const WRONG_USAGE = 2;

/** What went wrong, for the operator: our own words, or the code of what failed. */
function explain(error: unknown): string {
  const explained = operatorError(error);
  if (explained !== undefined) return explained.message;
  const code = errorCode(error) ?? errorCode((error as Error).cause);
  const detail = code === undefined ? '' : ` (${code})`;
  if (error instanceof InternalError) return `${error.message}${detail}. Run: standin doctor`;
  return `Unexpected failure${detail}: ${error instanceof Error ? error.message : String(error)}`;
}

async function main(): Promise<void> {
  harden();
  try {
    const program = await buildProgram(process.argv[2]);
    await program.parseAsync();
  } catch (error) {
    if (error instanceof CommanderError) process.exit(error.exitCode === 0 ? 0 : WRONG_USAGE);
    process.stderr.write(`standin: ${shownLines(explain(error))}\n`);
    process.exit(FAILED);
  }
}

/**
 * Keeps the memory of this process, which has keys and values in it, out of a debugger and out of
 * core files. Children inherit what it says of core files; a signal handler they do not.
 */
function harden(): void {
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

await main();
