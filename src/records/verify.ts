import type { OpenedAlias, OpenedValue } from '../crypto/keyring.ts';
import type { Scope } from '../crypto/scope.ts';
import { hexOf, type WalkedRecord } from '../store/record-walk.ts';
import { commandDeadline } from '../timeouts.ts';
import { DEFAULT_KIND, DEFAULT_SPACE, type SealedRecord } from '../types.ts';
import type { KeyringFollower } from '../vault/keyring-follower.ts';
import type { Vault } from '../vault/vault.ts';
import { persistently, type Scan, type ScanEnd, type ScanSettings, scan } from './record-scan.ts';

/** Settings of a scan that opens all records. */
export interface ReadSettings extends ScanSettings {
  /** Finds key versions that other processes have added. */
  readonly follower: KeyringFollower;
  readonly onBad: (record: BadRecord) => void;
}

/** Records of one kind in one space. */
export interface KindCount {
  /** '': the default space. */
  readonly space: string;
  readonly kind: string;
  readonly records: number;
  /** false: its tokens are unknown to every client; null: the database ended the scan. */
  readonly has_client: boolean | null;
}

/**
 * Opens every record, which authenticates both fingerprints, the key version and the value
 * together. It cannot check that a value fingerprint fits its value: a random client's record has
 * random bytes there, and no row names its client.
 * @returns `records`: checked, without aliases, which lead to the imported token of a value and
 * have no value themselves; `bad`: those that do not open; `by_kind`: those that opened, by space,
 * then by kind
 */
export async function verify(vault: Vault, settings: ReadSettings) {
  const counts = new Map<Scope | undefined, number>();
  let records = 0;
  let aliases = 0;
  const end = await scanOpened(vault, settings, async (opened, batch) => {
    records += batch.length;
    for (const { content } of opened) {
      if ('alias' in content) {
        aliases++;
        records--;
      } else counts.set(content.scope, (counts.get(content.scope) ?? 0) + 1);
    }
  });
  // After the scan: a client that was made meanwhile counts.
  const list = () => vault.clients.list(commandDeadline());
  const clients = end.error === undefined ? await persistently(settings.stop, list) : null;
  const byKind = [...counts].map(([scope, records]): KindCount => {
    const { space, kind } = scope ?? { space: DEFAULT_SPACE, kind: DEFAULT_KIND };
    const hasClient = clients && new Set(['', ...clients.map((one) => one.space)]).has(space);
    return { space, kind, records, has_client: hasClient };
  });
  const place = ({ space, kind }: KindCount) => `${space} ${kind}`;
  byKind.sort((a, b) => (place(a) < place(b) ? -1 : 1));
  return { records, aliases, by_kind: byKind, ...end };
}

/** A record that does not open. */
export interface BadRecord {
  /** Its token fingerprint, 32 hex digits. */
  readonly fingerprint: string;
  readonly reason: 'damaged' | 'key_missing';
}

export interface OpenedRecord {
  readonly record: WalkedRecord;
  readonly content: OpenedValue | OpenedAlias;
}

/** Reads the keyring again for key versions that other processes have added. */
export async function knowKeysOf(
  { keyring }: Pick<Vault, 'keyring'>,
  follower: KeyringFollower,
  records: readonly SealedRecord[],
): Promise<void> {
  if (records.every(({ key_version: keyVersion }) => keyring.hasVersion(keyVersion))) return;
  await follower.refresh();
  keyring.renew(follower.latest.keys);
}

/**
 * Passes over all records, opened. Counts and reports those that do not open. There is no token
 * from a caller, so it opens a record by the fingerprints in its own row, and cannot detect a row
 * that was swapped whole, fingerprint included.
 * @param options as `scan` takes it
 */
export async function scanOpened(
  vault: Vault,
  settings: ReadSettings,
  work: (opened: readonly OpenedRecord[], batch: readonly WalkedRecord[]) => Promise<void>,
  options: Partial<Scan> = {},
): Promise<ScanEnd & { readonly bad: number }> {
  const { follower, onBad } = settings;
  let bad = 0;
  const opened = (record: WalkedRecord): OpenedRecord[] => {
    const content = vault.keyring.open(record);
    if (!('failure' in content)) return [{ record, content }];
    bad++;
    onBad({ fingerprint: hexOf(record.token_fingerprint), reason: content.failure });
    return [];
  };
  const end = await scan({
    pool: vault.pool,
    ...settings,
    ...options,
    work: async (batch) => {
      await knowKeysOf(vault, follower, batch);
      await work(batch.flatMap(opened), batch);
    },
  });
  return { ...end, bad };
}
