import { kekSourceOf } from '../../kek/kek-source.ts';
import * as schemas from '../../openapi/schemas.ts';
import { IN_FORCE_S } from '../../timeouts.ts';
import { keyStatus, rotateKey } from '../../vault/key-lifecycle.ts';
import { type AdminPart, changing, checkMatch, reading } from './operation.ts';

export const KEYS: AdminPart = {
  ...{ tag: 'Keys', description: 'That seal the records.' },
  schemas: {
    Key: schemas.object('A key of the vault.', {
      purpose: schemas.text('What it does; `dek` seals records.', 'dek'),
      version: schemas.whole('Of this purpose.'),
      kek_id: schemas.text('The KEK that wraps it.', '1f0c2b7a'),
      created_at: schemas.time('When it was made.'),
      is_primary: schemas.flag('It seals new records.'),
      records: schemas.orNull(schemas.whole('Records that need it; null: not a DEK.')),
      is_estimate: schemas.flag('`records` is an estimate.'),
      closed_at: schemas.orNull(
        schemas.time('Since when no record is sealed with it; null: it is open.'),
      ),
    }),
    Keyring: schemas.object('The keys.', { keys: schemas.list('By purpose and version.', 'Key') }),
    RotatedKey: schemas.object('The new primary.', {
      version: schemas.whole('Of the DEK.'),
      in_force_within_s: schemas.whole('Seconds until all nodes use it.'),
    }),
  },
  operations: [
    reading('get', '/keyring', {
      act: 'keyring.status',
      ...{ id: 'getKeyring', summary: 'The keys of the vault' },
      description: 'As `standin keyring status`. The ETag is the version of the primary in quotes.',
      ...{ response: 'Keyring', hasEtag: true },
      async run({ vault }) {
        const keys = await keyStatus(vault);
        const primary = keys.find((key) => key.purpose === 'dek' && key.is_primary);
        return { body: { keys }, etag: `"${primary?.version}"` };
      },
    }),
    changing('post', '/keyring/rotate', {
      act: 'keyring.rotate',
      ...{ id: 'rotateKey', summary: 'Add a DEK' },
      description:
        'It seals new records from now on. With `If-Match`, only if the primary is still the one you saw.',
      body: { name: 'RotateRequest', description: 'Nothing.', fields: {}, isOptional: true },
      ...{ response: 'RotatedKey', hasEtag: true, isConditional: true },
      async run({ vault: { wrappedKeys }, vaultOptions }, { headers }) {
        const made = await rotateKey(wrappedKeys, kekSourceOf(vaultOptions), (primary) =>
          checkMatch(headers, `"${primary}"`),
        );
        const body = { ...made, in_force_within_s: IN_FORCE_S };
        return { body, etag: `"${made.version}"`, target: String(made.version) };
      },
    }),
  ],
};
