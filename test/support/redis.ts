import { type ChildProcess, spawn } from 'node:child_process';
import { existsSync, mkdtempSync, rmSync } from 'node:fs';
import { connect } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { freePort } from './postgres.ts';

/** The path of redis-server or valkey-server; undefined: not installed. */
export const redisServer = ['/usr/bin', '/usr/local/bin', '/opt/homebrew/bin', '/snap/bin']
  .flatMap((folder) => [join(folder, 'redis-server'), join(folder, 'valkey-server')])
  .find((program) => existsSync(program));

/** The test's own Redis, in memory only, on a free port of the loopback address. */
export class RedisServer {
  readonly port: number;
  readonly #password: string | undefined;
  /** Settings of redis.conf, as arguments. */
  readonly #settings: readonly string[];
  readonly #folder = mkdtempSync(join(tmpdir(), 'standin-redis-'));
  #process!: ChildProcess;

  private constructor(port: number, password: string | undefined, settings: readonly string[]) {
    this.port = port;
    this.#password = password;
    this.#settings = settings;
  }

  /** @param settings more settings, as arguments */
  static async start(password?: string, settings: readonly string[] = []): Promise<RedisServer> {
    const server = new RedisServer(await freePort(), password, settings);
    await server.startAgain();
    return server;
  }

  get url(): string {
    const login = this.#password === undefined ? '' : `:${this.#password}@`;
    return `redis://${login}127.0.0.1:${this.port}`;
  }

  /** Starts an empty Redis on the same port. Resolves when Redis accepts connections. */
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

  /** Runs one inline command on a new connection. Resolves to the raw reply. */
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

  /** The clock of Redis, in microseconds. */
  async nowUs(): Promise<number> {
    const numbers = [...(await this.command('TIME')).matchAll(/^\d+/gm)].map(Number);
    return numbers[0]! * 1e6 + numbers[1]!;
  }

  /** Stops Redis with SIGSTOP: connections stay open, but get no answers. */
  freeze(): void {
    this.#process.kill('SIGSTOP');
  }

  thaw(): void {
    this.#process.kill('SIGCONT');
  }

  /** Kills Redis with SIGKILL. Resolves when the process has ended. */
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
