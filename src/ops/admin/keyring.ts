import { kekSourceOf } from '../../kek/kek-source.ts';
import { keyStatus, rotateKey } from '../../service/keys/key-lifecycle.ts';
import { type AdminParts, type AdminRoutes, readFields } from './call.ts';
import { checkMatch } from './etags.ts';

/** Nodes read the keyring every 2 s. */
const IN_FORCE_S = 5;

export function keyringRoutes({ openVault, vaultOptions }: AdminParts): AdminRoutes {
  return {
    '/keyring': {
      GET: {
        act: 'keyring.status',
        run: async () => {
          const keys = await keyStatus(await openVault());
          const primary = keys.find((key) => key.purpose === 'dek' && key.is_primary);
          return { status: 200, body: { keys }, etag: `"${primary?.version}"` };
        },
      },
    },
    '/keyring/rotate': {
      POST: {
        act: 'keyring.rotate',
        run: async (call) => {
          readFields(await call.json(), {});
          const { wrappedKeys } = await openVault();
          const made = await rotateKey(wrappedKeys, kekSourceOf(vaultOptions), (primary) =>
            checkMatch(call.headers, `"${primary}"`),
          );
          const body = { ...made, in_force_within_s: IN_FORCE_S };
          return { status: 200, body, etag: `"${made.version}"`, target: String(made.version) };
        },
      },
    },
  };
}
