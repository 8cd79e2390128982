import { once } from 'node:events';
import { readdirSync } from 'node:fs';
import { connect } from 'node:net';
import { expect, onTestFinished } from 'vitest';
import { FaultProxy } from './fault-proxy.ts';
import { JournalledWriters, type Nodes } from './journal.ts';
import { actsOn, ownCluster, ownPlace } from './own.ts';
import type { PostgresCluster } from './postgres.ts';
import { childrenOf, linkOf } from './processes.ts';
import { call, type Place, type Service, startService, until } from './service.ts';

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

/** The service answers every request within this time, whatever its database does. */
export const ANSWER_BOUND_MS = 5_000;
/** A promised time of the service, plus a margin for a machine that is busy with other tests. */
export const SLACK_MS = 3_000;
/** The connections of a node to its database. */
export const DATABASE_CONNECTIONS = 12;

export const UNAVAILABLE = '500 {"error":"internal_error","message":"database unavailable"}';
/** The answer of a node that others wait for already. */
export const isShed = (failure: string) => failure.startsWith('503 {"error":"overloaded"');

/** A place on a new database of the server; without a server, on an embedded database. */
export function newVault(cluster?: PostgresCluster): Promise<Place> {
  return ownPlace(cluster ? 'server' : 'embedded', cluster?.directUrl('postgres'));
}

/** A node, which is killed when the test ends: it may be too ill to stop in order. */
export async function start(place: Place, ...how: [env?: Record<string, string>, node?: string]) {
  const service = await startService(place, ...how);
  onTestFinished(async () => {
    service.kill('SIGKILL');
    await service.exit;
  });
  return service;
}

interface SceneOptions {
  readonly nodes?: number;
  readonly env?: Record<string, string>;
  /** By default a PostgreSQL of the scene's own. */
  readonly cluster?: PostgresCluster;
  /** Whether the nodes reach the server through the proxy. */
  readonly isProxied?: boolean;
}

/** Nodes on a PostgreSQL server, with a proxy before it, which all end with the test. */
export async function newScene({ nodes, env, isProxied, ...options }: SceneOptions = {}) {
  const cluster = options.cluster ?? (await ownCluster());
  const place = await newVault(cluster);
  const proxy = await FaultProxy.start(cluster.port);
  onTestFinished(() => proxy.stop());
  if (isProxied) place.env.DATABASE_URL = proxy.through(place.env.DATABASE_URL!);
  return { cluster, proxy, ...(await nodesAt(place, nodes, env)) };
}
export type Scene = Awaited<ReturnType<typeof newScene>>;

/** Nodes at a place, and what tests do with their vault. */
export async function nodesAt(place: Place, count = 1, env?: Record<string, string>) {
  const nodes: Service[] = [];
  while (nodes.length < count) nodes.push(await start(place, env));
  const [service] = nodes as [Service];
  return { ...actsOn(place, service), nodes, service, api_key: service?.api_key ?? '' };
}

/** Adds writers to nodes. Resolves when `count` tokens are acknowledged. */
export async function loaded<S extends Nodes>(
  at: S | Promise<S>,
  count: number,
  requestsPerS = 200,
): Promise<S & { readonly writers: JournalledWriters }> {
  const scene = await at;
  const writers = new JournalledWriters(scene, requestsPerS);
  await writers.progress(count);
  return { ...scene, writers };
}

/** Stops processes with SIGSTOP, until the returned function is called or the test ends. */
export function stopped(...pids: readonly number[]): () => void {
  let isStopped = true;
  for (const pid of pids) process.kill(pid, 'SIGSTOP');
  const resume = () => {
    for (const pid of isStopped ? pids : []) {
      try {
        process.kill(pid, 'SIGCONT');
      } catch {
        // It was killed meanwhile.
      }
    }
    isStopped = false;
  };
  onTestFinished(resume);
  return resume;
}

/** Stops a server and all its backends, as `stopped` does. */
export function freeze({ postmasterPid }: PostgresCluster): () => void {
  // The postmaster first, so that it starts no new backends.
  const thawPostmaster = stopped(postmasterPid);
  const thawBackends = stopped(...childrenOf(postmasterPid));
  return () => {
    thawPostmaster();
    thawBackends();
  };
}

/** Process ids of the connections of the service, from pg_stat_activity. */
export async function backends(cluster: PostgresCluster, that = 'true'): Promise<number[]> {
  const text = `select pid from pg_stat_activity where application_name = 'standin' and ${that}`;
  return (await cluster.administer(text)).map(({ pid }) => pid);
}

/** Open sockets of a process; `isLinux` only. */
export function socketsOf(pid: number): number {
  const names = readdirSync(`/proc/${pid}/fd`);
  return names.filter((fd) => linkOf(`/proc/${pid}/fd/${fd}`).startsWith('socket:')).length;
}

export async function healthOf({ url }: Pick<Service, 'url'>): Promise<number> {
  return (await fetch(`${url}/health`)).status;
}

/** Resolves when a request gets a 200 again. Fails after the allowed time. */
export async function recovery(
  service: Service,
  withinMs = ANSWER_BOUND_MS,
  apiKey = service.api_key,
): Promise<void> {
  const startedMs = performance.now();
  let n = 0;
  const works = () =>
    call(service, 'tokenize', { a: `recovery ${startedMs} ${n++}` }, apiKey).then(
      ({ status }) => status === 200,
      () => false,
    );
  await until(works, 'an answer 200', withinMs + SLACK_MS);
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

/** The head of a request. */
export function headOf(
  { api_key: apiKey }: Pick<Service, 'api_key'>,
  operation: string,
  length: number,
): string {
  return `POST /api/v1/${operation} HTTP/1.1\r
Host: a\r
Authorization: Bearer ${apiKey}\r
Content-Type: application/json\r
Content-Length: ${length}\r
\r
`;
}

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
  const values = Array.from({ length: 50 }, (_, i) => `cut ${n} ${i}`);
  const body = JSON.stringify({ data: { values } });
  const whole = headOf(service, 'tokenize', body.length) + body;
  const isWhole = n % 2 === 0;
  const socket = connect(Number(port), hostname);
  socket.on('error', () => {});
  await Promise.race([once(socket, 'connect'), once(socket, 'close')]);
  socket.write(isWhole ? whole : whole.slice(0, Math.floor(fraction * whole.length)));
  // The service works on the request for a few milliseconds, and the reset comes in between.
  await new Promise((resolve) => setTimeout(resolve, fraction * 8));
  socket.resetAndDestroy();
}
