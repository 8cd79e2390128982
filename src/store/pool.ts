import pg from 'pg';
import { databaseError, operatorError, Unavailable } from './failure.ts';

/**
 * Where a Postgres listens: a URL, or the folder and port number of a Unix socket (the embedded
 * one).
 */
export type Address =
  | { readonly url: string }
  | { readonly socket_dir: string; readonly port: number };

export interface PoolOptions {
  readonly connections: number;
  /**
   * Asked before the first connection and after each refused one: an embedded server moves when it
   * is replaced.
   */
  readonly locate: () => Promise<Address>;
}

export interface QueryResult {
  readonly rows: readonly Record<string, string | null>[];
}

/** Runs one statement on a connection. Parameters are sent unnamed; results come as text. */
export type Query = (text: string, values?: readonly unknown[]) => Promise<QueryResult>;

const CONNECT_TIMEOUT_MS = 2_000;
const RECONNECT_PAUSE_MS = 50;
const AS_TEXT = { getTypeParser: () => (text: string) => text };

/**
 * Connections to the vault's Postgres. Two rules keep answers with their questions: a connection
 * whose statement timed out or failed to arrive is destroyed, never reused; and no statement is
 * named, so that a connection pooler in transaction mode may stand between.
 */
export class Pool {
  readonly #pool: pg.Pool;
  readonly #locate: () => Promise<Address>;
  #located: Promise<void> | undefined;
  #is_embedded = false;

  constructor(options: PoolOptions) {
    this.#locate = options.locate;
    this.#pool = new pg.Pool({
      max: options.connections,
      connectionTimeoutMillis: CONNECT_TIMEOUT_MS,
      idleTimeoutMillis: 0,
      keepAlive: true,
      application_name: 'standin',
    });
    // A connection that dies, idle or in use, is replaced by the next query; without listeners it
    // would end the process.
    this.#pool.on('error', ignore);
    this.#pool.on('connect', (client) => client.on('error', ignore));
  }

  /** One statement, answered within `deadline_ms` (a performance.now() time) or Unavailable. */
  async query(text: string, values: readonly unknown[], deadline_ms: number): Promise<QueryResult> {
    return this.#use(deadline_ms, (query) => query(text, values));
  }

  /** All statements of `work` in one transaction; rolled back when it throws. */
  async transaction<T>(deadline_ms: number, work: (query: Query) => Promise<T>): Promise<T> {
    return this.#use(deadline_ms, async (query) => {
      await query('begin');
      try {
        const result = await work(query);
        await query('commit');
        return result;
      } catch (error) {
        await query('rollback');
        throw error;
      }
    });
  }

  async end(): Promise<void> {
    await this.#pool.end();
  }

  async #use<T>(deadline_ms: number, work: (query: Query) => Promise<T>): Promise<T> {
    const client = await this.#connect(deadline_ms);
    let timed_out = false;
    const timer = setTimeout(() => {
      timed_out = true;
      destroy(client);
    }, deadline_ms - performance.now());
    let failure: unknown;
    try {
      return await work((text, values) => run(client, text, values));
    } catch (error) {
      failure = timed_out ? new Unavailable(error) : error;
      throw failure;
    } finally {
      clearTimeout(timer);
      client.release(failure instanceof Unavailable);
    }
  }

  async #connect(deadline_ms: number): Promise<pg.PoolClient> {
    for (;;) {
      if (performance.now() >= deadline_ms) throw new Unavailable(new Error('deadline'));
      try {
        this.#located ??= this.#relocate();
        await this.#located;
        return await before(deadline_ms, this.#pool.connect());
      } catch (error) {
        this.#located = undefined;
        const failure = databaseError(error);
        // An embedded server about to end takes connections and drops them; the next one replaces
        // it.
        if (!this.#is_embedded || !(failure instanceof Unavailable) || operatorError(failure))
          throw failure;
      }
      await new Promise((resolve) => setTimeout(resolve, RECONNECT_PAUSE_MS));
    }
  }

  async #relocate(): Promise<void> {
    const address = await this.#locate();
    this.#is_embedded = !('url' in address);
    Object.assign(
      this.#pool.options,
      'url' in address
        ? { connectionString: address.url }
        : {
            host: address.socket_dir,
            port: address.port,
            user: 'postgres',
            database: 'postgres',
            ssl: false,
          },
    );
  }
}

/** The connection, or Unavailable at the deadline; one that comes later goes back to the pool. */
async function before(
  deadline_ms: number,
  connecting: Promise<pg.PoolClient>,
): Promise<pg.PoolClient> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<undefined>((resolve) => {
    timer = setTimeout(resolve, deadline_ms - performance.now(), undefined);
  });
  const client = await Promise.race([connecting, late]);
  clearTimeout(timer);
  if (client !== undefined) return client;
  connecting.then((unused) => unused.release(), ignore);
  throw new Unavailable(new Error('no connection in time'));
}

function ignore(): void {}

function destroy(client: pg.PoolClient): void {
  // Not end(): that would wait, in turn, for the answer that does not come.
  (
    client as unknown as { connection: { stream: { destroy(): void } } }
  ).connection.stream.destroy();
}

async function run(
  client: pg.PoolClient,
  text: string,
  values: readonly unknown[] = [],
): Promise<QueryResult> {
  try {
    const result = await client.query({ text, values: values as unknown[], types: AS_TEXT });
    return { rows: result.rows };
  } catch (error) {
    throw databaseError(error);
  }
}
