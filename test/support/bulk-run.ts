import type { ChildProcess } from 'node:child_process';
import { existsSync, readdirSync, statSync } from 'node:fs';
import { afterAll, beforeAll, expect } from 'vitest';
import { commandsOf } from './command.ts';
import {
  type Ended,
  endOf,
  type Place,
  type Service,
  spawnCli,
  startService,
  until,
  usualPlace,
} from './service.ts';

/** Runs `standin tokenize` and `detokenize` in a folder, which has no vault for them. */
export class BulkRuns {
  /** The standard error of all runs. */
  stderr = '';
  place!: Place;
  service!: Service;
  readonly #at = commandsOf(
    () => ({ ...this.place, env: this.env() }),
    (ended) => this.#note(ended),
  );
  readonly run = this.#at.run;
  readonly ok = this.#at.ok;
  readonly failure = this.#at.failure;
  readonly path = this.#at.path;
  readonly read = this.#at.read;
  readonly write = this.#at.write;

  async begin(start: () => Promise<Service>): Promise<void> {
    this.service = await start();
    this.place = this.service.place;
  }

  /** The service that the commands call. */
  env(): Record<string, string> {
    return { STANDIN_URL: this.service.url, STANDIN_API_KEY: this.service.api_key };
  }

  exists(name: string): boolean {
    return existsSync(this.path(name));
  }

  /** The files whose names begin so. */
  left(name: string): string[] {
    return readdirSync(this.place.folder).filter((file) => file.startsWith(name));
  }

  /** Starts a command in a process of its own. */
  start(command: string, env: Record<string, string> = {}): ChildProcess {
    return spawnCli(command.split(' '), this.#at.place, env, 'pipe');
  }

  /** Runs a command with this standard input. */
  async feed(command: string, input: string | Buffer): Promise<Ended> {
    const child = this.start(command);
    child.stdin!.on('error', () => {}).end(input);
    return this.end(child);
  }

  async end(child: ChildProcess): Promise<Ended> {
    return this.#note(await endOf(child));
  }

  /** Starts a run, and sends a signal when its file has this length. */
  async cutOff(
    command: string,
    [name, bytes]: readonly [string, number],
    signal: NodeJS.Signals = 'SIGKILL',
    env: Record<string, string> = {},
  ): Promise<Ended> {
    const child = this.start(command, env);
    const ended = this.end(child);
    await this.untilLength(child, name, bytes);
    child.kill(signal);
    return ended;
  }

  /** Resolves when the file has this length, or the process has ended. */
  async untilLength(child: ChildProcess, name: string, bytes: number): Promise<void> {
    await until(
      () =>
        child.exitCode !== null || (this.exists(name) && statSync(this.path(name)).size >= bytes),
      `${name} has ${bytes} bytes`,
    );
  }

  #note(ended: Ended): Ended {
    this.stderr += ended.stderr;
    return ended;
  }
}

/** Runs against one service for all tests of a block. */
export function bulkRuns(start = async () => startService(await usualPlace())): BulkRuns {
  const runs = new BulkRuns();
  beforeAll(() => runs.begin(start));
  afterAll(async () => {
    await runs.service.stop();
    runs.place.remove();
    expect(runs.stderr).not.toContain(runs.service.api_key);
  });
  return runs;
}

/** A CSV of three columns, with `email` and `name` to tokenize. Each seed gives new values. */
export function csvOf(rows: number, seed: string): string {
  const lines = ['id,email,name'];
  for (let i = 1; i <= rows; i++)
    lines.push(`${i},user${i}.${seed}@example.org,"Doe ""${seed}"", ${i}"`);
  return `${lines.join('\r\n')}\r\n`;
}
