import type { ChildProcess } from 'node:child_process';
import { existsSync, readdirSync, statSync } from 'node:fs';
import { afterAll, expect } from 'vitest';
import { commandsOf } from './command.ts';
import { served } from './served.ts';
import { type Ended, endOf, spawnCli, startService, until, usualPlace } from './service.ts';

/**
 * Runs `standin tokenize` and `detokenize` against one service for all tests of a block, in a folder
 * that has no vault for them.
 */
export function bulkRuns(start = async () => startService(await usualPlace())) {
  const service = served(start);
  let stderr = '';
  const note = (ended: Ended) => {
    stderr += ended.stderr;
    return ended;
  };
  afterAll(() => expect(stderr).not.toContain(service.api_key));
  /** With the service that the commands call. */
  const place = () => ({
    ...service.place,
    env: { STANDIN_URL: service.url, STANDIN_API_KEY: service.api_key },
  });
  const at = commandsOf(place, note);
  const exists = (name: string) => existsSync(at.path(name));
  /** Starts a command in a process of its own. */
  const begin = (command: string, more: Record<string, string> = {}) =>
    spawnCli(command.split(' '), place(), more, 'pipe');
  const end = async (child: ChildProcess) => note(await endOf(child));
  /** Resolves when the file has this length, or the process has ended. */
  const untilLength = (child: ChildProcess, name: string, bytes: number) =>
    until(
      () => child.exitCode !== null || (exists(name) && statSync(at.path(name)).size >= bytes),
      `${name} has ${bytes} bytes`,
    );
  return {
    ...{ service, exists, end, untilLength, start: begin },
    ...{ run: at.run, ok: at.ok, failure: at.failure },
    ...{ path: at.path, read: at.read, write: at.write },
    get place() {
      return service.place;
    },
    /** The standard error of all runs. */
    get stderr() {
      return stderr;
    },
    /** The files whose names begin so. */
    left: (name: string) =>
      readdirSync(service.place.folder).filter((file) => file.startsWith(name)),
    /** Runs a command with this standard input. */
    feed(command: string, input: string | Buffer): Promise<Ended> {
      const child = begin(command);
      child.stdin!.on('error', () => {}).end(input);
      return end(child);
    },
    /** Starts a run, and sends a signal when its file has this length. */
    async cutOff(
      command: string,
      [name, bytes]: readonly [string, number],
      signal: NodeJS.Signals = 'SIGKILL',
    ): Promise<Ended> {
      const child = begin(command);
      const ended = end(child);
      await untilLength(child, name, bytes);
      child.kill(signal);
      return ended;
    },
  };
}

/** A CSV of three columns, with `email` and `name` to tokenize. Each seed gives new values. */
export function csvOf(rows: number, seed: string): string {
  const lines = ['id,email,name'];
  for (let i = 1; i <= rows; i++)
    lines.push(`${i},user${i}.${seed}@example.org,"Doe ""${seed}"", ${i}"`);
  return `${lines.join('\r\n')}\r\n`;
}
