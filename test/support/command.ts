import { chmodSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, beforeEach, expect } from 'vitest';
import { execute } from '../../src/commands/program.ts';
import { environmentOf } from './program.ts';
import { type Ended, type Place, runCli, usualPlace } from './service.ts';

/** Commands run one after the other: each has the environment and the streams of the process. */
let last: Promise<unknown> = Promise.resolve();

/**
 * Runs a command to its end in this process, which is much quicker than `runCli`. Not for tests of
 * signals, terminals and standard input, and not while another command of the test still runs.
 * `serve` is a process of its own also here.
 */
export function runCommand(
  args: readonly string[],
  place: Place,
  env: Record<string, string> = {},
): Promise<Ended> {
  if (place.cli !== undefined || args[0] === 'serve') return runCli(args, place, env);
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

/** Commands with single spaces between their words, or their words. */
type Words = string | readonly string[];

/**
 * What a test does in the folder of a place. Each command but `run` must end as it says.
 * @param at the place, which may be made only before the first command
 */
export function commandsOf(at: () => Place, onEnd: (ended: Ended) => unknown = () => {}) {
  type Env = Record<string, string>;
  const wordsOf = (command: Words) => (typeof command === 'string' ? command.split(' ') : command);
  const run = async (command: Words, env?: Env) => {
    const ended = await runCommand(wordsOf(command), at(), env);
    onEnd(ended);
    return ended;
  };
  /** The standard output of a command that ends well, without a word on standard error. */
  const text = async (command: Words, env?: Env) => {
    const { code, stdout, stderr } = await run(command, env);
    expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
    return stdout;
  };
  /** The standard output of a command that ends well. */
  const ok = async (command: Words, env?: Env) => {
    const { code, stdout, stderr } = await run(command, env);
    expect(code, stderr).toBe(0);
    return stdout;
  };
  const path = (name: string) => join(at().folder, name);
  return {
    get place() {
      return at();
    },
    ...{ run, ok, text, path },
    /** The one JSON document that a command with --json prints. */
    json: async (command: Words, env?: Env): Promise<any> => {
      const printed = await text([...wordsOf(command), '--json'], env);
      expect(printed).toMatch(/^\S.*\n$/);
      return JSON.parse(printed);
    },
    /** As `json`, of a command that also tells of its progress on standard error. */
    result: async (command: Words, env?: Env): Promise<any> =>
      JSON.parse(await ok([...wordsOf(command), '--json'], env)),
    /** The standard error of a command that fails and prints nothing else. */
    failure: async (command: Words, env?: Env, exitCode = 1) => {
      const { code, stdout, stderr } = await run(command, env);
      expect({ code, stdout }, stderr).toEqual({ code: exitCode, stdout: '' });
      return stderr;
    },
    read: (name: string) => readFileSync(path(name), 'utf8'),
    /** Writes a file of exactly this mode. @returns its path */
    write: (name: string, content: string | Buffer, mode = 0o600) => {
      writeFileSync(path(name), content);
      chmodSync(path(name), mode);
      return path(name);
    },
  };
}
export type Commands = ReturnType<typeof commandsOf>;

/** A place for all tests of a block, or a new one for each `test`. */
export function placeFor(
  scope: 'block' | 'test',
  make: () => Promise<Place> = usualPlace,
  prepare: (at: Commands) => Promise<unknown> = async () => {},
): Commands {
  let place: Place;
  const at = commandsOf(() => place);
  const [before, after] = scope === 'block' ? [beforeAll, afterAll] : [beforeEach, afterEach];
  before(async () => {
    place = await make();
    await prepare(at);
  });
  after(() => place.remove());
  return at;
}

/** Makes the vault of a place: for `placeFor`. */
export const withVault = ({ json }: Commands) => json('migrate');
