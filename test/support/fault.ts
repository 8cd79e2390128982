import { readdirSync, readlinkSync } from 'node:fs';
import { expect, onTestFinished } from 'vitest';
import { FaultProxy } from './fault-proxy.ts';
import { JournalledWriters, type WritersOptions } from './journal.ts';
import { PostgresCluster, query } from './postgres.ts';
import { childrenOf } from './processes.ts';
import { call, newPlace, type Place, type Service, startService, until } from './service.ts';

/** FAULT_LENGTH=full: as long and as often as the catalogue asks; otherwise short, for every change. */
const isFull = process.env.FAULT_LENGTH === 'full';

/** Length of a fault or of a run of them; FAULT_SECONDS sets it for all. */
export function seconds(short: number, full: number): number {
  return Number(process.env.FAULT_SECONDS ?? (isFull ? full : short));
}

/** How often a fault is repeated; FAULT_ROUNDS sets it for all. */
export function times(short: number, full: number): number {
  return Number(process.env.FAULT_ROUNDS ?? (isFull ? full : short));
}

/** Where /proc and prlimit are. */
export const isLinux = process.platform === 'linux';

/** For a test that lasts so long besides starting, stopping and verifying. */
export function timeoutFor(lengthS: number): number {
  return 300_000 + 3_000 * lengthS;
}

/** The service answers every request within this, whatever its database does. */
export const ANSWER_BOUND_MS = 5_000;
/** A promise of the service in time, and what a machine that is busy with other tests may add. */
export const SLACK_MS = 3_000;

export const UNAVAILABLE = '500 {"error":"internal_error","message":"database unavailable"}';

/** All of these are cleaned up when the test ends, however it ends; the last one first. */
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

/** Writers on a service, which end with the test. */
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

/** SIGSTOP of a server with all its backends; thawed when the test ends, if not before. */
export function freeze(cluster: PostgresCluster): () => void {
  const postmaster = cluster.postmasterPid;
  // It first: then there are no new ones.
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

/** Connections of the service, as the server sees them. */
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

/** Resolves when a request is answered 200 again; fails when that takes longer than it may. */
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

/** What callers may see of a database that is away: 500 with the fixed text, in time, and nothing else. */
export function expectOnlyUnavailable(writers: JournalledWriters): void {
  expect([...writers.failures].filter((failure) => failure !== UNAVAILABLE)).toEqual([]);
  expect(writers.slowestMs).toBeLessThan(ANSWER_BOUND_MS + SLACK_MS);
}

/** Lets a fault last; the length of a fault is no wait for a condition. */
export function lasting(lengthS: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, lengthS * 1_000));
}
