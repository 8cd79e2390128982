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
  /** Records that were opened, or should have been. */
  readonly records: number;
  readonly bad: number;
}

/**
 * Opens every record. That authenticates both fingerprints, the key version and the value together.
 * Whether the value fingerprint is that of the value is not looked at: of a record of a random
 * client it is random bytes, and nothing in a row tells whose it is.
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
