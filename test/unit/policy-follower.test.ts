import { expect, onTestFinished, test, vi } from 'vitest';
import { NO_POLICY, type Policy } from '../../src/policy/policy.ts';
import { PolicyFollower } from '../../src/policy/policy-follower.ts';
import { defaultKind } from '../../src/shape/kind-settings.ts';
import type { PolicyStore } from '../../src/store/policies.ts';

const WORK = new URL('../../dist/policy/policy-work.js', import.meta.url).href;

const stored = { version: 1, applied_at: new Date(0), applied_by: 'a', document: '' };

/** A store with one durable version; `next` makes it another. */
function oneVersion() {
  let isNone = true;
  let changes = 0;
  const head = () => ({ ...stored, applied_at: new Date(changes) });
  const store = {
    hasBareTokens: async () => false,
    candidates: async () => (isNone ? [] : [{ ...head(), is_durable: true, is_noted: true }]),
    get: async () => head(),
  } as Partial<PolicyStore> as PolicyStore;
  const next = (isAny: boolean) => {
    isNone = !isAny;
    changes++;
  };
  return { store, next };
}

const policy = (version: number, tag: string): Policy => ({
  ...{ version, tag, fields: undefined, rights: undefined, elsewhere: 'tokenize' },
  detect: [],
  kinds: [defaultKind('text', 'text')],
});

test('a policy is its number and its content, and none is one, too', async () => {
  const { store, next } = oneVersion();
  let newest: Policy | undefined;
  const follower = new PolicyFollower(store, undefined, async () => [newest!]);
  onTestFinished(() => follower.stop());
  const passed: string[] = [];
  await follower.start(({ tag }) => passed.push(tag));
  const read = async (one: Policy | undefined) => {
    newest = one;
    next(one !== undefined);
    await follower.refresh();
    return follower.current();
  };
  expect((await read(undefined)).policy).toBe(NO_POLICY);
  const first = await read(policy(1, 'a'));
  expect(await read(policy(1, 'a'))).toBe(first);
  expect(await read(policy(1, 'b'))).toMatchObject({ policy: { version: 1, tag: 'b' } });
  expect(await read(policy(2, 'b'))).toMatchObject({ policy: { version: 2, tag: 'b' } });
  expect((await read(undefined)).policy).toBe(NO_POLICY);
  expect(await read(policy(1, 'a'))).toMatchObject({ policy: { version: 1, tag: 'a' } });
  expect(passed).toEqual(['a', 'b', 'b', 'a']);
});

test('tokens without the suffix that are imported later are known from then on', async () => {
  const { store } = oneVersion();
  const bare = vi.spyOn(store, 'hasBareTokens');
  const follower = new PolicyFollower(store);
  const known: boolean[] = [];
  for (const isTold of [false, true, false]) {
    bare.mockResolvedValue(isTold);
    await follower.refresh();
    known.push((await follower.current()).hasBareTokens);
  }
  expect(known).toEqual([false, true, true]);
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
  const { store, next } = oneVersion();
  next(true);
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
