import { once } from 'node:events';
import { readdirSync, readlinkSync } from 'node:fs';
import { connect } from 'node:net';
import { expect, onTestFinished } from 'vitest';
import { FaultProxy } from './fault-proxy.ts';
import { JournalledWriters, type WritersOptions } from './journal.ts';
import { PostgresCluster, query } from './postgres.ts';
import { childrenOf } from './processes.ts';
import { Random } from './random.ts';
import { call, newPlace, type Place, type Service, startService, until } from './service.ts';

/** FAULT_LENGTH=full has the lengths and numbers of the catalogue. The default is a short run. */
const isFull = process.env.FAULT_LENGTH === 'full';

/** Length of a fault or a series of faults. FAULT_SECONDS overrides all lengths. */
export function seconds(short: number, full: number): number {
  return Number(process.env.FAULT_SECONDS ?? (isFull ? full : short));
}

/** Repetitions of a fault. FAULT_ROUNDS overrides all numbers. */
export function times(short: number, full: number): number {
  return Number(process.env.FAULT_ROUNDS ?? (isFull ? full : short));
}

/** Linux has /proc and prlimit. */
export const isLinux = process.platform === 'linux';

/** The time-out of a test, with time to start, stop and verify. */
export function timeoutFor(lengthS: number): number {
  return 300_000 + 3_000 * lengthS;
}

/** The service answers every request within this time, whatever its database does. */
export const ANSWER_BOUND_MS = 5_000;
/** A promised time of the service, plus a margin for a machine that is busy with other tests. */
export const SLACK_MS = 3_000;

export const UNAVAILABLE = '500 {"error":"internal_error","message":"database unavailable"}';

/** Cleans up at the end of the test, even of a failed test, in reverse order. */
export async function newCluster(settings: Record<string, string> = {}): Promise<PostgresCluster> {
  const cluster = await PostgresCluster.start(settings);
  onTestFinished(() => cluster.stop());
  return cluster;
}

export async function newVault(cluster: PostgresCluster): Promise<Place> {
  const place = await newPlace('server', cluster.directUrl('postgres'));
  onTestFinished(place.remove);
  return place;
}

export async function start(place: Place, env: Record<string, string> = {}): Promise<Service> {
  const service = await startService(place, env);
  onTestFinished(async () => {
    service.kill('SIGKILL');
    await service.exit;
  });
  return service;
}

export async function newProxy(cluster: PostgresCluster): Promise<FaultProxy> {
  const proxy = await FaultProxy.start(cluster.port);
  onTestFinished(() => proxy.stop());
  return proxy;
}

/** Writers on a service, which stop with the test. */
export function newWriters(
  service: Service | (() => Service),
  apiKey: string,
  place: Place,
  options: WritersOptions = { requestsPerS: 200 },
): JournalledWriters {
  const get = typeof service === 'function' ? service : () => service;
  const writers = new JournalledWriters(place, get, apiKey, options);
  onTestFinished(() => writers.stop());
  return writers;
}

/** Stops a server and all its backends with SIGSTOP, at most until the test ends. */
export function freeze(cluster: PostgresCluster): () => void {
  const postmaster = cluster.postmasterPid;
  // Stop the postmaster first, so that it starts no new backends.
  process.kill(postmaster, 'SIGSTOP');
  const all = [postmaster, ...childrenOf(postmaster)];
  for (const pid of all) process.kill(pid, 'SIGSTOP');
  let isFrozen = true;
  const thaw = () => {
    if (isFrozen) for (const pid of all) process.kill(pid, 'SIGCONT');
    isFrozen = false;
  };
  onTestFinished(thaw);
  return thaw;
}

/** Connections of the service, from pg_stat_activity. */
export async function backends(cluster: PostgresCluster, state = '%'): Promise<number> {
  const rows = await query(
    cluster.directUrl('postgres'),
    "select 1 from pg_stat_activity where application_name = 'standin' and state like $1",
    [state],
  );
  return rows.length;
}

