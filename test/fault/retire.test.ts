import pg from 'pg';
import { describe, expect, onTestFinished, test } from 'vitest';
import { retireKey } from '../../src/vault/key-lifecycle.ts';
import {
  isLinux,
  lasting,
  newCluster,
  newVault,
  newWriters,
  seconds,
  start,
} from '../support/fault.ts';
import { type PostgresCluster, postgresBin, query } from '../support/postgres.ts';
import { type Answer, call, type Place, runJson, type Service, until } from '../support/service.ts';
import { detokenizeAll, openedVault, sql, vaultAddress } from '../support/vault.ts';

/** `keyring retire` leaves a version alone for so long after a rotation. */
const RETIRE_AFTER_S = 62;

/**
 * The time that `retire` waits for. Short: only the keys get older, so that clocks have stood still
 * for whoever was stopped, as on a machine that was suspended.
 */
async function letTimePass(place: Place, lengthS: number): Promise<void> {
  if (lengthS > 0) return lasting(lengthS);
  await sql(place, "update standin.keyring set created_at = created_at - interval '2 minutes'");
}

/** Version 1 is destroyed, on a vault that has seen no other. */
async function exchangeKey(place: Place, lengthS: number): Promise<void> {
  await runJson(place, 'keyring', 'rotate');
  await letTimePass(place, lengthS);
  expect(await runJson(place, 'keyring', 'reseal')).toMatchObject({ bad: 0, is_complete: true });
  expect(await runJson(place, 'keyring', 'retire', '1')).toEqual({ version: 1 });
}

async function ofVersion(place: Place, keyVersion: number): Promise<number> {
  const text =
    "select count(*)::int as n from standin.records where key_version = $1 and sealed <> ''";
  return (await sql(place, text, [keyVersion]))[0]!.n;
}

async function expectAllWell(place: Place): Promise<void> {
  expect(await ofVersion(place, 1)).toBe(0);
  expect(await runJson(place, 'verify')).toMatchObject({ bad: 0, next: null });
}

/** Statements of the service that wait for a lock. */
function waiting(cluster: PostgresCluster): Promise<{ pid?: number }[]> {
  return query(
    cluster.directUrl('postgres'),
    "select pid from pg_stat_activity where application_name = 'standin' and wait_event_type = 'Lock' and query like '%insert into standin.records%'",
  );
}

/** Locks the table, as any stall of the database would; resolves to its end. */
async function lockRecords(place: Place): Promise<() => Promise<void>> {
  const holder = new pg.Client(vaultAddress(place));
  await holder.connect();
  await holder.query('begin');
  await holder.query('lock table standin.records');
  return async () => {
    await holder.query('commit');
    await holder.end();
  };
}

/** Acknowledged ones detokenize, and all values get tokens that do when they come again. */
async function expectKept(values: string[], answers: Answer[], nodes: Service[], apiKey: string) {
  const kept = values.flatMap((value, i) =>
    answers[i]!.status === 200 ? [{ value, token: answers[i]!.body.data.value as string }] : [],
  );
  const other = nodes.at(-1)!;
  const tokens = kept.map(({ token }) => token);
  expect(await detokenizeAll(other, tokens, apiKey)).toEqual(kept.map(({ value }) => value));
  for (const node of nodes.toReversed()) {
    const again = await call(node, 'tokenize', { values }, apiKey);
    expect(again.status).toBe(200);
    expect(await detokenizeAll(other, again.body.data.values, apiKey)).toEqual(values);
  }
  return kept.length;
}

function stopped(pids: number[]): () => void {
  for (const pid of pids) process.kill(pid, 'SIGSTOP');
  let isStopped = true;
  const resume = () => {
    if (isStopped) for (const pid of pids) process.kill(pid, 'SIGCONT');
    isStopped = false;
  };
  onTestFinished(resume);
  return resume;
}

