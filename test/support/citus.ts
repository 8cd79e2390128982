import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { PostgresCluster, postgresBin, query, run } from './postgres.ts';

/** Whether the tests' PostgreSQL has the Citus extension. */
export const citusIsInstalled =
  process.env.TEST_CITUS !== '0' &&
  postgresBin !== undefined &&
  existsSync(join(postgresBin, 'pg_config')) &&
  existsSync(join(run('pg_config', ['--sharedir']).trim(), 'extension/citus.control'));

const SETTINGS = {
  shared_preload_libraries: "'citus'",
  max_connections: '300',
  // Each database with the extension has a maintenance process. Tests never drop their databases.
  max_worker_processes: '300',
  'citus.shard_count': '8',
};

/**
 * The test's own coordinator and two workers.
 * @param settings lines of postgresql.conf for all three servers, by name
 */
export async function startCitus(settings: Record<string, string> = {}) {
  const started: PostgresCluster[] = [];
  for (let i = 0; i < 3; i++) {
    started.push(await PostgresCluster.start({ ...SETTINGS, ...settings }));
    await query(started[i]!.url('postgres'), 'create extension citus');
  }
  const [coordinator, ...workers] = started as [PostgresCluster, ...PostgresCluster[]];
  /** New databases of the coordinator span all three nodes. */
  const serverUrl = coordinator.url('postgres');
  await joinNodes(
    serverUrl,
    started.map(({ port }) => ({ host: '127.0.0.1', port })),
  );
  const stop = () => {
    for (const cluster of started.toReversed()) cluster.stop();
  };
  return { coordinator, workers, serverUrl, stop };
}
export type CitusCluster = Awaited<ReturnType<typeof startCitus>>;

interface Node {
  readonly host: string;
  readonly port: number;
}

/** The Citus nodes of a database, the coordinator first; empty without Citus. */
async function nodesOf(url: string): Promise<Node[]> {
  const found = await query(url, "select 1 from pg_extension where extname = 'citus'");
  if (found.length === 0) return [];
  const rows = await query(
    url,
    "select nodename as host, nodeport as port from pg_dist_node where noderole = 'primary' order by groupid",
  );
  return rows as Node[];
}

/**
 * Prepares a new database if the database of the server's URL has Citus: adds the extension, and
 * the same nodes, each with a database of that name.
 */
export async function joinCitus(serverUrl: string, databaseUrl: string): Promise<void> {
  const nodes = await nodesOf(serverUrl);
  if (nodes.length === 0) return;
  const name = new URL(databaseUrl).pathname.slice(1);
  for (const { host, port } of nodes.slice(1)) {
    await query(onNode(serverUrl, host, port), `create database ${name}`);
    await query(onNode(databaseUrl, host, port), 'create extension citus');
  }
  await query(databaseUrl, 'create extension citus');
  await joinNodes(databaseUrl, nodes);
}

async function joinNodes(url: string, nodes: readonly Node[]): Promise<void> {
  const [coordinator, ...workers] = nodes;
  await query(url, 'select citus_set_coordinator_host($1, $2)', [
    coordinator!.host,
    coordinator!.port,
  ]);
  for (const { host, port } of workers) {
    await query(url, 'select citus_add_node($1, $2)', [host, port]);
  }
}

function onNode(url: string, host: string, port: number): string {
  const node = new URL(url);
  node.hostname = host;
  node.port = String(port);
  return node.href;
}
