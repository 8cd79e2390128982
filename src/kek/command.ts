import { spawn } from 'node:child_process';
import { OperatorError } from '../errors.ts';
import { KEK_TIMEOUTS, type KekSource, parseKek } from './source.ts';

/** Far more than 64 hex digits and white space. */
const MAX_OUTPUT_BYTES = 4_096;
const BY_HAND = 'Run the command yourself, as the user of the service, to see why.';

/**
 * @param commandLine run by `sh`; never shown, because it may contain a password
 * @param environment of the command; undefined: that of this process
 */
export function kekCommand(
  commandLine: string,
  environment?: NodeJS.Dict<string>,
  timeoutMs = KEK_TIMEOUTS.totalMs,
): KekSource {
  const read = async () => {
    const output = await outputOf(commandLine, environment, timeoutMs);
    const kek = parseKek(output);
    if (kek !== undefined) return kek;
    throw new OperatorError(
      `KEK_COMMAND must print 32 bytes, or 64 hex digits; it printed ${output.length} bytes. ${BY_HAND}`,
    );
  };
  return { place: 'the output of KEK_COMMAND', setting: 'KEK_COMMAND', read };
}

function outputOf(
  commandLine: string,
  env: NodeJS.Dict<string> | undefined,
  timeoutMs: number,
): Promise<Buffer> {
  return new Promise((resolve, reject) => {
    // A process group of its own, so that everything the shell starts ends with it. Standard error
    // is dropped, because it may contain secrets.
    const child = spawn('/bin/sh', ['-c', commandLine], {
      stdio: ['ignore', 'pipe', 'ignore'],
      detached: true,
      env,
    });
    const chunks: Buffer[] = [];
    let outputBytes = 0;
    const fail = (problem: string) => reject(new OperatorError(`KEK_COMMAND ${problem}`));
    const stop = (problem: string) => {
      fail(problem);
      end(child.pid);
      // A process that left the group may keep the pipe open.
      child.stdout.destroy();
    };
    const isLate = `did not end within ${timeoutMs / 1_000} s. ${BY_HAND}`;
    const late = setTimeout(stop, timeoutMs, isLate);
    child.stdout.on('data', (chunk: Buffer) => {
      chunks.push(chunk);
      outputBytes += chunk.length;
      if (outputBytes <= MAX_OUTPUT_BYTES) return;
      stop(`printed more than ${MAX_OUTPUT_BYTES} bytes. It must print the key and nothing else.`);
    });
    child.on('error', ({ code }: NodeJS.ErrnoException) => {
      clearTimeout(late);
      fail(`cannot be run: /bin/sh does not start (${code}).`);
    });
    child.on('close', (code, signal) => {
      clearTimeout(late);
      if (code === 0) resolve(Buffer.concat(chunks));
      else fail(`ended with ${signal ?? `exit code ${code}`}. ${BY_HAND}`);
    });
  });
}

function end(pid: number | undefined): void {
  try {
    if (pid !== undefined) process.kill(-pid, 'SIGKILL');
  } catch {
    // The process has already ended.
  }
}
