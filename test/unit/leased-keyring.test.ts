import { expect, test } from 'vitest';
import { monotonicMs } from '../../src/timeouts.ts';
import type { KeySnapshot } from '../../src/vault/keyring-follower.ts';
import { LeasedKeyring, SEAL_LEASE_MS } from '../../src/vault/leased-keyring.ts';
import { testKeyId, testKeys } from '../support/keys.ts';

function snapshot(versions: readonly number[], asOfMs = monotonicMs()): KeySnapshot {
  return { keys: testKeys(versions), asOfMs, isDurable: true, failure: undefined };
}

/** Longer ago than keys are believed to be the newest. */
function longAgo(): number {
  return monotonicMs() - SEAL_LEASE_MS - 1;
}

/** Keys whose next read brings this. */
function renewedBy(first: KeySnapshot, next: () => KeySnapshot): LeasedKeyring {
  const keys: LeasedKeyring = new LeasedKeyring(first, () => setImmediate(() => keys.take(next())));
  return keys;
}

test('fresh keys seal at once, and nothing is asked', async () => {
  const keys = new LeasedKeyring(snapshot([1]), () => expect.unreachable());
  await keys.readyToSeal();
  await keys.readyToOpen([1], performance.now() + 1_000);
});

test('keys that nobody has confirmed for long seal only once they are renewed, with the newest', async () => {
  const keys = renewedBy(snapshot([1], longAgo()), () => snapshot([1, 2]));
  await keys.readyToSeal();
  expect(keys.keyring.primaryVersion).toBe(2);
});

test('all who wait for keys go on when they come', async () => {
  const keys = new LeasedKeyring(snapshot([1], longAgo()), () => {});
  let sealing = 0;
  for (let i = 0; i < 3; i++) void keys.readyToSeal().then(() => sealing++);
  keys.take(snapshot([1, 2]));
  await new Promise((resolve) => setImmediate(resolve));
  expect(sealing).toBe(3);
});

test('keys that cannot be renewed do not seal: an error with the reason', async () => {
  const old = snapshot([1], longAgo());
  const keys = renewedBy(old, () => ({ ...old, failure: 'database_unavailable' }));
  await expect(keys.readyToSeal()).rejects.toThrow('database unavailable');
  const cutOff = new LeasedKeyring(old, () => {});
  await expect(cutOff.readyToSeal()).rejects.toThrow('key version not in the keyring');
});

test('keys that the standby lacks do not seal, also when they were just read', async () => {
  const uncertain = () => ({ ...snapshot([1, 2]), isDurable: false });
  const failed = () => ({ ...uncertain(), failure: 'database_unavailable' as const });
  const keys = renewedBy(uncertain(), failed);
  await expect(keys.readyToSeal()).rejects.toThrow('database unavailable');
});

test('a version that takes no more records does not seal again while there is no newer one', async () => {
  const keys = renewedBy(snapshot([1]), () => snapshot([1]));
  await expect(keys.readyToSealAfter(testKeyId(1))).rejects.toThrow(
    'key version not in the keyring',
  );
});

test('a version that is not known is waited for until the keyring was read after the question', async () => {
  let asked = 0;
  const before = monotonicMs() - 1;
  const keys: LeasedKeyring = new LeasedKeyring(snapshot([1]), () => {
    asked++;
    // The answer to an earlier question comes first.
    setImmediate(() => {
      keys.take(snapshot([1], before));
      setImmediate(() => keys.take(snapshot([1, 2])));
    });
  });
  await keys.readyToOpen([1, 2], performance.now() + 10_000);
  expect(keys.keyring.hasVersion(2)).toBe(true);
  expect(asked).toBe(1);
});

test('a version that nobody has is not waited for longer than one reading, and never beyond the deadline', async () => {
  const keys = renewedBy(snapshot([1]), () => snapshot([1]));
  await keys.readyToOpen([9], performance.now() + 60_000);
  expect(keys.keyring.hasVersion(9)).toBe(false);
  const cutOff = new LeasedKeyring(snapshot([1]), () => {});
  await cutOff.readyToOpen([9], performance.now() + 50);
});
