import { chmodSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, beforeEach, expect } from 'vitest';
import { runCommand } from './in-process.ts';
import { type Ended, endOf, type Place, spawnCli, until, usualPlace } from './service.ts';

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
  /** The standard error of a command that fails and prints nothing else. */
  const failure = async (command: Words, env?: Env, exitCode = 1) => {
    const { code, stdout, stderr } = await run(command, env);
    expect({ code, stdout }, stderr).toEqual({ code: exitCode, stdout: '' });
    return stderr;
  };
  const path = (name: string) => join(at().folder, name);
  /** Starts a command in a process of its own: for signals and standard input. */
  const begin = (command: Words, env?: Env) => {
    const child = spawnCli(wordsOf(command), at(), env, 'pipe');
    // It may end without reading.
    child.stdin!.on('error', () => {});
    const ended = endOf(child).then((end) => {
      onEnd(end);
      return end;
    });
    return { child, ended };
  };
  return {
    get place() {
      return at();
    },
    ...{ run, ok, text, failure, path, begin },
    /** Runs a command with this standard input. */
    feed: (command: Words, input: string | Buffer) => {
      const { child, ended } = begin(command);
      child.stdin!.end(input);
      return ended;
    },
    /** Starts a command, and sends a signal as soon as the condition holds. */
    interrupted: async (
      command: Words,
      hasBegun: (stderr: string) => boolean | Promise<boolean>,
      signal: NodeJS.Signals = 'SIGINT',
      env?: Env,
    ) => {
      const { child, ended } = begin(command, env);
      let stderr = '';
      child.stderr!.on('data', (chunk) => {
        stderr += chunk;
      });
      const isTime = async () => child.exitCode !== null || (await hasBegun(stderr));
      await until(isTime, 'the command has begun');
      child.kill(signal);
      return ended;
    },
    /** The one JSON document that a command with --json prints. */
    json: async (command: Words, env?: Env): Promise<any> => {
      const printed = await text([...wordsOf(command), '--json'], env);
      expect(printed).toMatch(/^\S.*\n$/);
      return JSON.parse(printed);
    },
    /** As `json`, of a command that also tells of its progress on standard error. */
    result: async (command: Words, env?: Env): Promise<any> =>
      JSON.parse(await ok([...wordsOf(command), '--json'], env)),
    /** The standard error of a start that ends before it listens. */
    noStart: (env?: Env) => failure('serve', { PORT: '0', OPS_PORT: '0', ...env }),
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
