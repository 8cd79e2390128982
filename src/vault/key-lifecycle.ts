import { type Kek, kekOf } from '../crypto/kek.ts';
import type { PlainKey } from '../crypto/keyring.ts';
import { newKeyBytes } from '../crypto/primitives.ts';
import { OperatorError } from '../errors.ts';
import { kekSourceOf } from '../kek/kek-source.ts';
import type { KekSettings, KekSource } from '../kek/source.ts';
import type { VaultOptions } from '../options.ts';
import { countByVersion } from '../store/record-counts.ts';
import { type LockedKeys, WrappedKeyStore } from '../store/wrapped-keys.ts';
import { count } from '../terminal.ts';
import { commandDeadline } from '../timeouts.ts';
import type { Durable, WrappedKey } from '../types.ts';
import { SEAL_LEASE_MS } from './leased-keyring.ts';
import { primaryVersionOf, unwrap, wrap } from './open-keys.ts';
import { openPool } from './pools.ts';
import type { Vault } from './vault.ts';
import { requireVault } from './vault-place.ts';

/** The column `key_version` is a smallint. */
const MAX_VERSION = 32_767;
/** Twice the longest time for which a process seals without reading the keyring. */
export const MIN_PRIMARY_AGE_S = (2 * SEAL_LEASE_MS) / 1000;
/** Writes of the service end within 5 s; those of `keyring reseal` end soon after. */
const WRITERS_TIMEOUT_MS = 30_000;
/** A scan of a billion records takes minutes. */
const SCAN_TIMEOUT_MS = 3_600_000;

/**
 * Adds a DEK version and makes it the primary. Concurrent calls each add one.
 * @param check gets the present primary, and may throw to keep it
 * @throws OperatorError when the KEK does not belong to this vault, or no version is left
 */
export async function rotateKey(
  store: WrappedKeyStore,
  source: KekSource,
  check?: (primary: number) => void,
): Promise<Durable<{ readonly version: number }>> {
  const kek = kekOf(await source.read());
  return store.locked(commandDeadline(), async ({ keys, insert }) => {
    // With a wrong KEK or a changed row, a new key would only hide the problem.
    unwrap(keys, kek, source);
    const primary = primaryVersionOf(keys);
    check?.(primary);
    const version = primary + 1;
    if (version > MAX_VERSION) {
      throw new OperatorError(
        `This vault already has ${MAX_VERSION} key versions, the most that it can have.`,
      );
    }
    await insert(wrap(kek, 'dek', version, newKeyBytes()));
    return { version };
  });
}

/**
 * Destroys a DEK version that no record needs. Three steps make sure that no record can appear
 * later: close the version to new writes, wait for running writes, then count the records.
 * @param minPrimaryAgeS below this age of the primary, nodes may still seal with the old version
 * @throws OperatorError when records need the version, or may need it; nothing was destroyed
 */
export async function retireKey(
  store: WrappedKeyStore,
  version: number,
  minPrimaryAgeS = MIN_PRIMARY_AGE_S,
  writersTimeoutMs = WRITERS_TIMEOUT_MS,
): Promise<Durable<{ readonly version: number }>> {
  // Durably, because "there is no such version" says that an uncertain run has removed it.
  refusePrimaryVersion(await store.listDurable(commandDeadline()), version);
  // Counted before the close, and before the lock, which would block a reseal.
  const needed = await store.countRecords(version, performance.now() + SCAN_TIMEOUT_MS);
  refuseNeeded(version, needed, 'nothing was changed');
  await store.locked(commandDeadline(), async (locked) => {
    refusePrimaryVersion(locked.keys, version);
    await refuseEarly(locked, version, minPrimaryAgeS);
    await locked.close(version);
  });
  refuseWriters(version, await store.writersGone(writersTimeoutMs));
  return store.locked(performance.now() + SCAN_TIMEOUT_MS, async (locked) => {
    refusePrimaryVersion(locked.keys, version);
    refuseNeeded(version, await locked.countRecords(version), STAYS_CLOSED);
    await locked.remove(version);
    return { version };
  });
}

const STAYS_CLOSED = 'the version stays closed: it seals no new records, and still opens old ones';

function refusePrimaryVersion(keys: readonly WrappedKey[], version: number): void {
  if (!keys.some((key) => key.purpose === 'dek' && key.version === version)) {
    throw new OperatorError(
      `There is no dek key of version ${version}. List the keys with: standin keyring status`,
    );
  }
  if (version === primaryVersionOf(keys)) {
    throw new OperatorError(
      `Version ${version} is the primary, which seals new records. First run: standin keyring rotate, then: standin keyring reseal`,
    );
  }
}

