import pg from 'pg';
import { beforeAll, expect, onTestFinished } from 'vitest';
import type { Pool } from '../../src/store/pool.ts';
import { distribute, migrate } from '../../src/store/schema.ts';
import { commandsOf } from './command.ts';
import { startWithOps } from './ops.ts';
import { PostgresCluster } from './postgres.ts';
import { call, type Kind, kinds, newPlace, type Place, type Service, until } from './service.ts';
import { addKeyVersions, openTestPool, soon, sql, vaultAddress } from './vault.ts';

/* What a test makes for itself. All of it ends with the test, also when the test fails. */

export function ownPlace(kind: Kind = kinds().at(-1)!, serverUrl?: string): Promise<Place> {
  return endsWithTest(newPlace(kind, serverUrl));
}

export async function endsWithTest(making: Promise<Place>): Promise<Place> {
  const place = await making;
  onTestFinished(place.remove);
  return place;
}

export async function ownService(place: Place, env: Record<string, string> = {}) {
  const service = await startWithOps(place, env);
  onTestFinished(() => service.stop());
  return service;
}

export function ownPool(place: Place, connections?: number): Pool {
  const pool = openTestPool(place, connections);
  onTestFinished(() => pool.end());
  return pool;
}

interface VaultOptions {
  readonly kind?: Kind;
  readonly serverUrl?: string;
  readonly nodes?: number;
  readonly env?: Record<string, string>;
}

/** Nodes on a vault, and what tests do with it. */
export async function ownVault({ kind, serverUrl, nodes = 1, env }: VaultOptions = {}) {
  return vaultAt(await ownPlace(kind, serverUrl), nodes, env);
}

/** Nodes at a place, and what tests do with their vault. */
export async function vaultAt(place: Place, count = 1, env?: Record<string, string>) {
  const nodes: Awaited<ReturnType<typeof ownService>>[] = [];
  while (nodes.length < count) nodes.push(await ownService(place, env));
  return { nodes, service: nodes[0]!, ...actsOn(place, nodes[0]) };
}

/** `call`, also with a list of strings. */
export async function ask(
  service: Service,
  operation: 'tokenize' | 'detokenize',
  data: object,
  apiKey = service.api_key,
) {
  const isList = Array.isArray(data);
  const { status, body } = await call(service, operation, isList ? { list: data } : data, apiKey);
  return { status, body, data: isList ? body.data?.list : body.data };
}

/** What tests do with a vault: commands, statements, and requests that succeed. */
export function actsOn(place: Place, service?: Service) {
  const succeed = async (operation: 'tokenize' | 'detokenize', sent: object, node = service!) => {
    const { status, body, data } = await ask(node, operation, sent, service!.api_key);
    expect(status, JSON.stringify(body).slice(0, 200)).toBe(200);
    return data;
  };
  const commands = commandsOf(() => place);
  return {
    ...commands,
    /** The JSON that a command prints. It may note its progress on standard error. */
    json: commands.result,
    sql: (text: string, values?: unknown[]) => sql(place, text, values),
    /** The tokens of an object with values. */
    tokenized: (data: object, node?: Service) => succeed('tokenize', data, node),
    /** The values of an object with tokens. */
    restored: (data: object, node?: Service) => succeed('detokenize', data, node),
  };
}

/** @param parent folder of the server's folder */
export async function ownCluster(settings?: Record<string, string>, parent?: string) {
  const cluster = await PostgresCluster.start(settings, parent);
  onTestFinished(() => cluster.stop());
  return cluster;
}

/** Until the returned function is called, or the test ends, commits wait for an absent standby. */
export async function loseStandby(cluster: PostgresCluster): Promise<() => Promise<void>> {
  await cluster.alterSystem("set synchronous_standby_names = 'absent'");
  const waiting = "select 1 from pg_stat_activity where wait_event = 'SyncRep'";
  let probe: Promise<unknown> | undefined;
  // The server follows the setting a moment later: a commit before that ends.
  await until(async () => {
    probe ??= cluster
      .administer("select pg_logical_emit_message(true, 'probe', '')")
      .finally(() => (probe = undefined));
    return (await cluster.administer(waiting)).length > 0;
  }, 'a commit that waits');
  const back = async () => {
    await cluster.alterSystem('reset synchronous_standby_names');
    await probe;
  };
  onTestFinished(back);
  return back;
}

interface BlockOptions {
  readonly serverUrl?: () => string;
  readonly isDistributed?: boolean;
}

/** A vault without a service, for all tests of a block, with key versions that open no record. */
export function blockVault(
  kind: Kind,
  versions: readonly number[],
  { serverUrl, isDistributed = true }: BlockOptions = {},
) {
  const at = {} as { place: Place; pool: Pool };
  beforeAll(async () => {
    at.place = await newPlace(kind, serverUrl?.());
    at.pool = openTestPool(at.place, 8);
    await migrate(at.pool, soon());
    if (isDistributed) await distribute(at.pool, soon());
    await addKeyVersions(at.pool, ...versions);
    return async () => {
      await at.pool.end();
      at.place.remove();
    };
  });
  return at;
}

/** Resolves when `isEnough` is true of the number of backends that wait for a lock in a vault. */
export async function lockWaits(place: Place, that = 'true', isEnough = (n: number) => n > 0) {
  const text = `select pid from pg_stat_activity
    where wait_event_type = 'Lock' and datname = current_database() and ${that}`;
  const enough = async () => isEnough((await sql(place, text)).length);
  await until(enough, `enough waits for a lock, where ${that}`);
}

/** A transaction in a vault that the returned function rolls back, or the end of the test. */
export async function held(place: Place, statement: string, name = 'holder') {
  const client = new pg.Client({ ...vaultAddress(place), application_name: name });
  client.on('error', () => {});
  await client.connect();
  onTestFinished(() => client.end().catch(() => {}));
  await client.query('begin');
  await client.query(statement);
  return async () => void (await client.query('rollback'));
}
