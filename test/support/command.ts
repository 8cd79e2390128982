import { expect } from 'vitest';
import { execute } from '../../src/commands/run.ts';
import { type Ended, environmentOf, type Place, runCli } from './program.ts';

/** Commands run one after the other: each has the environment and the streams of the process. */
let last: Promise<unknown> = Promise.resolve();

/**
 * Runs a command to its end in this process, which is much quicker than `runCli`. Not for tests of
 * signals, terminals and standard input, and not while another command of the test still runs.
 */
export function runCommand(
  args: readonly string[],
  place: Place,
  env: Record<string, string> = {},
): Promise<Ended> {
  if (place.cli !== undefined) return runCli(args, place, env);
  const ended = last.then(() => inProcess(args, place.folder, environmentOf(place, env)));
  last = ended.catch(() => {});
  return ended;
}

async function inProcess(args: readonly string[], cwd: string, env: NodeJS.ProcessEnv) {
  const before = { cwd: process.cwd(), env: process.env, exitCode: process.exitCode };
  const exits = process.listeners('exit');
  const stdout = captured(process.stdout);
  const stderr = captured(process.stderr);
  try {
    process.chdir(cwd);
    process.env = env;
    process.exitCode = undefined;
    const code = (await execute(args)) ?? process.exitCode ?? 0;
    return { code, stdout: stdout.text(), stderr: stderr.text() };
  } finally {
    stdout.end();
    stderr.end();
    // What the command leaves to the end of its process.
    for (const exit of process.listeners('exit').filter((one) => !exits.includes(one))) {
      process.off('exit', exit);
      exit.call(process, 0);
    }
    process.chdir(before.cwd);
    process.env = before.env;
    process.exitCode = before.exitCode;
  }
}

/** Takes what is written to a stream from here to `end`. */
function captured(stream: NodeJS.WriteStream) {
  const { write } = stream;
  let text = '';
  stream.write = (chunk: string | Uint8Array, ...rest: unknown[]) => {
    text += Buffer.from(chunk as string).toString();
    const done = rest.find((one) => typeof one === 'function');
    if (done !== undefined) process.nextTick(done);
    return true;
  };
  const end = () => {
    stream.write = write;
  };
  return { text: () => text, end };
}

/** Runs commands of one place. Each method but `run` expects how the command ends. */
export interface Commands {
  /** @param command words with single spaces between them, or the words */
  run(command: string | readonly string[], env?: Record<string, string>): Promise<Ended>;
  /** The standard output of a command that ends well, without a word on standard error. */
  text(command: string | readonly string[]): Promise<string>;
  /** The one JSON document that a command with --json prints. */
  json(command: string | readonly string[]): Promise<any>;
  /** The standard error of a command that fails with exit code 1 and prints nothing else. */
  failure(command: string | readonly string[]): Promise<string>;
}

/** @param place the place, which may be made only before the first command */
export function commandsOf(place: () => Place): Commands {
  const wordsOf = (command: string | readonly string[]) =>
    typeof command === 'string' ? command.split(' ') : command;
  const run: Commands['run'] = (command, env) => runCommand(wordsOf(command), place(), env);
  const text: Commands['text'] = async (command) => {
    const { code, stdout, stderr } = await run(command);
    expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
    return stdout;
  };
  const json: Commands['json'] = async (command) => {
    const printed = await text([...wordsOf(command), '--json']);
    expect(printed).toMatch(/^\S.*\n$/);
    return JSON.parse(printed);
  };
  const failure: Commands['failure'] = async (command) => {
    const { code, stdout, stderr } = await run(command);
    expect({ code, stdout }, stderr).toEqual({ code: 1, stdout: '' });
    return stderr;
  };
  return { run, text, json, failure };
}
