import { expect, onTestFinished, test, vi } from 'vitest';
import type { Policy } from '../../src/policy/policy.ts';
import type { PolicyFollower, PolicySnapshot } from '../../src/service/policy-follower.ts';
import { PolicyGate } from '../../src/service/policy-gate.ts';
import { leaseMs } from '../../src/timeouts.ts';

const WORK = new URL('../../dist/service/policy-work.js', import.meta.url).href;

/** A gate on reads that the test makes up, and what it passed on. */
function gateOf() {
  let listener = (_: PolicySnapshot) => {};
  const follower = {
    latest: snapshot(undefined),
    subscribe: (one: typeof listener) => (listener = one),
  };
  const passed: string[] = [];
  const gate = new PolicyGate(follower as unknown as PolicyFollower, ({ tag }) => passed.push(tag));
  const read = (policy: Policy | undefined, asOfMs?: number) => {
    follower.latest = snapshot(policy, asOfMs);
    listener(follower.latest);
    return gate.current();
  };
  return { passed, read };
}

const snapshot = (policy: Policy | undefined, asOfMs = leaseMs()): PolicySnapshot => ({
  ...{ policy, asOfMs, hasBareTokens: false, problem: undefined },
});
const policy = (version: number, tag: string): Policy => ({
  ...{ version, tag, kinds: [], fields: undefined, rights: undefined, elsewhere: 'tokenize' },
});

test('a policy is its number and its content, and none is one, too', () => {
  const { passed, read } = gateOf();
  expect(read(undefined)).toMatchObject({ version: 0, tag: undefined });
  const first = read(policy(1, 'a'));
  expect(read(policy(1, 'a'))).toBe(first);
  expect(read(policy(1, 'b'))).toMatchObject({ version: 1, tag: 'b' });
  expect(read(policy(2, 'b'))).toMatchObject({ version: 2, tag: 'b' });
  expect(read(undefined)).toMatchObject({ version: 0, tag: undefined });
  expect(read(policy(1, 'a'))).toMatchObject({ version: 1, tag: 'a' });
  expect(passed).toEqual(['a', 'b', 'b', 'a']);
});

test('a document that is read for too long is given up', async () => {
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
  onTestFinished(() => void vi.useRealTimers());
  // The build, which has the thread.
  const { offThread } = await import(WORK);
  const read = offThread('read', []);
  vi.advanceTimersByTime(30_000);
  await expect(read).rejects.toThrow('takes too long to read');
});
