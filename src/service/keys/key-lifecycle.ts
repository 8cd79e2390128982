import { type Kek, kekOf } from '../../crypto/kek.ts';
import { newKeyBytes } from '../../crypto/primitives.ts';
import { OperatorError } from '../../errors.ts';
import type { KekSettings, VaultOptions } from '../../options.ts';
import { KeyringStore, type LockedKeys } from '../../store/keyring.ts';
import { schemaVersion } from '../../store/migrate.ts';
import { countByVersion } from '../../store/record-counts.ts';
import { commandDeadline } from '../../timeouts.ts';
import type { KeyPurpose, WrappedKey } from '../../types.ts';
import { type KekSource, kekSourceOf } from '../kek/source.ts';
import { openPool } from '../pools.ts';
import type { Vault } from '../vault.ts';
import { SEAL_LEASE_MS } from './engine-keys.ts';
import { unwrap } from './open-keys.ts';

/** `key_version` of a record is a smallint. */
const MAX_VERSION = 32_767;
/** Twice as long as any process seals without having seen the newest version. */
export const MIN_PRIMARY_AGE_S = (2 * SEAL_LEASE_MS) / 1000;
/** A write of the service ends within 5 s, one of `keyring reseal` soon after. */
const WRITERS_PATIENCE_MS = 30_000;
/** Reading all records of a vault of a billion takes minutes. */
const SCAN_PATIENCE_MS = 3_600_000;

/**
 * Adds a DEK version, which is the primary from then on. Several at once each add one.
 * @returns the version
 * @throws OperatorError when the KEK is not that of the vault, or there is no version left
 */
export async function rotateKey(store: KeyringStore, source: KekSource): Promise<number> {
  const kek = kekOf(await source.read());
  return store.locked(commandDeadline(), async ({ keys, insert }) => {
    // With another KEK, or a row that was changed, the new key would only hide the trouble.
    unwrap(keys, kek, source);
    const version = primaryVersionOf(keys) + 1;
    if (version > MAX_VERSION) {
      throw new OperatorError(`A vault can have ${MAX_VERSION} key versions, and this one has.`);
    }
    await insert(wrap(kek, 'dek', version, newKeyBytes()));
    return version;
  });
}

/**
 * Destroys a DEK version that no record needs. First no write may begin with it any more, then
 * those that had begun end, and only then the records count: none can come later.
 * @param minPrimaryAgeS younger than this, other nodes may still seal with the version before
 * @throws OperatorError when it is needed, or may be: nothing was destroyed
 */
export async function retireKey(
  store: KeyringStore,
  version: number,
  minPrimaryAgeS = MIN_PRIMARY_AGE_S,
  writersPatienceMs = WRITERS_PATIENCE_MS,
): Promise<void> {
  refusePrimaryVersion(await store.list(commandDeadline()), version);
  // Before it is closed, and before the lock, which a reseal would wait for.
  const needed = await store.countRecords(version, performance.now() + SCAN_PATIENCE_MS);
  refuseNeeded(version, needed, 'nothing was changed');
  await store.locked(commandDeadline(), async (locked) => {
    refusePrimaryVersion(locked.keys, version);
    await refuseEarly(locked, version, minPrimaryAgeS);
    await locked.close(version);
  });
  refuseWriters(version, await store.writersGone(writersPatienceMs));
  await store.locked(performance.now() + SCAN_PATIENCE_MS, async (locked) => {
    refusePrimaryVersion(locked.keys, version);
    refuseNeeded(version, await locked.countRecords(version), STAYS_CLOSED);
    await locked.remove({ purpose: 'dek', version });
  });
}

const STAYS_CLOSED = 'it stays closed (no record is sealed with it any more), and opens records';

function refusePrimaryVersion(keys: readonly WrappedKey[], version: number): void {
  if (!keys.some((key) => key.purpose === 'dek' && key.version === version)) {
    throw new OperatorError(
      `There is no dek key of version ${version}. List them with: standin keyring status`,
    );
  }
  if (version === primaryVersionOf(keys)) {
    throw new OperatorError(
      `Version ${version} is the primary: new records are sealed with it. First run: standin keyring rotate, then: standin keyring reseal`,
    );
  }
}

async function refuseEarly(
  { keys, ageOf }: LockedKeys,
  version: number,
  minPrimaryAgeS: number,
): Promise<void> {
  const primary = primaryVersionOf(keys);
  const ageS = await ageOf({ purpose: 'dek', version: primary });
  if (ageS < minPrimaryAgeS) {
    throw new OperatorError(
      `The primary, version ${primary}, is ${Math.floor(ageS)} s old, so nodes may still seal with version ${version}. Try again in ${Math.ceil(minPrimaryAgeS - ageS)} s.`,
    );
  }
}

