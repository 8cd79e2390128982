import { existsSync, readdirSync, statSync } from 'node:fs';
import { afterAll, expect } from 'vitest';
import { commandsOf } from './command.ts';
import { served } from './served.ts';
import { startService, until, usualPlace } from './service.ts';

/**
 * Runs `standin tokenize` and `detokenize` against one service for all tests of a block, in a folder
 * that has no vault for them.
 */
export function bulkRuns(start = async () => startService(await usualPlace())) {
  const service = served(start);
  let stderr = '';
  afterAll(() => expect(stderr).not.toContain(service.api_key));
  /** With the service that the commands call. */
  const place = () => ({
    ...service.place,
    env: { STANDIN_URL: service.url, STANDIN_API_KEY: service.api_key },
  });
  const { begin, feed, interrupted, run, ok, failure, path, read, write } = commandsOf(
    place,
    (ended) => {
      stderr += ended.stderr;
    },
  );
  const exists = (name: string) => existsSync(path(name));
  const hasLength = (name: string, bytes: number) =>
    exists(name) && statSync(path(name)).size >= bytes;
  return {
    ...{ service, exists, begin, feed, run, ok, failure, path, read, write },
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
    /** Resolves when the file has this length. */
    untilLength: (name: string, bytes: number) =>
      until(() => hasLength(name, bytes), `${name} has ${bytes} bytes`),
    /** Starts a run, and sends a signal when its file has this length. */
    cutOff: (
      command: string,
      [name, bytes]: readonly [string, number],
      signal: NodeJS.Signals = 'SIGKILL',
    ) => interrupted(command, () => hasLength(name, bytes), signal),
  };
}

/** A CSV of three columns, with `email` and `name` to tokenize. Each seed gives new values. */
export function csvOf(rows: number, seed: string): string {
  const lines = ['id,email,name'];
  for (let i = 1; i <= rows; i++)
    lines.push(`${i},user${i}.${seed}@example.org,"Doe ""${seed}"", ${i}"`);
  return `${lines.join('\r\n')}\r\n`;
}
