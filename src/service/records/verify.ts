import { RecordWalk } from '../../store/record-walk.ts';
import type { KeyRenewal } from '../keys/key-renewal.ts';
import type { Vault } from '../vault.ts';
import { type PassEnd, type PassSettings, passOver } from './record-pass.ts';
import { type BadRecord, RecordReader } from './record-reader.ts';

export interface VerifySettings extends PassSettings {
  readonly renewal: KeyRenewal;
  readonly onBad: (record: BadRecord) => void;
}

export interface Verified extends PassEnd {
  /** Records that were checked. */
  readonly records: number;
  readonly bad: number;
}

/**
 * Opens every record, which authenticates both fingerprints, the key version and the value
 * together. It cannot check that a value fingerprint fits its value: a random client's record has
 * random bytes there, and no row names its client.
 */
export async function verify(vault: Vault, settings: VerifySettings): Promise<Verified> {
  const reader = new RecordReader(vault.keyring, settings.renewal, settings.onBad);
  let records = 0;
  const end = await passOver({
    ...settings,
    walk: new RecordWalk(vault.pool),
    work: async (portion) => {
      await reader.open(portion);
      records += portion.length;
    },
  });
  return { records, bad: reader.bad, ...end };
}
