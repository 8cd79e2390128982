import { isDeepStrictEqual } from 'node:util';
import type pg from 'pg';
import { operatorError, Unavailable } from '../errors.ts';
import { afterReading } from '../timeouts.ts';
import type { Durable } from '../types.ts';
import {
  type Address,
  BEGIN,
  BEGIN_PINNED,
  cancelStatement,
  connect,
  destroy,
  ignore,
  isDoubtful,
  openConnections,
  type Query,
  type QueryResult,
  type Refused,
  type Row,
  requirePrimary,
  type Session,
} from './connection.ts';
import { databaseError, ReadOnlyServer } from './database-error.ts';
import { Timeline } from './primary.ts';
import { WAITS_FOR_STANDBY } from './record-sql.ts';

export type { Query, QueryResult, Row };

interface PoolOptions {
  readonly connections: number;
  /**
   * Called before the first connection, and after a connection was refused, broke or led to a
   * standby. An embedded server moves when it is replaced; the primary moves at a promotion.
   */
  readonly locate: () => Promise<Address>;
  /** Shared by all pools of a process. */
  readonly timeline?: Timeline;
}

const RECONNECT_PAUSE_MS = 50;
/** pg parses no binary results, and its parsers change dates and numbers. */
const AS_TEXT = { getTypeParser: () => (text: string) => text };

/**
 * Connections to the vault's Postgres. Four rules make sure that each answer belongs to its
 * question and is current:
 * - A connection whose statement timed out or failed to arrive is destroyed, never reused.
 * - Statements have no names, so a pooler in transaction mode may stand in between.
 * - A connection is used only after it has led to the newest primary. A standby or an old primary
 * may lack the newest records.
 * - No setting of a role, database or server can change an answer.
 */
export class Pool {
  readonly #options: PoolOptions;
  readonly #timeline: Timeline;
  #address: Address | undefined;
  /** All connections lead to #address. */
  #connections: pg.Pool | undefined;
  #located: Promise<pg.Pool> | undefined;
  #sessions = new WeakMap<pg.PoolClient, Session>();
  #refused: Refused = { settings: false, timeline: false };
  #lastPoll = 0;
  #pollInUse = 0;
  #hasEnded = false;

  constructor(options: PoolOptions) {
    this.#options = options;
    this.#timeline = options.timeline ?? new Timeline();
  }