/** Open sockets of a process; `isLinux` only. */
export function socketsOf(pid: number): number {
  return readdirSync(`/proc/${pid}/fd`).filter((fd) => {
    try {
      return readlinkSync(`/proc/${pid}/fd/${fd}`).startsWith('socket:');
    } catch {
      return false;
    }
  }).length;
}

/** Resolves when a request gets a 200 again. Fails after the allowed time. */
export async function recovery(
  service: Service,
  apiKey: string,
  withinMs = ANSWER_BOUND_MS,
): Promise<number> {
  const startedMs = performance.now();
  let n = 0;
  const works = () =>
    call(service, 'tokenize', { a: `recovery ${startedMs} ${n++}` }, apiKey).then(
      ({ status }) => status === 200,
      () => false,
    );
  await until(works, 'an answer 200', withinMs + SLACK_MS);
  return performance.now() - startedMs;
}

/** Without the database, callers may only get a 500 with the fixed text, in time. */
export function expectOnlyUnavailable(writers: JournalledWriters): void {
  expect([...writers.failures].filter((failure) => failure !== UNAVAILABLE)).toEqual([]);
  expect(writers.slowestMs).toBeLessThan(ANSWER_BOUND_MS + SLACK_MS);
}

/** Keeps a fault going for a time. This is the fault's length, not a wait for a condition. */
export function lasting(lengthS: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, lengthS * 1_000));
}

const VALUES = 50;

/**
 * Sends a tokenize request, or a part of it, on a new connection, and resets the connection at once
 * or a little later.
 * @param fraction 0 to 1: how much of a partial request is sent, and how late the reset comes
 */
export async function resetMidRequest(
  service: { readonly url: string; readonly api_key: string },
  n: number,
  fraction: number,
): Promise<void> {
  const { hostname, port } = new URL(service.url);
  const values = Array.from({ length: VALUES }, (_, i) => `cut ${n} ${i}`);
  const body = JSON.stringify({ data: { values } });
  const whole = [
    'POST /api/v1/tokenize HTTP/1.1',
    'host: x',
    `authorization: Bearer ${service.api_key}`,
    'content-type: application/json',
    `content-length: ${body.length}`,
    '',
    body,
  ].join('\r\n');
  const isWhole = n % 2 === 0;
  const socket = connect(Number(port), hostname);
  socket.on('error', () => {});
  await Promise.race([once(socket, 'connect'), once(socket, 'close')]);
  socket.write(isWhole ? whole : whole.slice(0, Math.floor(fraction * whole.length)));
  // The service works on the request for a few milliseconds, and the reset comes in between.
  await new Promise((resolve) => setTimeout(resolve, fraction * 8));
  socket.resetAndDestroy();
}

/** The kinds of fault, with their rows in the catalogue. */
export const FAULTS = [
  /** F02 */
  'postgres killed',
  /** F04 */
  'postgres stopped',
  /** F06 */
  'replies lost',
  /** F08 */
  'callers reset',
  /** F16 */
  'node renewed',
] as const;

export interface Step {
  readonly fault: (typeof FAULTS)[number];
  /** Acknowledged tokens before the fault. */
  readonly after: number;
  /** Which of the two nodes the fault hits, if it hits a node. */
  readonly node: number;
  /** The length or the number of the fault, as a share of the maximum, 0 to 1. */
  readonly measure: number;
}

/** CHAOS_SEED, SEED or a random seed. */
export function chaosSeed(): number {
  const given = process.env.CHAOS_SEED ?? process.env.SEED;
  return Number(given ?? Math.floor(Math.random() * 2 ** 31));
}

/** The same seed gives the same faults, in the same order, after the same numbers of tokens. */
export function* schedule(seed: number): Generator<Step> {
  const random = new Random(seed);
  for (;;) {
    yield {
      fault: random.pick(FAULTS),
      after: 20 + random.below(100),
      node: random.below(2),
      measure: random.below(1_000) / 1_000,
    };
  }
}
