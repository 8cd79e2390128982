import { isDeepStrictEqual } from 'node:util';
import type { Keyring } from '../crypto/keyring.ts';
import { OperatorError } from '../errors.ts';
import type { Replacement } from '../store/record-sql.ts';
import { replaceWalked } from '../store/record-walk.ts';
import { commandDeadline } from '../timeouts.ts';
import { confirmDurable, type Vault } from '../vault/vault.ts';
import { persistently } from './record-scan.ts';
import { type OpenedRecord, type ReadSettings, scanOpened } from './verify.ts';

/**
 * Reseals every record that is not sealed with the primary, while the service runs. Progress is in
 * the rows, so another run finishes an interrupted one. `bad` records do not open, and stay as they
 * are. `next` is where an interrupted run ended.
 * @throws OperatorError when the keyring was rotated meanwhile
 */
export async function reseal(vault: Vault, settings: ReadSettings) {
  const { keyring, pool } = vault;
  const { stop } = settings;
  const keyVersion = keyring.primaryVersion;
  let resealed = 0;
  const write = async (replacements: readonly Replacement[]) => {
    const replaced = await persistently(stop, () =>
      replaceWalked(pool, replacements, keyVersion, commandDeadline()),
    );
    if (replaced === undefined) throw rotatedMeanwhile(keyVersion);
    resealed += replaced;
  };
  // Writes one batch while opening and sealing the next.
  let writing = Promise.resolve();
  const work = async (opened: readonly OpenedRecord[]) => {
    if (keyring.primaryVersion !== keyVersion) throw rotatedMeanwhile(keyVersion);
    const replacements = opened.map((one) => resealedOf(keyring, one));
    await writing;
    writing = write(replacements);
    // The error is thrown where `writing` is awaited.
    writing.catch(() => {});
  };
  const options = { without: keyVersion, written: () => writing };
  const { next, error, bad } = await scanOpened(vault, settings, work, options);
  if (error !== undefined) throw error;
  return confirmDurable(vault, { key_version: keyVersion, resealed, bad, next });
}

/** An overwritten value is lost, so the new record is opened before it replaces the old. */
function resealedOf(keyring: Keyring, { record: old, content }: OpenedRecord): Replacement {
  const { token_fingerprint: token, value_fingerprint: value } = old;
  const fresh =
    'alias' in content
      ? keyring.sealAlias(content, token, value)
      : keyring.seal(content.value, token, value, content.scope, content.imported);
  if (!isDeepStrictEqual(keyring.open(fresh), content))
    throw new Error('a record that was just sealed does not open');
  return { old, fresh };
}

function rotatedMeanwhile(keyVersion: number): OperatorError {
  return new OperatorError(
    `The keyring was rotated meanwhile: version ${keyVersion} is no longer the primary. Resealed records stay resealed. Run again: standin keyring reseal`,
  );
}
