import { describe, expect, test } from 'vitest';
import { retireKey } from '../../src/vault/key-lifecycle.ts';
import {
  backends,
  isLinux,
  lasting,
  loaded,
  newScene,
  type Scene,
  seconds,
  stopped,
} from '../support/fault.ts';
import { held } from '../support/own.ts';
import { postgresBin } from '../support/postgres.ts';
import { type Answer, call, type Service, until } from '../support/service.ts';
import { detokenizeAll, openedVault } from '../support/vault.ts';

/** `keyring retire` leaves a version alone for so long after a rotation. */
const RETIRE_AFTER_S = 62;

/**
 * The time that `retire` waits for. Short: only the keys get older, so that clocks have stood still
 * for whoever was stopped, as on a machine that was suspended.
 */
async function letTimePass({ sql }: Scene, lengthS: number): Promise<void> {
  if (lengthS > 0) return lasting(lengthS);
  await sql("update standin.keyring set created_at = created_at - interval '2 minutes'");
}

/** Version 1 is destroyed, on a vault that has seen no other. */
async function exchangeKey(scene: Scene, lengthS: number): Promise<void> {
  await scene.json('keyring rotate');
  await letTimePass(scene, lengthS);
  expect(await scene.json('keyring reseal')).toMatchObject({ bad: 0, is_complete: true });
  expect(await scene.json('keyring retire 1')).toEqual({ version: 1 });
}

async function expectAllWell({ json, sql }: Scene): Promise<void> {
  const old = "select 1 from standin.records where key_version = 1 and sealed <> ''";
  expect(await sql(old)).toEqual([]);
  expect(await json('verify')).toMatchObject({ bad: 0, next: null });
}

/** Backends with an insert, all or those that wait for a lock. */
const inserting = ({ cluster }: Scene, that = 'true') =>
  backends(cluster, `query like '%insert into standin.records%' and ${that}`);
const waiting = (scene: Scene) => inserting(scene, "wait_event_type = 'Lock'");
/** As any stall of the database would. */
const LOCK = 'lock table standin.records';

/** Acknowledged ones detokenize, and all values get tokens that do when they come again. */
async function expectKept({ nodes, api_key: apiKey }: Scene, values: string[], answers: Answer[]) {
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

describe.skipIf(postgresBin === undefined)(
  'a node that stands still while a key is retired',
  () => {
    test('F30, F32: with its inserts waiting in it: what it acknowledges afterwards opens, and no record has the old version', async () => {
      const scene = await newScene({ nodes: 2 });
      const { place, service } = scene;
      const values = Array.from({ length: 120 }, (_, i) => `value ${i}`);
      const unlock = await held(place, LOCK);
      const calls = values.map((value) => call(service, 'tokenize', { value }));
      await until(async () => (await waiting(scene)).length > 0, 'inserts that wait');
      const resume = stopped(service.pid);
      await unlock();
      // No longer wait: the requests would be past their deadline.
      await exchangeKey(scene, 0);
      resume();
      const answers = await Promise.all(calls);
      await expectAllWell(scene);
      expect(await expectKept(scene, values, answers)).toBeGreaterThan(0);
      await expectAllWell(scene);
    });

    test('F30, F32: under load: no acknowledged token is lost', async () => {
      const scene = await newScene({ nodes: 2 });
      const [first, second] = scene.nodes as [Service, Service];
      const { writers } = await loaded({ ...scene, nodes: [first] }, 300, Infinity);
      const resume = stopped(first.pid);
      await exchangeKey(scene, seconds(0, RETIRE_AFTER_S));
      resume();
      await writers.finish(300, second);
      await expectAllWell(scene);
    });
  },
);

describe.skipIf(postgresBin === undefined || !isLinux)(
  'a backend that stands still while a key is retired',
  () => {
    test('F31: with an insert in its socket: it writes no record of the retired version', async () => {
      const scene = await newScene();
      const { cluster, service } = scene;
      await call(service, 'tokenize', { value: 'a connection' });
      const pids = await inserting(scene);
      expect(pids).toHaveLength(1);
      const resume = stopped(...pids);
      const answer = await call(service, 'tokenize', { value: 'late' });
      expect(answer.status).toBe(500);
      await exchangeKey(scene, 0);
      resume();
      // It executes what is in its socket, and finds nobody to answer.
      const left = () => backends(cluster, `pid = ${pids[0]}`);
      await until(async () => (await left()).length === 0, 'the end of it');
      await expectAllWell(scene);
      expect(await expectKept(scene, ['late'], [answer])).toBe(0);
      await expectAllWell(scene);
    });

    test('F31: with the lock of an insert: retire waits, says for whom, and what comes late is refused', async () => {
      const scene = await newScene();
      const { place, service, json } = scene;
      const unlock = await held(place, LOCK);
      const calling = call(service, 'tokenize', { value: 'late' });
      await until(async () => (await waiting(scene)).length > 0, 'an insert that waits');
      const pids = await waiting(scene);
      const resume = stopped(...pids);
      await unlock();
      await json('keyring rotate');
      const { keys } = openedVault(place);
      await expect(retireKey(keys, 1, 0, 500)).rejects.toThrow(
        new RegExp(`may still write records with it \\(backends: ${pids.join(', ')}\\)`),
      );
      const status = await json('keyring status');
      expect(status.find((key: any) => key.purpose === 'dek' && key.version === 1)).toMatchObject({
        is_primary: false,
        closed_at: expect.stringMatching(/Z$/),
      });
      resume();
      const answer = await calling;
      await retireKey(keys, 1, 0);
      await expectAllWell(scene);
      await expectKept(scene, ['late'], [answer]);
      await expectAllWell(scene);
    });
  },
);
