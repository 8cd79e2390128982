import { expect, test } from 'vitest';
import { EngineKeys, SEAL_LEASE_MS } from '../../src/service/keys/engine-keys.ts';
import { MIN_PRIMARY_AGE_S } from '../../src/service/keys/key-lifecycle.ts';
import type { KeyNews } from '../../src/service/keys/key-news.ts';
import { monotonicMs } from '../../src/timeouts.ts';
import { testKeys } from '../support/keys.ts';

function news(versions: readonly number[], asOfMs = monotonicMs()): KeyNews {
  return { keys: testKeys(versions), asOfMs, failure: undefined };
}

/** Longer ago than keys are believed to be the newest. */
function longAgo(): number {
  return monotonicMs() - SEAL_LEASE_MS - 1;
}

test('fresh keys seal at once, and nothing is asked', async () => {
  const keys = new EngineKeys(news([1]), () => expect.unreachable());
  await keys.readyToSeal();
  await keys.readyToOpen([1], performance.now() + 1_000);
});

test('keys that nobody has confirmed for long seal only once they are renewed, with the newest', async () => {
  const keys: EngineKeys = new EngineKeys(news([1], longAgo()), () =>
    setImmediate(() => keys.take(news([1, 2]))),
  );
  await keys.readyToSeal();
  expect(keys.keyring.primaryVersion).toBe(2);
});

test('keys that cannot be renewed do not seal: an error with the reason', async () => {
  const old = news([1], longAgo());
  const keys: EngineKeys = new EngineKeys(old, () =>
    setImmediate(() => keys.take({ ...old, failure: 'database_unavailable' })),
  );
  await expect(keys.readyToSeal()).rejects.toThrow('database unavailable');
  const cutOff = new EngineKeys(old, () => {});
  await expect(cutOff.readyToSeal()).rejects.toThrow('key version not in the keyring');
});

test('a version that is not known is waited for until the keyring was read after the question', async () => {
  let asked = 0;
  const keys: EngineKeys = new EngineKeys(news([1]), () => {
    const before = monotonicMs() - 1;
    asked++;
    // The answer to an earlier question comes first.
    setImmediate(() => {
      keys.take(news([1], before));
      setImmediate(() => keys.take(news([1, 2])));
    });
  });
  await keys.readyToOpen([1, 2], performance.now() + 10_000);
  expect(keys.keyring.hasVersion(2)).toBe(true);
  expect(asked).toBe(1);
});

test('a version that nobody has is not waited for longer than one reading, and never beyond the deadline', async () => {
  const keys: EngineKeys = new EngineKeys(news([1]), () =>
    setImmediate(() => keys.take(news([1]))),
  );
  await keys.readyToOpen([9], performance.now() + 60_000);
  expect(keys.keyring.hasVersion(9)).toBe(false);
  const cutOff = new EngineKeys(news([1]), () => {});
  await cutOff.readyToOpen([9], performance.now() + 50);
});

test('a version is retired no sooner than twice the time that anybody seals unconfirmed', () => {
  expect(MIN_PRIMARY_AGE_S * 1000).toBeGreaterThanOrEqual(2 * SEAL_LEASE_MS);
});