describe.skipIf(postgresBin === undefined)(
  'a node that stands still while a key is retired',
  () => {
    test('F30, F32: with its inserts waiting in it: what it acknowledges afterwards opens, and no record has the old version', async () => {
      const cluster = await newCluster();
      const place = await newVault(cluster);
      const nodes = [await start(place), await start(place)];
      const { api_key: apiKey } = nodes[0]!;
      const values = Array.from({ length: 120 }, (_, i) => `value ${i}`);
      const unlock = await lockRecords(place);
      const calls = values.map((value) => call(nodes[0]!, 'tokenize', { value }, apiKey));
      await until(async () => (await waiting(cluster)).length > 0, 'inserts that wait');
      const resume = stopped([nodes[0]!.pid]);
      await unlock();
      // No longer wait: the requests would be past their deadline.
      await exchangeKey(place, 0);
      resume();
      const answers = await Promise.all(calls);
      await expectAllWell(place);
      expect(await expectKept(values, answers, nodes, apiKey)).toBeGreaterThan(0);
      await expectAllWell(place);
    });

    test('F30, F32: under load: no acknowledged token is lost', async () => {
      const cluster = await newCluster();
      const place = await newVault(cluster);
      const nodes = [await start(place), await start(place)];
      const { api_key: apiKey } = nodes[0]!;
      const writers = newWriters(nodes[0]!, apiKey, place, {});
      await writers.progress(300);
      const resume = stopped([nodes[0]!.pid]);
      await exchangeKey(place, seconds(0, RETIRE_AFTER_S));
      resume();
      await writers.progress(300);
      await writers.stop();
      await writers.verify(nodes[1]!, apiKey);
      await expectAllWell(place);
    });
  },
);

describe.skipIf(postgresBin === undefined || !isLinux)(
  'a backend that stands still while a key is retired',
  () => {
    test('F31: with an insert in its socket: it writes no record of the retired version', async () => {
      const cluster = await newCluster();
      const place = await newVault(cluster);
      const node = await start(place);
      const { api_key: apiKey } = node;
      await call(node, 'tokenize', { value: 'a connection' }, apiKey);
      const url = cluster.directUrl('postgres');
      const writers = `select pid from pg_stat_activity where application_name = 'standin'
        and query like '%insert into standin.records%'`;
      const pids = (await query(url, writers)).map((row) => row.pid);
      expect(pids).toHaveLength(1);
      const resume = stopped(pids);
      const answer = await call(node, 'tokenize', { value: 'late' }, apiKey);
      expect(answer.status).toBe(500);
      await exchangeKey(place, 0);
      resume();
      // It executes what is in its socket, and finds nobody to answer.
      const left = 'select 1 from pg_stat_activity where pid = any($1)';
      await until(async () => (await query(url, left, [pids])).length === 0, 'the end of it');
      await expectAllWell(place);
      expect(await expectKept(['late'], [answer], [node], apiKey)).toBe(0);
      await expectAllWell(place);
    });

    test('F31: with the lock of an insert: retire waits, says for whom, and what comes late is refused', async () => {
      const cluster = await newCluster();
      const place = await newVault(cluster);
      const node = await start(place);
      const { api_key: apiKey } = node;
      const unlock = await lockRecords(place);
      const calling = call(node, 'tokenize', { value: 'late' }, apiKey);
      await until(async () => (await waiting(cluster)).length > 0, 'an insert that waits');
      const pids = (await waiting(cluster)).map((row) => row.pid!);
      const resume = stopped(pids);
      await unlock();
      await runJson(place, 'keyring', 'rotate');
      const { keys } = openedVault(place);
      await expect(retireKey(keys, 1, 0, 500)).rejects.toThrow(
        new RegExp(`may still write records with it \\(backends: ${pids.join(', ')}\\)`),
      );
      const status = await runJson(place, 'keyring', 'status');
      expect(status.find((key: any) => key.purpose === 'dek' && key.version === 1)).toMatchObject({
        is_primary: false,
        closed_at: expect.stringMatching(/Z$/),
      });
      resume();
      const answer = await calling;
      await retireKey(keys, 1, 0);
      await expectAllWell(place);
      await expectKept(['late'], [answer], [node], apiKey);
      await expectAllWell(place);
    });
  },
);
