import { spawnSync } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { CommanderError } from 'commander';
import { errorCode, InternalError, operatorError, PerhapsDone } from '../errors.ts';
import { shownLines } from '../terminal.ts';
import { buildProgram, wordsFor } from './program.ts';

/** Exit codes: 0 done, 1 a problem (named on standard error), 2 wrong usage. */
const FAILED = 1;
const WRONG_USAGE = 2;

/** The text for the operator: our own words, or the code of the failure. */
async function explain(error: unknown): Promise<string> {
  const { BulkError } = await import('#bulk');
  if (error instanceof BulkError) return `${error.message}.`;
  const explained = operatorError(error);
  if (explained !== undefined) return explained.message;
  const code = errorCode(error) ?? errorCode((error as Error).cause);
  const detail = code === undefined ? '' : ` (${code})`;
  if (error instanceof InternalError) return `${error.message}${detail}. Run: standin doctor`;
  return `Unexpected failure${detail}: ${error instanceof Error ? error.message : String(error)}`;
}

const PERHAPS_DONE = '. The change may have been made: run the command again.';

/** Runs the command that the arguments of the process name. */
export async function run(): Promise<void> {
  harden();
  const exitCode = await execute(process.argv.slice(2));
  if (exitCode !== undefined) process.exit(exitCode);
}

/** @returns the exit code, when the command is over; undefined: the process ends by itself */
export async function execute(args: readonly string[]): Promise<number | undefined> {
  try {
    const [first, ...rest] = args;
    // `help client create` means `client create --help`.
    const isHelp = first === 'help' && rest.length > 0;
    const words = isHelp ? [...rest, '--help'] : args;
    const program = await buildProgram(words[0]);
    await program.parseAsync(wordsFor(program, words), { from: 'user' });
    return undefined;
  } catch (error) {
    if (error instanceof CommanderError) return error.exitCode === 0 ? 0 : WRONG_USAGE;
    const again = error instanceof PerhapsDone ? PERHAPS_DONE : '';
    process.stderr.write(`standin: ${shownLines((await explain(error)) + again)}\n`);
    return FAILED;
  }
}

/**
 * Keeps debuggers and core files away from the memory of this process, which holds keys and values.
 * Children inherit the core file settings, but not the signal handler.
 */
function harden(): void {
  // Without a handler, Node would open a debugger port and expose all keys.
  process.on('SIGUSR1', () => {});
  preventCoreFiles();
}

/** Selects the kinds of memory in a core file, one bit each (core(5)). */
const CORE_FILTER = '/proc/self/coredump_filter';
const PRLIMIT_TIMEOUT_MS = 2_000;

/**
 * Two ways, because either can fail. The filter leaves memory out, but the kernel still writes the
 * registers of all threads, and tests found halves of keys there. So the size limit is set to 0
 * too; Node cannot do that, so prlimit of util-linux does. For other systems, see
 * docs/operating.md.
 */
function preventCoreFiles(): void {
  if (process.platform !== 'linux') return;
  try {
    writeFileSync(CORE_FILTER, '0');
  } catch {
    // Not permitted here: prlimit still helps.
  }
  spawnSync('prlimit', ['--core=0', '--pid', String(process.pid)], {
    stdio: 'ignore',
    timeout: PRLIMIT_TIMEOUT_MS,
  });
}
