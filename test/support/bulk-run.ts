import type { ChildProcess } from 'node:child_process';
import { existsSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { type Ended, endOf, type Place, type Service, spawnCli, until } from './service.ts';

/** Runs `standin tokenize` and `detokenize` in a folder without a vault. */
export class BulkRuns {
  readonly folder: string;
  /** The standard error of all runs. */
  stderr = '';
  readonly #place: Place;
  env: Record<string, string>;

  constructor(place: Place, service: Service) {
    this.folder = place.folder;
    this.#place = { ...place, env: {} };
    this.env = { STANDIN_URL: service.url, STANDIN_API_KEY: service.api_key };
  }

  path(name: string): string {
    return join(this.folder, name);
  }

  write(name: string, content: string | Buffer): void {
    writeFileSync(this.path(name), content);
  }

  read(name: string): string {
    return readFileSync(this.path(name), 'utf8');
  }

  exists(name: string): boolean {
    return existsSync(this.path(name));
  }

  /** @param command words with single spaces between them; no argument may contain a space */
  start(command: string, env: Record<string, string> = {}): ChildProcess {
    return spawnCli(command.split(' '), this.#place, { ...this.env, ...env }, 'pipe');
  }

  async run(command: string, input?: string | Buffer): Promise<Ended> {
    const child = this.start(command);
    child.stdin!.on('error', () => {});
    child.stdin!.end(input);
    return this.end(child);
  }

  async end(child: ChildProcess): Promise<Ended> {
    const ended = await endOf(child);
    this.stderr += ended.stderr;
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
}

/** A CSV of three columns, with `email` and `name` to tokenize. Each seed gives new values. */
export function csvOf(rows: number, seed: string): string {
  const lines = ['id,email,name'];
  for (let i = 1; i <= rows; i++)
    lines.push(`${i},user${i}.${seed}@example.org,"Doe ""${seed}"", ${i}"`);
  return `${lines.join('\r\n')}\r\n`;
}
