import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { postgresBin, query } from '../support/postgres.ts';
import { call, createClient, type Place, runCli, type Service, until } from '../support/service.ts';
import { ENDS, end, failOver, newPair, waiting } from '../support/standby.ts';
import { detokenizeAll } from '../support/vault.ts';

async function newClient(place: Place, ...options: string[]): Promise<string> {
  return (await createClient(place, ...options)).api_key;
}

/** One request for each value, all at once; what was acknowledged. */
async function tokenizeEach(node: Service, values: readonly string[], apiKey: string) {
  const answers = await Promise.all(
    values.map((value) => call(node, 'tokenize', { value }, apiKey)),
  );
  return answers.flatMap(({ status, body }, i) =>
    status === 200 ? [{ value: values[i]!, token: body.data.value as string }] : [],
  );
}

async function expectVerified(place: Place): Promise<void> {
  const { code, stderr } = await runCli(['verify'], place);
  expect(code, stderr).toBe(0);
}

const ten = (name: string) => Array.from({ length: 10 }, (_, i) => `${name} ${i}`);

describe.skipIf(postgresBin === undefined)('F29: the standby is cut off, the primary lives', () => {
  test('what the standby does not have is not acknowledged, however often it is sent; after the failover nothing acknowledged is lost', async () => {
    const pair = await newPair();
    const { proxy, place, nodes, api_key: apiKey } = pair;
    const [one, other] = nodes as [Service, Service];
    const lastingKey = await newClient(place);
    const leasedKey = await newClient(place, '--time-to-live', '1h');
    const kept = await tokenizeEach(one, ten('before'), apiKey);
    const recent = await tokenizeEach(one, ten('recent'), apiKey);
    const leased = await tokenizeEach(other, ten('leased'), leasedKey);
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
    await everywhere(ten('new'), apiKey);
    await everywhere(ten('recent'), apiKey);
    await everywhere(ten('leased'), lastingKey);
    expect(acknowledged).toEqual([]);

    // Their own attempts to do it again are refused as well.
    for (const how of ENDS) {
      const calls = tokenizeEach(one, ten(how), apiKey);
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
    expect(await detokenizeAll(other, known, apiKey)).toEqual(there.map(({ value }) => value));
    for (const { token } of recent)
      expect((await call(one, 'detokenize', { token }, apiKey)).status).toBe(400);
    for (const node of nodes) {
      const sentAgain = await tokenizeEach(node, [...ten('new'), ...ten('recent')], apiKey);
      expect(sentAgain).toHaveLength(20);
      const values = sentAgain.map(({ value }) => value);
      const thereNow = sentAgain.map(({ token }) => token);
      expect(await detokenizeAll(other, thereNow, apiKey)).toEqual(values);
    }
    await expectVerified(place);
  });

  test('a forget that the standby does not have fails, also when it is sent again; an acknowledged one is not undone', async () => {
    const pair = await newPair();
    const { proxy, place, nodes, api_key: apiKey } = pair;
    const pairs = await tokenizeEach(nodes[0]!, ten('to forget'), apiKey);
    const [first, ...others] = pairs.map(({ token }) => token);
    expect((await runCli(['forget', '--yes', first!], place)).code).toBe(0);

    proxy.silence();
    const forgetting = runCli(['forget', '--yes', ...others], place);
    const isWaiting = async () => (await waiting(pair)).length > 0;
    await until(isWaiting, 'a removal that waits');
    // It finds them forgotten already when it tries again.
    await end(pair, await waiting(pair));
    await until(isWaiting, 'the same again');
    const again = runCli(['forget', '--yes', ...others], place);
    const file = join(place.folder, 'values.txt');
    writeFileSync(file, pairs.map(({ value }) => value).join('\n'));
    const byValue = runCli(['forget', '--yes', '--values', file], place);
    for (const { code, stderr } of await Promise.all([forgetting, again, byValue])) {
      expect(code).toBe(1);
      expect(stderr).toContain('database unavailable');
    }

    await failOver(pair);
    const { status } = await call(nodes[0]!, 'detokenize', { first }, apiKey);
    expect(status).toBe(400);
    expect((await runCli(['forget', '--yes', '--values', file], place)).code).toBe(0);
    for (const token of others)
      expect((await call(nodes[1]!, 'detokenize', { token }, apiKey)).status).toBe(400);
    await expectVerified(place);
  });

  test('a key that the standby does not have seals nothing: after the failover its version is another key', async () => {
    const pair = await newPair();
    const { primary, proxy, standby, place, nodes, api_key: apiKey } = pair;
    const [one, other] = nodes as [Service, Service];
    proxy.silence();
    const rotating = runCli(['keyring', 'rotate'], place);
    await until(async () => (await waiting(pair)).length > 0, 'a rotation that waits');
    await end(pair, await waiting(pair), 'pg_cancel_backend');
    expect((await rotating).code).toBe(1);
    const versions = await query(
      primary.directUrl(new URL(place.env.DATABASE_URL!.replace(/,[^/]*/, '')).pathname.slice(1)),
      "select count(*)::int as n from standin.keyring where purpose = 'dek'",
    );
    expect(versions[0]!.n).toBe(2);
    for (const node of nodes)
      await until(() => node.output().includes('the keyring cannot be renewed'), 'a look');

    // One node sleeps through the failover and the rotation that is made again.
    one.kill('SIGSTOP');
    await primary.crash();
    standby.promote();
    const works = async () =>
      (await call(other, 'tokenize', { a: 'there again' }, apiKey)).status === 200;
    await until(works, 'the new primary');
    expect((await runCli(['keyring', 'rotate'], place)).code).toBe(0);
    const calls = tokenizeEach(one, ten('late'), apiKey);
    one.kill('SIGCONT');
    const late = await calls;
    const tokens = late.map(({ token }) => token);
    expect(await detokenizeAll(other, tokens, apiKey)).toEqual(late.map(({ value }) => value));
    const again = await tokenizeEach(one, ten('after'), apiKey);
    expect(again).toHaveLength(10);
    await expectVerified(place);
  });
});
