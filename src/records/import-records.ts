import type { Keyring } from '../crypto/keyring.ts';
import { InternalError } from '../errors.ts';
import type { NewRecord, StoredRecord } from '../store/record-sql.ts';
import { RecordStore } from '../store/records.ts';
import { commandDeadline } from '../timeouts.ts';
import type { TokenFingerprint } from '../types.ts';
import type { KeyringFollower } from '../vault/keyring-follower.ts';
import type { Vault } from '../vault/vault.ts';
import { persistently } from './record-scan.ts';
import { knowKeysOf } from './verify.ts';

/** The row of the vault; 'stored': there was none, and so the record was written. */
export type FoundRow = StoredRecord | 'stored';

type Write<Outcome> = (
  store: RecordStore,
  records: readonly NewRecord[],
  deadlineMs: number,
) => Promise<readonly Outcome[]>;

/** The records of a vault as an import needs them: patiently, and sealed with the newest key. */
export class ImportRecords {
  readonly keyring: Keyring;
  readonly #store: RecordStore;
  readonly #follower: KeyringFollower;
  readonly #stop: AbortSignal;

  /** @param follower started: it finds key versions that other processes add */
  constructor({ pool, keyring }: Vault, follower: KeyringFollower, stop: AbortSignal) {
    follower.subscribe(({ keys }) => keyring.renew(keys));
    this.keyring = keyring;
    this.#store = new RecordStore(pool);
    this.#follower = follower;
    this.#stop = stop;
  }

  /** Seals again with a newer primary when the key version was retired meanwhile. */
  async write<Item, Outcome>(
    items: readonly Item[],
    seal: (item: Item) => NewRecord,
    write: Write<Outcome>,
  ): Promise<readonly Exclude<Outcome, 'key_retired'>[]> {
    if (items.length === 0) return [];
    for (;;) {
      const { primaryVersion } = this.keyring;
      const records = items.map(seal);
      const attempt = () => write(this.#store, records, commandDeadline());
      const outcomes = await persistently(this.#stop, attempt);
      if (!outcomes.includes('key_retired' as Outcome))
        return outcomes as readonly Exclude<Outcome, 'key_retired'>[];
      await this.#follower.refresh();
      if (this.keyring.primaryVersion === primaryVersion) throw new InternalError('key_missing');
    }
  }

  /** The row of each token, as durable as one that was written. */
  async rowsAt(fingerprints: readonly TokenFingerprint[]): Promise<FoundRow[]> {
    const rows = await persistently(this.#stop, () =>
      this.#store.findDurable(fingerprints, commandDeadline()),
    );
    const found = rows.map((row) => row ?? 'stored');
    await this.knowKeysOf(found);
    return found;
  }

  /** Another process may seal with a key version that was added since. */
  knowKeysOf(found: readonly FoundRow[]): Promise<void> {
    const records = found.flatMap((one) => (one === 'stored' ? [] : [one.record]));
    return knowKeysOf(this, this.#follower, records);
  }
}

/** Runs works one after the other, in the order of the calls. */
export function inTurns() {
  let last: Promise<unknown> = Promise.resolve();
  return <T>(work: () => Promise<T>): Promise<T> => {
    const next = last.then(work);
    last = next.catch(() => {});
    return next;
  };
}