async function refuseEarly({ keys, ageOf }: LockedKeys, version: number, minPrimaryAgeS: number) {
  const primary = primaryVersionOf(keys);
  const ageS = await ageOf(primary);
  if (ageS < minPrimaryAgeS) {
    throw new OperatorError(
      `The primary, version ${primary}, is ${Math.floor(ageS)} s old, so nodes may still seal with version ${version}. Try again in ${Math.ceil(minPrimaryAgeS - ageS)} s.`,
    );
  }
}

function refuseWriters(version: number, writers: readonly string[]): void {
  if (writers.length === 0) return;
  throw new OperatorError(
    `Transactions that began before key version ${version} was closed may still write records with it (backends: ${writers.join(', ')}); ${STAYS_CLOSED}. Run the command again when they have ended, or end them: select pg_terminate_backend(PID)`,
  );
}

function refuseNeeded(version: number, records: number, whatHolds: string): void {
  if (records === 0) return;
  throw new OperatorError(
    `${count(records, 'record')} ${records === 1 ? 'needs' : 'need'} key version ${version}; ${whatHolds}. Run: standin keyring reseal. If it reports damaged records, restore their rows from a backup first.`,
  );
}

/**
 * Wraps all keys with another KEK, in one transaction. The vault need not open. Afterwards only the
 * new KEK opens it. Returns how many keys it wrapped with the new KEK; 0: all were already.
 * @throws OperatorError; nothing was changed
 */
export async function rewrapKeys(options: VaultOptions, next: KekSettings) {
  await requireVault(options);
  const target = kekSourceOf({ ...options, kek: next });
  const kek = kekOf(await target.read());
  const current = kekSourceOf(options);
  // The old KEK may be gone after a finished rewrap. Then no key is left to unwrap.
  const old: Kek | Error = await current.read().then(kekOf, (error: Error) => error);
  const pool = openPool(options);
  try {
    return await new WrappedKeyStore(pool).locked(commandDeadline(), async (locked) => {
      if (locked.keys.length === 0) throw new OperatorError(NO_KEYS);
      const pending = locked.keys.filter(({ kek_id: kekId }) => kekId !== kek.id);
      if (old instanceof Error && pending.length > 0) throw old;
      if (!(old instanceof Error)) {
        if (pending.length === 0 && old.id === kek.id) throw sameKek(kek, current, target);
        await rewrap(locked, unwrap(pending, old, current), kek);
      }
      return { kek_id: kek.id, keys: pending.length };
    });
  } finally {
    await pool.end();
  }
}

const NO_KEYS = 'The vault has no keys to wrap yet. Make them with: standin serve';

async function rewrap(locked: LockedKeys, opened: readonly PlainKey[], kek: Kek): Promise<void> {
  for (const { purpose, version, bytes } of opened) {
    const key = wrap(kek, purpose, version, bytes);
    // A key that does not unwrap is lost for ever, so each one is checked before it is stored.
    if (!kek.unwrap(purpose, version, key.wrapped)?.equals(bytes)) {
      throw new Error(`the ${purpose} key, version ${version}, does not unwrap again`);
    }
    await locked.update(key);
  }
}

function sameKek(kek: Kek, current: KekSource, target: KekSource): OperatorError {
  return new OperatorError(
    `The key-encryption key in ${target.place} (${kek.id}) already wraps all keys, and is the same as the one in ${current.place}. Nothing was changed. Make a new key with: openssl rand -hex 32`,
  );
}

/**
 * All keys. `records` counts those with a value that a DEK seals: an estimate above 200,000; null:
 * not a DEK. `closed_at` is when the version was closed to new records; null: it is open.
 */
export async function keyStatus({ wrappedKeys: store, pool }: Vault) {
  const keys = await store.list(commandDeadline());
  const { byVersion, isExact } = await countByVersion(pool, commandDeadline());
  const closed = await store.closed(commandDeadline());
  const primary = primaryVersionOf(keys);
  return keys.map(({ id: _, wrapped: __, ...key }) => {
    const isDek = key.purpose === 'dek';
    return {
      ...key,
      is_primary: !isDek || key.version === primary,
      records: isDek ? (byVersion.get(key.version) ?? 0) : null,
      is_estimate: isDek && !isExact,
      closed_at: (isDek && closed.get(key.version)) || null,
    };
  });
}

/** Records with a value, by DEK version. Versions without records are absent. */
export type KeyCounts = ReadonlyMap<number, number>;

/** An estimate above 200,000 records. */
export async function keyCounts({ pool }: Vault, deadlineMs: number): Promise<KeyCounts> {
  return (await countByVersion(pool, deadlineMs)).byVersion;
}