function refuseWriters(version: number, writers: readonly string[]): void {
  if (writers.length === 0) return;
  throw new OperatorError(
    `Transactions that began before key version ${version} was closed may still write records with it (backends: ${writers.join(', ')}); ${STAYS_CLOSED}. Run it again when they have ended, or end them: select pg_terminate_backend(PID)`,
  );
}

function refuseNeeded(version: number, records: number, whatHolds: string): void {
  if (records === 0) return;
  throw new OperatorError(
    `${records} ${records === 1 ? 'record needs' : 'records need'} key version ${version}; ${whatHolds}. Run: standin keyring reseal (and when it leaves damaged records, put their rows back from a backup first)`,
  );
}

export interface Rewrapped {
  readonly kek_id: string;
  /** Keys that were wrapped anew: 0 when all were before. */
  readonly keys: number;
}

/**
 * Wraps all keys by another KEK, in one transaction. The vault need not open: after it, only the
 * new KEK does that. @throws OperatorError, and nothing was changed
 */
export async function rewrapKeys(options: VaultOptions, next: KekSettings): Promise<Rewrapped> {
  const target = kekSourceOf({ ...options, kek: next });
  const kek = kekOf(await target.read());
  const current = kekSourceOf(options);
  // Not there any more once it is done: then there is nothing to unwrap.
  const old: Kek | Error = await current.read().then(kekOf, (error: Error) => error);
  const pool = openPool(options);
  try {
    if ((await schemaVersion(pool, commandDeadline())) === 0) throw new OperatorError(NO_VAULT);
    return await new KeyringStore(pool).locked(commandDeadline(), async (locked) => {
      if (locked.keys.length === 0) throw new OperatorError(NO_VAULT);
      const pending = locked.keys.filter(({ kek_id: kekId }) => kekId !== kek.id);
      if (pending.length > 0) await rewrap(locked, pending, { old, current, kek });
      else if (!(old instanceof Error) && old.id === kek.id) throw sameKek(kek, current, target);
      return { kek_id: kek.id, keys: pending.length };
    });
  } finally {
    await pool.end();
  }
}

const NO_VAULT =
  'There is no vault yet, so there are no keys to wrap. It is made by: standin serve';

interface Exchange {
  readonly old: Kek | Error;
  readonly current: KekSource;
  readonly kek: Kek;
}

async function rewrap(
  locked: LockedKeys,
  pending: readonly WrappedKey[],
  { old, current, kek }: Exchange,
): Promise<void> {
  if (old instanceof Error) throw old;
  for (const { purpose, version, bytes } of unwrap(pending, old, current)) {
    const key = wrap(kek, purpose, version, bytes);
    // Nobody can make a key again that does not come back.
    if (!kek.unwrap(purpose, version, key.wrapped)?.equals(bytes)) {
      throw new Error(`the ${purpose} key, version ${version}, does not unwrap again`);
    }
    await locked.update(key);
  }
}

function sameKek(kek: Kek, current: KekSource, target: KekSource): OperatorError {
  return new OperatorError(
    `The key-encryption key in ${target.place} (${kek.id}) wraps all keys already, and is the one in ${current.place}: nothing was changed. Make a new one with: openssl rand -hex 32`,
  );
}

export interface KeyStatus extends Omit<WrappedKey, 'wrapped'> {
  readonly is_primary: boolean;
  /** Records with a value that are sealed with it; null: it seals none. */
  readonly records: number | null;
  readonly is_estimate: boolean;
  /** Since when no record is sealed with it any more; null: it may be. */
  readonly closed_at: Date | null;
}

/** The keys, and of each DEK how many records need it: an estimate above 200,000. */
export async function keyStatus({ keyringStore: store, pool }: Vault): Promise<KeyStatus[]> {
  const keys = await store.list(commandDeadline());
  const { byVersion, isExact } = await countByVersion(pool, commandDeadline());
  const closed = await store.closed(commandDeadline());
  const primary = primaryVersionOf(keys);
  return keys.map(({ wrapped: _, ...key }) => {
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

/** Records with a value, by DEK version: those that are sealed with none are not there. */
export type KeyCounts = ReadonlyMap<number, number>;

/** An estimate above 200,000 records. */
export async function keyCounts({ pool }: Vault, deadlineMs: number): Promise<KeyCounts> {
  return (await countByVersion(pool, deadlineMs)).byVersion;
}

function wrap(kek: Kek, purpose: KeyPurpose, version: number, bytes: Buffer) {
  return { purpose, version, kek_id: kek.id, wrapped: kek.wrap(purpose, version, bytes) };
}

function primaryVersionOf(keys: readonly WrappedKey[]): number {
  return Math.max(...keys.filter(({ purpose }) => purpose === 'dek').map((key) => key.version));
}
