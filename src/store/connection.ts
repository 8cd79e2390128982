import pg from 'pg';
import { errorCode, Unavailable } from '../errors.ts';

/**
 * Where a Postgres listens: a URL, or the folder and port number of a Unix socket (the embedded
 * database).
 */
export type Address =
  | { readonly url: string }
  | { readonly socketDir: string; readonly port: number };

export type Row = Readonly<Record<string, string | null>>;

export interface QueryResult {
  readonly rows: readonly Row[];
}

/** Runs one statement on a connection. Parameters are sent unnamed; results come as text. */
export type Query = (text: string, values?: readonly unknown[]) => Promise<QueryResult>;

/** From the first packet to a usable connection. */
export const CONNECT_TIMEOUT_MS = 2_000;
/**
 * For a cancel request to reach the server. If the server does not answer, its statement goes on.
 */
const CANCEL_TIMEOUT_MS = 1_000;

/**
 * Every setting that could change the meaning of a statement or the format of its answer, in the
 * syntax of SET. With this search_path, a bare name finds no object of another schema, and
 * temporary objects come last (docs/decisions/0016). Settings that bound or protect work, such as
 * time-outs and synchronous_commit, stay the operator's.
 */
const PINNED = [
  ['search_path', 'pg_catalog,pg_temp'],
  ['bytea_output', 'hex'],
  ['DateStyle', 'ISO,MDY'],
  ['IntervalStyle', 'postgres'],
  ['TimeZone', 'UTC'],
  ['extra_float_digits', '1'],
  ['standard_conforming_strings', 'on'],
  ['transform_null_equals', 'off'],
  ['array_nulls', 'on'],
  ['quote_all_identifiers', 'off'],
  ['row_security', 'on'],
] as const;

/** Our own setting. If the server returns it, the other settings have arrived too. */
const MARK = 'standin.session';
const IS_MARKED = 'pinned';

/** The `options` parameter of a startup packet. */
const STARTUP_OPTIONS = [
  ...PINNED,
  ['default_transaction_isolation', 'read\\ committed'],
  [MARK, IS_MARKED],
]
  .map(([name, value]) => `-c ${name}=${value}`)
  .join(' ');

export const BEGIN = 'begin isolation level read committed';
/**
 * For a connection without the settings: one simple query. The settings end with the transaction.
 */
export const BEGIN_PINNED = [
  BEGIN,
  ...PINNED.map(([name, value]) => `set local ${name} = ${value}`),
].join('; ');
/** For the single session of the embedded database. */
export const PIN_SESSION = PINNED.map(([name, value]) => `set ${name} = ${value}`).join('; ');

/** The requests that a server has refused. They are not sent to it again. */
export interface Refused {
  /** The settings in the startup packet. */
  settings: boolean;
  timeline: boolean;
}

/**
 * A connection whose startup packet has the settings. They outrank those of the role, the database
 * and the server.
 */
class PinnedClient extends pg.Client {
  constructor(config: pg.ClientConfig & { readonly refused: Refused }) {
    super(config);
    const { connectionParameters: parameters } = this as unknown as {
      readonly connectionParameters: { options: string | undefined };
    };
    if (!config.refused.settings)
      parameters.options = `${parameters.options ?? ''} ${STARTUP_OPTIONS}`.trim();
  }
}

const EMBEDDED = { user: 'postgres', database: 'postgres', ssl: false };

export function openConnections(address: Address, connections: number, refused: Refused): pg.Pool {
  const config: pg.PoolConfig & { readonly refused: Refused } = {
    Client: PinnedClient as unknown as new () => pg.ClientBase,
    refused,
    max: connections,
    connectionTimeoutMillis: CONNECT_TIMEOUT_MS,
    idleTimeoutMillis: 0,
    keepAlive: true,
    application_name: 'standin',
    ...('url' in address
      ? { connectionString: address.url }
      : { ...EMBEDDED, host: address.socketDir, port: address.port }),
  };
  const pool = new pg.Pool(config);
  // The next query replaces a connection that dies, idle or in use. Without these listeners, the
  // error would end the process.
  pool.on('error', ignore);
  pool.on('connect', (client) => {
    client.on('error', ignore);
    client.on('notice', ({ code }) => {
      if (code === PLAIN_WARNING) doubtful.add(client);
    });
  });
  return pool;
}

/** SQLSTATE of a warning for which PostgreSQL has no code of its own. */
const PLAIN_WARNING = '01000';
const doubtful = new WeakSet<pg.ClientBase>();

/**
 * Whether a commit on this connection may not be durable: PostgreSQL ends a cancelled wait for the
 * synchronous standby with a success and a plain warning (SyncRepWaitForLSN in syncrep.c). Other
 * warnings have codes of their own, for example 01007 of a grant without effect.
 */
