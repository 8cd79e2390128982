import { spawn } from 'node:child_process';
import { onTestFinished } from 'vitest';
import { isRunning } from './processes.ts';
import { endOf } from './program.ts';
import { until } from './service.ts';

export type Command = readonly [program: string, ...words: string[]];

export interface Surroundings {
  readonly cwd: string;
  readonly env: NodeJS.ProcessEnv;
  readonly uid?: number;
  readonly gid?: number;
}

export interface Running {
  /** Everything it wrote. */
  output(): string;
  /** What a group of the pattern matched, once the program wrote it. */
  wrote(pattern: RegExp): Promise<string>;
  /** Sends a signal to it and all that it started. @returns its exit code */
  stop(signal?: NodeJS.Signals): Promise<number | null>;
}

/** Starts a program, which ends with the test. */
export function start([program, ...words]: Command, where: Surroundings): Running {
  const child = spawn(program, words, {
    ...{ ...where, detached: true },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  const group = -child.pid!;
  let output = '';
  for (const stream of [child.stdout, child.stderr])
    stream.on('data', (chunk) => {
      output += chunk;
    });
  let isOver = false;
  const ended = new Promise<number | null>((resolve) => child.once('close', resolve));
  void ended.then(() => {
    isOver = true;
  });
  onTestFinished(() => {
    if (isRunning(group)) process.kill(group, 'SIGKILL');
  });
  return {
    output: () => output,
    wrote: async (pattern) => {
      await until(() => isOver || pattern.test(output), `${program} writes ${pattern}`, 60_000);
      const found = pattern.exec(output);
      if (found === null) throw new Error(`${program} ended:\n${output}`);
      return found[1] ?? '';
    },
    stop: (signal = 'SIGKILL') => {
      process.kill(group, signal);
      return ended;
    },
  };
}

/** Runs a program to its end. @returns its standard output. @throws unless it ends with 0 */
export async function run([program, ...words]: Command, where: Surroundings): Promise<string> {
  const child = spawn(program, words, { ...where, stdio: ['ignore', 'pipe', 'pipe'] });
  const { code, stdout, stderr } = await endOf(child);
  if (code !== 0) throw new Error(`${program} ended with ${code}:\n${stdout}\n${stderr}`);
  return stdout;
}
