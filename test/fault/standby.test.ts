import { describe, expect, onTestFinished, test } from 'vitest';
import { newCluster, newProxy, newVault, start } from '../support/fault.ts';
import type { FaultProxy } from '../support/fault-proxy.ts';
import { type PostgresCluster, postgres_bin, query } from '../support/postgres.ts';
import { call, type Place, runCli, type Service, until } from '../support/service.ts';
import { detokenizeAll } from '../support/vault.ts';

interface Pair {
  readonly primary: PostgresCluster;
  readonly standby: PostgresCluster;
  /** Between the two. */
  readonly proxy: FaultProxy;
  readonly place: Place;
  readonly nodes: readonly Service[];
  readonly api_key: string;
}

/** Two nodes on a primary and its synchronous standby. */
async function newPair(): Promise<Pair> {
  const primary = await newCluster();
  const place = await newVault(primary);
  const proxy = await newProxy(primary);
  const standby = await primary.startStandby(proxy.through(primary.directUrl('postgres')));
  onTestFinished(() => standby.stop());
  place.env.DATABASE_URL = place.env.DATABASE_URL!.replace(
    /@[^/]*/,
    `@127.0.0.1:${primary.port},127.0.0.1:${standby.port}`,
  );
  const nodes = [await start(place), await start(place)];
  return { primary, standby, proxy, place, nodes, api_key: nodes[0]!.api_key };
}

/** Process ids of the backends of the service, and of its commands, that wait for the standby. */
async function waiting({ primary }: Pair): Promise<number[]> {
  const rows = await query(
    primary.directUrl('postgres'),
    "select pid from pg_stat_activity where application_name = 'standin' and wait_event = 'SyncRep'",
  );
  return rows.map((row) => row.pid);
}

/** What an administrator can do to a backend that waits. */
const ENDS = ['pg_terminate_backend', 'pg_cancel_backend'] as const;

async function end(
  { primary }: Pair,
  pids: readonly number[],
  how: (typeof ENDS)[number] = 'pg_terminate_backend',
): Promise<void> {
  for (const pid of pids) await query(primary.directUrl('postgres'), `select ${how}($1)`, [pid]);
}

async function newClient(place: Place, ...options: string[]): Promise<string> {
  const { code, stdout } = await runCli(
    ['client', 'create', '--name', 'another', '--json', ...options],
    place,
  );
  expect(code).toBe(0);
  return JSON.parse(stdout).api_key;
}

/** One request for each value, all at once; what was acknowledged. */
async function tokenizeEach(node: Service, values: readonly string[], api_key: string) {
  const answers = await Promise.all(
    values.map((value) => call(node, 'tokenize', { value }, api_key)),
  );
  return answers.flatMap(({ status, body }, i) =>
    status === 200 ? [{ value: values[i]!, token: body.data.value as string }] : [],
  );
}

/** The standby becomes the primary, and the old one is gone for good. */
async function failOver(pair: Pair): Promise<void> {
  const { primary, standby, nodes, api_key } = pair;
  await primary.crash();
  standby.promote();
  for (const node of nodes) {
    const works = async () =>
      (await call(node, 'tokenize', { a: 'there again' }, api_key)).status === 200;
    await until(works, 'the new primary');
  }
}

async function expectVerified(place: Place): Promise<void> {
  const { code, stderr } = await runCli(['verify'], place);
  expect(code, stderr).toBe(0);
}

const ten = (name: string) => Array.from({ length: 10 }, (_, i) => `${name} ${i}`);

describe.skipIf(postgres_bin === undefined)(
  'F29: the standby is cut off, the primary lives',
  () => {
    test('what the standby does not have is not acknowledged, however often it is sent; after the failover nothing acknowledged is lost', async () => {
      const pair = await newPair();
      const { proxy, place, nodes, api_key } = pair;
      const [one, other] = nodes as [Service, Service];
      const lasting_key = await newClient(place);
      const leased_key = await newClient(place, '--time-to-live', '1h');
      const kept = await tokenizeEach(one, ten('before'), api_key);
      const recent = await tokenizeEach(one, ten('recent'), api_key);
      const leased = await tokenizeEach(other, ten('leased'), leased_key);
      expect(kept.length + recent.length + leased.length).toBe(30);
      const tokens = recent.map(({ token }) => token);
      expect((await runCli(['forget', '--yes', ...tokens], place)).code).toBe(0);

      proxy.silence();
      const acknowledged: unknown[] = [];
      const everywhere = async (values: string[], key: string) => {
        for (const node of [one, other, one])
          acknowledged.push(...(await tokenizeEach(node, values, key)));
      };
      // New, sent again; put back, where one node has a note of it; kept for longer.
      await everywhere(ten('new'), api_key);
      await everywhere(ten('recent'), api_key);
      await everywhere(ten('leased'), lasting_key);
      expect(acknowledged).toEqual([]);

      // Their own attempts to do it again are refused as well.
      for (const how of ENDS) {
        const calls = tokenizeEach(one, ten(how), api_key);
        await until(async () => (await waiting(pair)).length > 0, 'a commit that waits');
        const first = await waiting(pair);
        await end(pair, first, how);
        const again = async () => (await waiting(pair)).some((pid) => !first.includes(pid));
        await until(again, 'a commit that waits, of rows that were found');
        expect(await calls).toEqual([]);
      }

      await failOver(pair);
      const there = [...kept, ...leased];
      const known = there.map(({ token }) => token);
      expect(await detokenizeAll(other, known, api_key)).toEqual(there.map(({ value }) => value));
      for (const { token } of recent)
        expect((await call(one, 'detokenize', { token }, api_key)).status).toBe(400);
      for (const node of nodes) {
        const sent_again = await tokenizeEach(node, [...ten('new'), ...ten('recent')], api_key);
        expect(sent_again).toHaveLength(20);
        const values = sent_again.map(({ value }) => value);
        const there_now = sent_again.map(({ token }) => token);
        expect(await detokenizeAll(other, there_now, api_key)).toEqual(values);
      }
      await expectVerified(place);
    });

    test('a forget that the standby does not have fails, also when it is sent again; an acknowledged one is not undone', async () => {
      const pair = await newPair();
      const { proxy, place, nodes, api_key } = pair;
      const pairs = await tokenizeEach(nodes[0]!, ten('to forget'), api_key);
      const [first, ...others] = pairs.map(({ token }) => token);
      expect((await runCli(['forget', '--yes', first!], place)).code).toBe(0);

      proxy.silence();
      const forgetting = runCli(['forget', '--yes', ...others], place);
      const is_waiting = async () => (await waiting(pair)).length > 0;
      await until(is_waiting, 'a removal that waits');
      // It finds them forgotten already when it tries again.
      await end(pair, await waiting(pair));
      await until(is_waiting, 'the same again');
      const again = runCli(['forget', '--yes', ...others], place);
      for (const { code, stderr } of await Promise.all([forgetting, again])) {
        expect(code).toBe(1);
        expect(stderr).toContain('database unavailable');
      }

      await failOver(pair);
      const { status } = await call(nodes[0]!, 'detokenize', { first }, api_key);
      expect(status).toBe(400);
      expect((await runCli(['forget', '--yes', ...others], place)).code).toBe(0);
      for (const token of others)
        expect((await call(nodes[1]!, 'detokenize', { token }, api_key)).status).toBe(400);
      await expectVerified(place);
    });
  },
);
