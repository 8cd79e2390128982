import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import pg from 'pg';
import { freePort, handOver, owner } from './processes.ts';

/** The path of PgBouncer; undefined: not installed. */
export const pgbouncerProgram = [
  '/usr/sbin/pgbouncer',
  '/usr/bin/pgbouncer',
  '/usr/local/bin/pgbouncer',
  '/opt/homebrew/bin/pgbouncer',
].find((path) => existsSync(path));

const START_TIMEOUT_MS = 30_000;

/**
 * The test's own PgBouncer before a PostgreSQL server, in transaction mode: statements of a client
 * use any free server connection. A service has more connections than PgBouncer, so it shares them.
 */
export class PgBouncer {
  readonly port: number;
  readonly logFile: string;
  readonly #folder: string;
  #child: ChildProcess | undefined;

  private constructor(folder: string, port: number) {
    this.#folder = folder;
    this.logFile = join(folder, 'pgbouncer.log');
    this.port = port;
  }

  /**
   * @param serverPort port of the server on the loopback address
   * @param settings lines of pgbouncer.ini, by name
   */
  static async start(
    serverPort: number,
    settings: Record<string, string | number> = {},
  ): Promise<PgBouncer> {
    const folder = mkdtempSync(join(tmpdir(), 'standin-bouncer-'));
    const bouncer = new PgBouncer(folder, await freePort());
    const usersFile = join(folder, 'users.txt');
    writeFileSync(usersFile, '"postgres" ""\n');
    const lines = {
      listen_addr: '127.0.0.1',
      listen_port: bouncer.port,
      unix_socket_dir: '',
      auth_type: 'trust',
      auth_file: usersFile,
      // Looks up users that are not in the file, such as users that tests make.
      auth_user: 'postgres',
      admin_users: 'postgres',
      logfile: bouncer.logFile,
      pool_mode: 'transaction',
      default_pool_size: 4,
      max_client_conn: 2_000,
      // A test run has many databases, so close the connections of each one soon.
      server_idle_timeout: 5,
      // The default of 15 s is long for a test that kills the server.
      server_login_retry: 1,
      ...settings,
    };
    const text = Object.entries(lines).map(([name, value]) => `${name} = ${value}\n`);
    writeFileSync(
      join(folder, 'pgbouncer.ini'),
      `[databases]\n* = host=127.0.0.1 port=${serverPort}\n[pgbouncer]\n${text.join('')}`,
    );
    handOver(folder);
    await bouncer.startAgain();
    return bouncer;
  }

  url(database: string): string {
    return `postgres://postgres@127.0.0.1:${this.port}/${database}`;
  }

  /** Starts the program, also after `kill`. Resolves when it answers. */
  async startAgain(): Promise<void> {
    const child = spawn(pgbouncerProgram!, [join(this.#folder, 'pgbouncer.ini')], {
      stdio: 'ignore',
      cwd: '/',
      ...owner,
    });
    this.#child = child;
    const giveUpMs = performance.now() + START_TIMEOUT_MS;
    for (;;) {
      try {
        await this.command('show version');
        return;
      } catch (error) {
        if (child.exitCode !== null || performance.now() > giveUpMs) throw error;
      }
      await new Promise((resolve) => setTimeout(resolve, 20));
    }
  }

  /** Runs a command on the console of PgBouncer: RECONNECT, SHOW POOLS. */
  async command(text: string): Promise<Record<string, unknown>[]> {
    const client = new pg.Client({ connectionString: this.url('pgbouncer') });
    await client.connect();
    try {
      return (await client.query(text)).rows;
    } finally {
      await client.end();
    }
  }

  /** Kills the process with SIGKILL. Resolves when the process has ended. */
  async kill(): Promise<void> {
    const child = this.#child!;
    if (child.exitCode !== null || child.signalCode !== null) return;
    const gone = once(child, 'exit');
    child.kill('SIGKILL');
    await gone;
  }

  stop(): void {
    this.#child?.kill('SIGKILL');
    rmSync(this.#folder, { recursive: true, force: true });
  }
}