export function isDoubtful(client: pg.ClientBase): boolean {
  return doubtful.has(client);
}

/** PgBouncer and RDS Proxy refuse `options` with these codes, which can also mean other things. */
const REFUSALS = new Set(['08P01', '0A000']);

export async function connect(connections: pg.Pool, refused: Refused): Promise<pg.PoolClient> {
  try {
    return await connections.connect();
  } catch (error) {
    if (!REFUSALS.has(errorCode(error) ?? '')) throw error;
    refused.settings = true;
    return connections.connect();
  }
}

/** The server that a connection leads to. */
export interface Session {
  /** false: a pooler has dropped the settings, so each transaction must set them. */
  readonly isPinned: boolean;
  /** Rises at every promotion; 0 when a hosted Postgres does not reveal it. */
  readonly timeline: number;
}

/**
 * Fails on a standby with the error of every write there (25006); does nothing on a primary. All
 * names are qualified, because the settings of the session are not known yet.
 */
const DEMAND_PRIMARY = `select
  case when pg_catalog.pg_is_in_recovery() then pg_catalog.pg_current_xact_id() end as nothing,
  pg_catalog.current_setting('${MARK}', true) as mark`;
const AND_TIMELINE = `case when not pg_catalog.pg_is_in_recovery()
  then pg_catalog.pg_walfile_name(pg_catalog.pg_current_wal_lsn()) end as wal_file`;
const TIMELINE_DIGITS = 8;

/** @throws ReadOnlyServer on a standby */
export async function requirePrimary(query: Query, refused: Refused): Promise<Session> {
  const text = refused.timeline ? DEMAND_PRIMARY : `${DEMAND_PRIMARY}, ${AND_TIMELINE}`;
  try {
    const { mark, wal_file: walFile } = (await query(text)).rows[0]!;
    return { isPinned: mark === IS_MARKED, timeline: timelineOf(walFile) };
  } catch (error) {
    if (error instanceof Unavailable || refused.timeline) throw error;
    refused.timeline = true;
    return requirePrimary(query, refused);
  }
}

/** @param walFile from pg_walfile_name */
export function timelineOf(walFile: string | null | undefined): number {
  return Number.parseInt(walFile?.slice(0, TIMELINE_DIGITS) ?? '0', 16);
}

/** The fields that the types of pg leave out. */
interface ClientInternals {
  readonly processID: number | null;
  readonly secretKey: number | null;
  readonly host: string;
  readonly port: number;
  readonly connection: Pick<ConnectionInternals, 'ssl' | 'sslNegotiation' | 'stream'>;
}

interface ConnectionInternals extends pg.Connection {
  readonly ssl: object | boolean;
  readonly sslNegotiation: string;
  connect(portOrPath: number | string, host?: string): void;
  requestSsl(): void;
  cancel(processId: number, secretKey: number): void;
}

/**
 * Asks the server to cancel the statement of a connection (PostgreSQL 15 protocol, 55.2.9). Without
 * this, a statement whose client is gone goes on waiting for its lock. The connection must still be
 * open: PgBouncer in transaction mode finds the server through it, and passes the request on. A
 * statement_timeout is no alternative. PgBouncer refuses it in the startup packet, and SET would
 * stay on the server connection for the next client. Resolves when the request is done or has
 * failed; never throws.
 */
export async function cancelStatement(client: pg.ClientBase): Promise<void> {
  const { processID, secretKey, host, port, connection } = client as unknown as ClientInternals;
  if (processID === null || secretKey === null) return;
  const { ssl, sslNegotiation } = connection;
  const options = { ssl, sslNegotiation } as pg.ConnectionConfig;
  const canceling = new pg.Connection(options) as ConnectionInternals;
  const send = () => canceling.cancel(processID, secretKey);
  let late: NodeJS.Timeout | undefined;
  await new Promise<unknown>((resolve) => {
    late = setTimeout(resolve, CANCEL_TIMEOUT_MS);
    // The server sends no answer. It closes the connection when it has handled the request.
    canceling.once('end', resolve).on('error', resolve);
    canceling.once('sslconnect', send).once('connect', () => {
      if (!ssl) send();
      else if (sslNegotiation !== 'direct') canceling.requestSsl();
    });
    if (host.startsWith('/')) canceling.connect(`${host}/.s.PGSQL.${port}`);
    else canceling.connect(port, host);
  });
  clearTimeout(late);
  canceling.stream.destroy();
}

/** Cuts a connection. `end()` would wait for the answer that never comes. */
export function destroy(client: pg.ClientBase): void {
  (client as unknown as ClientInternals).connection.stream.destroy();
}

/** For errors of a connection that another error already reports. */
export function ignore(): void {}
