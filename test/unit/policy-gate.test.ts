import { expect, onTestFinished, test, vi } from 'vitest';
import type { Policy } from '../../src/policy/policy.ts';
import { PolicyFollower, type PolicySnapshot } from '../../src/policy/policy-follower.ts';
import { PolicyGate } from '../../src/policy/policy-gate.ts';
import { defaultKind } from '../../src/shape/kind.ts';
import type { PolicyStore } from '../../src/store/policies.ts';
import { leaseMs } from '../../src/timeouts.ts';

const WORK = new URL('../../dist/policy/policy-work.js', import.meta.url).href;

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
  ...{ version, tag, fields: undefined, rights: undefined, elsewhere: 'tokenize' },
  kinds: [defaultKind('text', 'text')],
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

test('a document that could not be read for want of a thread is read again', async () => {
  let passedMs = 0;
  const now = performance.now.bind(performance);
  const clock = vi.spyOn(performance, 'now').mockImplementation(() => now() + passedMs);
  onTestFinished(() => clock.mockRestore());
  const stored = { version: 1, applied_at: new Date(0), applied_by: 'a', document: '' };
  const store = {
    hasBareTokens: async () => false,
    candidates: async () => [{ ...stored, is_durable: true, is_noted: true }],
    get: async () => stored,
  } as Partial<PolicyStore> as PolicyStore;
  let hasThread = false;
  const follower = new PolicyFollower(store, undefined, async () => {
    if (!hasThread) throw new Error('no thread');
    return [policy(1, 'a')];
  });
  expect((await follower.refresh()).problem).toMatchObject({ message: 'no thread' });
  hasThread = true;
  passedMs += 100;
  expect(await follower.refresh()).toMatchObject({ problem: undefined, policy: { version: 1 } });
});