  /**
   * Runs one statement. Unavailable if the answer is not there by `deadlineMs` (a performance.now()
   * time).
   */
  async query(text: string, values: readonly unknown[], deadlineMs: number): Promise<QueryResult> {
    return this.#use(deadlineMs, (query, { isPinned }) =>
      isPinned
        ? query(text, values)
        : inTransaction(query, BEGIN_PINNED, () => query(text, values)),
    );
  }

  /** `query` with this deadline. */
  queryUntil(deadlineMs: number): Query {
    return (text, values = []) => this.query(text, values, deadlineMs);
  }

  /** Runs all statements of `work` in one transaction. Rolls back when `work` throws. */
  async transaction<T>(deadlineMs: number, work: (query: Query) => Promise<T>): Promise<T> {
    return this.#use(deadlineMs, (query, { isPinned }) =>
      inTransaction(query, isPinned ? BEGIN : BEGIN_PINNED, () => work(query)),
    );
  }

  /**
   * `transaction`, for "done" and "already": its commit waits for a synchronous standby also when
   * `work` only reads. The wait of the commit that wrote what it reads may have been cancelled.
   */
  async durably<T>(deadlineMs: number, work: (query: Query) => Promise<T>): Promise<Durable<T>> {
    return this.transaction(deadlineMs, async (query) => {
      const result = await work(query);
      await query(`select ${WAITS_FOR_STANDBY}`);
      return result as Durable<T>;
    });
  }

  /** Resolves when the newest primary answers; otherwise throws Unavailable. */
  async ping(deadlineMs: number): Promise<void> {
    await this.#use(deadlineMs, (query) => this.#sessionOf(query));
  }

  /** Later statements run on new connections. */
  reconnect(): void {
    this.#connections?.end().catch(ignore);
    this.#connections = undefined;
    this.#located = undefined;
  }

  async end(): Promise<void> {
    this.#hasEnded = true;
    await this.#connections?.end();
  }

  async #use<T>(
    deadlineMs: number,
    work: (query: Query, session: Session) => Promise<T>,
  ): Promise<T> {
    const client = await this.#connect(deadlineMs);
    let isLate = false;
    let isDone = false;
    let timer: NodeJS.Timeout | undefined;
    const late = new Promise<never>((_, reject) => {
      timer = afterReading(deadlineMs, () => {
        if (isDone) return;
        isLate = true;
        reject(new Unavailable(new Error('no answer in time')));
      });
    });
    // After the deadline, nothing more is sent on this connection.
    const query: Query = (text, values) => (isLate ? late : run(client, text, values));
    let failure: unknown;
    try {
      const working = this.#onPrimary(client, query, work);
      working.catch(ignore);
      return await Promise.race([working, late]);
    } catch (error) {
      failure = error;
      if (failure instanceof Unavailable) this.#doubt(failure);
      throw failure;
    } finally {
      isDone = true;
      clearTimeout(timer);
      if (isLate) void this.#cut(client);
      else client.release(failure instanceof Unavailable);
    }
  }

  async #onPrimary<T>(
    client: pg.PoolClient,
    query: Query,
    work: (query: Query, session: Session) => Promise<T>,
  ): Promise<T> {
    let session = this.#sessions.get(client);
    if (session === undefined || this.#timeline.isOld(session.timeline)) {
      session = await this.#sessionOf(query);
      this.#sessions.set(client, session);
    }
    return work(query, session);
  }

  async #sessionOf(query: Query): Promise<Session> {
    const session = await requirePrimary(query, this.#refused);
    this.#timeline.require(session.timeline, 'The server of DATABASE_URL');
    return this.#isEmbedded() ? { ...session, isPinned: true } : session;
  }

  /** Never reuses the connection: the next statement could receive the late answer. */
  async #cut(client: pg.PoolClient): Promise<void> {
    if (!this.#isEmbedded()) await cancelStatement(client);
    destroy(client);
    client.release(true);
  }

  async #connect(deadlineMs: number): Promise<pg.PoolClient> {
    for (;;) {
      if (this.#hasEnded || performance.now() >= deadlineMs)
        throw new Unavailable(new Error('deadline'));
      try {
        return await before(deadlineMs, this.#connection());
      } catch (error) {
        const failure = databaseError(error);
        // An embedded server that is about to end accepts connections and drops them. Its successor
        // answers soon.
        if (!this.#isEmbedded() || !(failure instanceof Unavailable) || operatorError(failure))
          throw failure;
      }
      await new Promise((resolve) => setTimeout(resolve, RECONNECT_PAUSE_MS));
    }
  }

  #connection(): Promise<pg.PoolClient> {
    this.#located ??= this.#locate();
    const located = this.#located;
    const connecting = located.then((connections) => connect(connections, this.#refused));
    connecting.catch(() => {
      if (this.#located === located) this.#located = undefined;
    });
    return connecting;
  }

  async #locate(): Promise<pg.Pool> {
    const look = ++this.#lastPoll;
    const address = await this.#options.locate();
    // A look-up that began later has newer facts.
    if (look < this.#pollInUse && this.#connections !== undefined) return this.#connections;
    this.#pollInUse = look;
    if (this.#connections === undefined || !isDeepStrictEqual(address, this.#address)) {
      // Connections to the old address end when their statements end.
      this.#connections?.end().catch(ignore);
      this.#refused = { settings: false, timeline: false };
      this.#connections = openConnections(address, this.#options.connections, this.#refused);
      this.#address = address;
      if (this.#hasEnded) this.#connections.end().catch(ignore);
    }
    return this.#connections;
  }

  #isEmbedded(): boolean {
    return this.#address !== undefined && !('url' in this.#address);
  }

  /**
   * The primary may have moved. Also after a plain failure to connect: a pooler accepts connections
   * while the server behind it is gone.
   */
  #doubt(failure: Unavailable): void {
    if (failure instanceof ReadOnlyServer) this.#sessions = new WeakMap();
    if (!this.#isEmbedded()) this.#located = undefined;
  }
}

/**
 * The connection, or Unavailable at the deadline. A connection that comes later returns to the
 * pool.
 */
async function before(
  deadlineMs: number,
  connecting: Promise<pg.PoolClient>,
): Promise<pg.PoolClient> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<undefined>((resolve) => {
    timer = afterReading(deadlineMs, () => resolve(undefined));
  });
  try {
    const client = await Promise.race([connecting, late]);
    if (client !== undefined) return client;
  } finally {
    clearTimeout(timer);
  }
  connecting.then((unused) => unused.release(), ignore);
  throw new Unavailable(new Error('no connection in time'));
}

async function inTransaction<T>(query: Query, begin: string, work: () => Promise<T>): Promise<T> {
  await query(begin);
  try {
    const result = await work();
    await query('commit');
    return result;
  } catch (error) {
    await query('rollback');
    throw error;
  }
}

async function run(
  client: pg.PoolClient,
  text: string,
  values: readonly unknown[] = [],
): Promise<QueryResult> {
  try {
    const result = await client.query({ text, values: values as unknown[], types: AS_TEXT });
    if (!isDoubtful(client)) return { rows: result.rows };
  } catch (error) {
    throw databaseError(error);
  }
  throw new Unavailable(new Error('the commit may not be durable'));
}
