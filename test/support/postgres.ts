import { execFile, execFileSync } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import {
  appendFileSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import pg from 'pg';
import { PgBouncer } from './pgbouncer.ts';
import { childrenOf, freePort, handOver, isRunning, owner } from './processes.ts';

export { freePort };

/**
 * Folder of initdb and postgres, or undefined on a machine without a PostgreSQL server.
 * TEST_POSTGRES_BIN names the folder of another version, perhaps without pg_dump and the like.
 */
export const postgresBin = process.env.TEST_POSTGRES_BIN ?? findBinaries();

function findBinaries(): string | undefined {
  const debian = '/usr/lib/postgresql';
  const versions = existsSync(debian)
    ? readdirSync(debian).sort((a, b) => Number(b) - Number(a))
    : [];
  const folders = [
    ...versions.map((version) => join(debian, version, 'bin')),
    '/usr/local/bin',
    '/usr/bin',
    '/opt/homebrew/bin',
  ];
  return folders.find((folder) =>
    ['initdb', 'postgres', 'pg_ctl', 'pg_dump'].every((name) => existsSync(join(folder, name))),
  );
}

/** With TEST_PGBOUNCER=1, every cluster has a PgBouncer, and tests connect through PgBouncer. */
const isBounced = process.env.TEST_PGBOUNCER === '1';

/** The test's own PostgreSQL server, in a temporary folder, on a free port of the loopback address. */
export class PostgresCluster {
  readonly folder: string;
  readonly dataDir: string;
  readonly logFile: string;
  readonly port: number;
  #bouncer: PgBouncer | undefined;

  private constructor(folder: string, port: number) {
    this.folder = folder;
    this.dataDir = join(folder, 'data');
    this.logFile = join(folder, 'postgres.log');
    this.port = port;
  }

  /**
   * @param settings lines of postgresql.conf, by name
   * @param parent folder of the server's folder
   */
  static async start(
    settings: Record<string, string> = {},
    parent = tmpdir(),
  ): Promise<PostgresCluster> {
    const cluster = await PostgresCluster.#prepare(parent);
    const how = '-U postgres -A trust -E UTF8 --no-sync --locale=C'.split(' ');
    run('initdb', ['-D', cluster.dataDir, ...how]);
    cluster.#configure({ listen_addresses: "'127.0.0.1'", ...settings });
    cluster.startAgain();
    return cluster;
  }

  /** A server on the data that `fill` puts into the folder, such as a backup. */
  static async startOn(fill: (dataDir: string) => void): Promise<PostgresCluster> {
    const cluster = await PostgresCluster.#prepare();
    mkdirSync(cluster.dataDir, { mode: 0o700 });
    handOver(cluster.dataDir);
    fill(cluster.dataDir);
    cluster.#configure({});
    cluster.startAgain();
    return cluster;
  }

  /**
   * Adds a synchronous standby. From then on, every commit waits for the standby.
   * @param url address of this server for the standby
   */
  async startStandby(url = this.directUrl('postgres')): Promise<PostgresCluster> {
    const standby = await PostgresCluster.#prepare();
    // Must not block, because the connection may go through a proxy in this process.
    await promisify(execFile)(
      join(postgresBin!, 'pg_basebackup'),
      ['-D', standby.dataDir, '-d', url, '-R', '-c', 'fast', '--no-sync'],
      { cwd: '/', env: { ...process.env, HOME: tmpdir() }, ...owner },
    );
    standby.#configure({});
    standby.startAgain();
    // Set after the copy, because a promoted standby must not wait for a standby.
    await this.alterSystem("set synchronous_standby_names = '*'");
    const state = "select 1 from pg_stat_replication where sync_state = 'sync'";
    const giveUpMs = performance.now() + 60_000;
    while ((await query(this.directUrl('postgres'), state)).length === 0) {
      if (performance.now() > giveUpMs) throw new Error('the standby does not stream');
      await new Promise((resolve) => setTimeout(resolve, 20));
    }
    return standby;
  }

  /** Changes the configuration of the running server, and has it read. */
  async alterSystem(text: string): Promise<void> {
    await this.administer(`alter system ${text}`);
    await this.administer('select pg_reload_conf()');
  }

  /** Runs a statement as an administrator, in no vault. */
  administer(text: string, values?: unknown[]): Promise<Record<string, any>[]> {
    return query(this.directUrl('postgres'), text, values);
  }

  /** Promotes a standby. Resolves when the server accepts writes. */
  promote(): void {
    run('pg_ctl', ['-D', this.dataDir, '-w', '-t', '60', 'promote']);
  }

  /** Restarts the server as a standby without a primary. */
  demote(): void {
    run('pg_ctl', ['-D', this.dataDir, '-m', 'fast', '-w', 'stop']);
    writeFileSync(join(this.dataDir, 'standby.signal'), '');
    this.startAgain();
  }

  static async #prepare(parent = tmpdir()): Promise<PostgresCluster> {
    const folder = mkdtempSync(join(parent, 'standin-pg-'));
    handOver(folder);
    const cluster = new PostgresCluster(folder, await freePort());
    if (isBounced) cluster.#bouncer = await PgBouncer.start(cluster.port);
    return cluster;
  }

  #configure(settings: Record<string, string>): void {
    const lines = {
      port: String(this.port),
      unix_socket_directories: `'${this.folder}'`,
      ...settings,
    };
    appendFileSync(
      join(this.dataDir, 'postgresql.conf'),
      Object.entries(lines)
        .map(([name, value]) => `${name} = ${value}\n`)
        .join(''),
    );
  }

  /** The URL for tests and the service. */
  url(database: string): string {
    return this.#bouncer?.url(database) ?? this.directUrl(database);
  }

  /** The URL without PgBouncer, for programs that need a session, such as pg_dump. */
  directUrl(database: string): string {
    return `postgres://postgres@127.0.0.1:${this.port}/${database}`;
  }

  /** A new, empty database. */
  async createDatabase(): Promise<string> {
    return createDatabase(this.url('postgres'));
  }

  /** Starts the server again on its data. Resolves when the server accepts connections. */
  startAgain(): void {
    run('pg_ctl', ['-D', this.dataDir, '-l', this.logFile, '-w', '-t', '60', 'start']);
  }

  get postmasterPid(): number {
    return Number(readFileSync(join(this.dataDir, 'postmaster.pid'), 'utf8').split('\n')[0]);
  }

  /** Kills the postmaster with SIGKILL. Resolves when all backends have ended. */
  async crash(): Promise<void> {
    const pid = this.postmasterPid;
    const backends = childrenOf(pid);
    process.kill(pid, 'SIGKILL');
    for (const backend of [pid, ...backends]) {
      while (isRunning(backend)) await new Promise((resolve) => setTimeout(resolve, 10));
    }
  }

  stop(): void {
    this.#bouncer?.stop();
    try {
      run('pg_ctl', ['-D', this.dataDir, '-m', 'immediate', '-w', 'stop']);
    } catch {
      // The server was not running.
    }
    rmSync(this.folder, { recursive: true, force: true });
  }
}

/** Runs a PostgreSQL program as a user that is not root. */
export function run(program: string, args: readonly string[]): string {
  return execFileSync(join(postgresBin!, program), args, {
    encoding: 'utf8',
    stdio: ['ignore', 'pipe', 'pipe'],
    maxBuffer: 1 << 30,
    cwd: '/',
    // libpq looks for certificates in HOME, and the user of a cluster cannot read ours.
    env: { ...process.env, HOME: tmpdir() },
    ...owner,
  });
}

/** Makes a new database on the server of a URL. */
export async function createDatabase(serverUrl: string): Promise<string> {
  const name = `standin_${randomBytes(6).toString('hex')}`;
  await query(serverUrl, `create database ${name}`);
  const url = new URL(serverUrl);
  url.pathname = `/${name}`;
  return url.href;
}

/** Runs one statement on a new connection. */
export async function query(
  at: string | pg.ClientConfig,
  text: string,
  values: unknown[] = [],
): Promise<Record<string, any>[]> {
  const client = new pg.Client(at);
  await client.connect();
  try {
    return (await client.query(text, values)).rows;
  } finally {
    await client.end();
  }
}
