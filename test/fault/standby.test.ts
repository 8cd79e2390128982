import { describe, expect, test } from 'vitest';
import { postgresBin } from '../support/postgres.ts';
import { call, createClient, type Service, until } from '../support/service.ts';
import { ENDS, end, failOver, newPair, waiting } from '../support/standby.ts';
import { detokenizeAll } from '../support/vault.ts';

/** One request for each value, all at once; what was acknowledged. */
async function tokenizeEach(node: Service, values: readonly string[], apiKey: string) {
  const answers = await Promise.all(
    values.map((value) => call(node, 'tokenize', { value }, apiKey)),
  );
  return answers.flatMap(({ status, body }, i) =>
    status === 200 ? [{ value: values[i]!, token: body.data.value as string }] : [],
  );
}

type Kept = Awaited<ReturnType<typeof tokenizeEach>>;
const tokensOf = (kept: Kept) => kept.map(({ token }) => token);

async function expectRestored(node: Service, kept: Kept, apiKey: string): Promise<void> {
  const values = kept.map(({ value }) => value);
  expect(await detokenizeAll(node, tokensOf(kept), apiKey)).toEqual(values);
}

async function expectUnknown(node: Service, tokens: readonly string[], apiKey: string) {
  for (const token of tokens)
    expect((await call(node, 'detokenize', { token }, apiKey)).status).toBe(400);
}

const ten = (name: string) => Array.from({ length: 10 }, (_, i) => `${name} ${i}`);

describe.skipIf(postgresBin === undefined)('F29: the standby is cut off, the primary lives', () => {
  test('what the standby does not have is not acknowledged, however often it is sent; after the failover nothing acknowledged is lost', async () => {
    const pair = await newPair();
    const { proxy, place, nodes, api_key: apiKey } = pair;
    const [one, other] = nodes as [Service, Service];
    const { api_key: lastingKey } = await createClient(place);
    const { api_key: leasedKey } = await createClient(place, '--time-to-live', '1h');
    const kept = await tokenizeEach(one, ten('before'), apiKey);
    const recent = await tokenizeEach(one, ten('recent'), apiKey);
    const leased = await tokenizeEach(other, ten('leased'), leasedKey);
    expect(kept.length + recent.length + leased.length).toBe(30);
    await pair.ok(['forget', '--yes', ...tokensOf(recent)]);

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
    await expectRestored(other, [...kept, ...leased], apiKey);
    await expectUnknown(one, tokensOf(recent), apiKey);
    for (const node of nodes) {
      const sentAgain = await tokenizeEach(node, [...ten('new'), ...ten('recent')], apiKey);
      expect(sentAgain).toHaveLength(20);
      await expectRestored(other, sentAgain, apiKey);
    }
    await pair.ok('verify');
  });
});
