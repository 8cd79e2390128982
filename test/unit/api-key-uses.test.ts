import { expect, onTestFinished, test, vi } from 'vitest';
import { ApiKeyUses } from '../../src/access/api-key-uses.ts';
import type { ApiKeyStore } from '../../src/store/api-keys.ts';

test('requests are counted by client, unused ones are not there, and from the 1,001st on together', () => {
  const uses = new ApiKeyUses(undefined as unknown as ApiKeyStore);
  for (let rank = 0; rank < 1_003; rank++) {
    for (const key of ['first', 'second']) {
      const use = uses.of(`${key} of ${rank}`, `client ${rank}`, rank);
      if (rank !== 5) use.counts.requests += 2;
    }
  }
  const counts = uses.counts();
  expect(counts.size).toBe(1_000);
  expect(counts.get('client 0')?.requests).toBe(4);
  expect(counts.has('client 5')).toBe(false);
  expect(counts.get('client 999')?.requests).toBe(4);
  expect(counts.get('other')?.requests).toBe(12);
});

test('what became of strings is counted by client, also with API keys that have ended', () => {
  const uses = new ApiKeyUses(undefined as unknown as ApiKeyStore);
  for (const key of ['ended', 'live']) {
    const use = uses.of(key, 'client', 0);
    use.counts.requests += 3;
    use.counts.replaced += 2;
    use.counts.passed += 1;
  }
  uses.keepOnly(new Set(['live']));
  const sum = { requests: 6, replaced: 4, passed: 2 };
  for (const _ of 'twice') expect(Object.fromEntries(uses.counts())).toEqual({ client: sum });
});

test('each use of an API key is written, also of one that has ended, after a write that failed, and during one', async () => {
  const marked: (readonly string[])[] = [];
  let isAway = true;
  const use = (key: string) => {
    const used = uses.of(key, 'client', 0);
    used.counts.requests++;
    used.isUnwritten = true;
  };
  const mark = async (apiKeyIds: readonly string[]) => {
    if (isAway) throw new Error('the database is away');
    // A use during the write is of the next one.
    if (marked.push(apiKeyIds) === 1) use('live');
  };
  const uses = new ApiKeyUses({ markUsed: mark } as unknown as ApiKeyStore);
  for (const key of ['ended', 'live', 'unused']) uses.of(key, 'client', 0);
  for (const key of ['ended', 'live']) use(key);
  await uses.stop();
  uses.keepOnly(new Set(['live', 'unused']));
  isAway = false;
  await uses.stop();
  uses.keepOnly(new Set(['live', 'unused']));
  for (const _ of 'twice') await uses.stop();
  expect(marked).toEqual([['ended', 'live'], ['live']]);
  expect(uses.counts().get('client')?.requests).toBe(3);
});

test('uses are written within seconds, then once a minute, and at the end in half a second', async () => {
  vi.useFakeTimers({ toFake: ['setInterval', 'clearInterval', 'performance'] });
  onTestFinished(() => void vi.useRealTimers());
  const marked: number[] = [];
  const mark = async (_: unknown, deadlineMs: number) =>
    marked.push(performance.now() - startMs, deadlineMs - performance.now());
  const uses = new ApiKeyUses({ markUsed: mark } as unknown as ApiKeyStore);
  const startMs = performance.now();
  uses.start();
  const use = () => Object.assign(uses.of('key', 'client', 0), { isUnwritten: true });
  for (let s = 0; s < 65; s += 5) {
    use();
    vi.advanceTimersByTime(5_000);
  }
  use();
  await uses.stop();
  expect(vi.getTimerCount()).toBe(0);
  expect(marked).toEqual([5_000, 4_000, 65_000, 4_000, 65_000, 500]);
});
