import { chmodSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, beforeEach, expect } from 'vitest';
import { runCommand } from './in-process.ts';
import { type Ended, type Place, usualPlace } from './service.ts';

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
