import pg from 'pg';
import { errorCode } from '../errors.ts';
import { CONNECT_TIMEOUT_MS, ignore } from './connection.ts';
import type { Address, Query } from './pool.ts';
import { IS_MARKED, MARK, STARTUP_OPTIONS } from './settings.ts';

/** Whether new connections send the settings. false after a server refused them. */
export interface Pins {
  areSent: boolean;
}

/**
 * A connection whose startup packet has the settings. They outrank those of the role, the database
 * and the server.
 */
class PinnedClient extends pg.Client {
  constructor(config: pg.ClientConfig & { readonly pins: Pins }) {
    super(config);
    const { connectionParameters: parameters } = this as unknown as {
      readonly connectionParameters: { options: string | undefined };
    };
    if (config.pins.areSent)
      parameters.options = `${parameters.options ?? ''} ${STARTUP_OPTIONS}`.trim();
  }
}

export function openConnections(address: Address, connections: number, pins: Pins): pg.Pool {
  const config: pg.PoolConfig & { readonly pins: Pins } = {
    Client: PinnedClient as unknown as new () => pg.ClientBase,
    pins,
    max: connections,
    connectionTimeoutMillis: CONNECT_TIMEOUT_MS,
    idleTimeoutMillis: 0,
    keepAlive: true,
    application_name: 'standin',
    ...('url' in address
      ? { connectionString: address.url }
      : {
          host: address.socketDir,
          port: address.port,
          user: 'postgres',
          database: 'postgres',
          ssl: false,
        }),
  };
  const pool = new pg.Pool(config);
  // The next query replaces a connection that dies, idle or in use. Without these listeners, the
  // error would end the process.
  pool.on('error', ignore);
  pool.on('connect', (client) => {
    client.on('error', ignore);
    client.on('notice', ({ code }) => {
      if (code?.startsWith(WARNING_CLASS)) warned.add(client);
    });
  });
  return pool;
}

/** SQLSTATE class of warnings. Hints and notes have class 00. */
const WARNING_CLASS = '01';
const warned = new WeakSet<pg.ClientBase>();

/**
 * Whether the server has sent a warning on this connection. The service's statements cause only
 * one: PostgreSQL ends a cancelled wait for the synchronous standby with a success and a warning.
 * Such a commit may not be durable.
 */
export function isWarned(client: pg.ClientBase): boolean {
  return warned.has(client);
}

/** PgBouncer and RDS Proxy refuse `options` with these codes, which can also mean other things. */
const REFUSALS = new Set(['08P01', '0A000']);

export function mayRefusePins(error: unknown): boolean {
  return REFUSALS.has(errorCode(error) ?? '');
}

/** What a connection leads to. */
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
export async function demandPrimary(query: Query, asksTimeline: boolean): Promise<Session> {
  const text = asksTimeline ? `${DEMAND_PRIMARY}, ${AND_TIMELINE}` : DEMAND_PRIMARY;
  const { mark, wal_file: walFile } = (await query(text)).rows[0]!;
  return { isPinned: mark === IS_MARKED, timeline: timelineOf(walFile) };
}

/** @param walFile from pg_walfile_name */
export function timelineOf(walFile: string | null | undefined): number {
  return Number.parseInt(walFile?.slice(0, TIMELINE_DIGITS) ?? '0', 16);
}
