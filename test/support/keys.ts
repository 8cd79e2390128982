import { Keyring, type PlainKey } from '../../src/crypto/keyring.ts';
import { LeasedKeyring } from '../../src/service/keys/leased-keyring.ts';
import { KEY_PURPOSES } from '../../src/types.ts';
import { seededBytes } from './bytes.ts';

/** A key derived from its name. */
export function testKey(name: string): Buffer {
  return Buffer.from(seededBytes(name, 32), 'latin1');
}

/** One key for each purpose, and a DEK for each version. */
export function testKeys(dekVersions: readonly number[] = [1]): PlainKey[] {
  const others = KEY_PURPOSES.filter((purpose) => purpose !== 'dek');
  return [
    ...dekVersions.map((version) => ({
      purpose: 'dek' as const,
      version,
      bytes: testKey(`dek ${version}`),
    })),
    ...others.map((purpose) => ({ purpose, version: 1, bytes: testKey(purpose) })),
  ];
}

export function testKeyring(dekVersions?: readonly number[]): Keyring {
  return new Keyring(testKeys(dekVersions));
}

/** The test keys in the form of an engine, never too old to seal. */
export function testLeasedKeyring(): LeasedKeyring {
  const snapshot = { keys: testKeys(), asOfMs: Infinity, failure: undefined };
  return new LeasedKeyring(snapshot, () => {});
}
