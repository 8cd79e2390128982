import { type ChildProcess, spawn } from 'node:child_process';
import { existsSync, mkdtempSync, rmSync } from 'node:fs';
import { connect } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { freePort } from './postgres.ts';

/** redis-server or valkey-server, or undefined on a machine without one. */
export const redisServer = ['/usr/bin', '/usr/local/bin', '/opt/homebrew/bin', '/snap/bin']
  .flatMap((folder) => [join(folder, 'redis-server'), join(folder, 'valkey-server')])
  .find((program) => existsSync(program));

/** A Redis of the test's own, in memory only, on a free port of the loopback address. */
export class RedisServer {
  readonly port: number;
  readonly #password: string | undefined;
  /** Lines of redis.conf on the command line. */
  readonly #settings: readonly string[];
  readonly #folder = mkdtempSync(join(tmpdir(), 'standin-redis-'));
  #process!: ChildProcess;

  private constructor(port: number, password: string | undefined, settings: readonly string[]) {
    this.port = port;
    this.#password = password;
    this.#settings = settings;
  }

  /** @param settings more of them, as on the command line */
  static async start(password?: string, settings: readonly string[] = []): Promise<RedisServer> {
    const server = new RedisServer(await freePort(), password, settings);
    await server.startAgain();
    return server;
  }

  get url(): string {
    const login = this.#password === undefined ? '' : `:${this.#password}@`;
    return `redis://${login}127.0.0.1:${this.port}`;
  }

  /** Starts it, empty, on the same port; resolves when it takes connections. */
  async startAgain(): Promise<void> {
    const password = this.#password === undefined ? [] : ['--requirepass', this.#password];
    const place = ['--port', String(this.port), '--bind', '127.0.0.1', '--dir', this.#folder];
    const child = spawn(redisServer!, [...place, '--save', '', ...password, ...this.#settings]);
    this.#process = child;
    let output = '';
    await new Promise<void>((resolve, reject) => {
      child.stdout!.on('data', (chunk) => {
        output += chunk;
        if (/ready to accept connections/i.test(output)) resolve();
      });
      child.once('exit', () => reject(new Error(`redis-server ended:\n${output}`)));
    });
  }

  /** Runs one command in the inline form, on a connection of its own; resolves to the raw reply. */
  command(line: string): Promise<string> {
    const login = this.#password === undefined ? '' : `AUTH ${this.#password}\r\n`;
    return new Promise((resolve, reject) => {
      const socket = connect(this.port, '127.0.0.1');
      let reply = '';
      socket.on('data', (chunk) => {
        reply += chunk;
      });
      socket.once('error', reject);
      socket.once('end', () => resolve(reply.replace(/\+OK\r\n$/, '').trim()));
      socket.write(`${login}${line}\r\nQUIT\r\n`);
    });
  }

  /** Its clock, in microseconds. */
  async nowUs(): Promise<number> {
    const numbers = [...(await this.command('TIME')).matchAll(/^\d+/gm)].map(Number);
    return numbers[0]! * 1e6 + numbers[1]!;
  }

  /** SIGSTOP: it keeps its connections and answers nothing. */
  freeze(): void {
    this.#process.kill('SIGSTOP');
  }

  thaw(): void {
    this.#process.kill('SIGCONT');
  }

  /** kill -9; resolves when it is gone. */
  async crash(): Promise<void> {
    if (this.#process.exitCode !== null || this.#process.signalCode !== null) return;
    const gone = new Promise((resolve) => this.#process.once('exit', resolve));
    this.#process.kill('SIGKILL');
    await gone;
  }

  async stop(): Promise<void> {
    await this.crash();
    rmSync(this.#folder, { recursive: true, force: true });
  }
}
