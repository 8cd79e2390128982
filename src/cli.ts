#!/usr/bin/env node
import { CommanderError } from 'commander';
import { buildProgram } from './commands/program.ts';
import { errorCode, InternalError, operatorError } from './errors.ts';
import { harden } from './hardening.ts';
import { shownLines } from './terminal.ts';

/**
 * The command line. Exit codes: 0 done, 1 a problem that is named on standard error, 2 wrong usage.
 */
const FAILED = 1;
const WRONG_USAGE = 2;

/** What went wrong, for the operator: our own words, or the code of what failed. */
function explain(error: unknown): string {
  const operator_error = operatorError(error);
  if (operator_error !== undefined) return operator_error.message;
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

await main();
