import { getApiKey, issueApiKey, listApiKeys, revokeApiKey } from '../../service/clients.ts';
import {
  type AdminAnswer,
  type AdminParts,
  type AdminRoutes,
  type Field,
  readFields,
} from './call.ts';

const TIME = /^\d{4}-\d\d-\d\dT\d\d:\d\d(:\d\d(\.\d{1,9})?)?(Z|[+-]\d\d:\d\d)$/;

const expiry: Field<Date | null> = {
  accepts: 'a time in the future, such as 2030-01-31T12:00:00Z, or null',
  read: (json) => {
    if (json === null) return null;
    const date = new Date(typeof json === 'string' && TIME.test(json) ? json : Number.NaN);
    return date > new Date() ? date : undefined;
  },
};

export function apiKeyRoutes({ openVault }: AdminParts): AdminRoutes {
  const listed = async (client: string | undefined): Promise<AdminAnswer> => {
    const apiKeys = await listApiKeys(await openVault(), client);
    return { status: 200, body: { api_keys: apiKeys } };
  };
  return {
    '/api-keys': { GET: { act: 'api_key.list', run: () => listed(undefined) } },
    '/api-keys/{api_key_id}': {
      GET: {
        act: 'api_key.get',
        run: async ({ params: [id] }) => ({
          status: 200,
          body: await getApiKey(await openVault(), id!),
        }),
      },
      DELETE: {
        act: 'api_key.revoke',
        run: async ({ params: [id] }) => {
          const vault = await openVault();
          const revoked = await revokeApiKey(vault, id!);
          return { status: 200, body: { ...(await getApiKey(vault, id!)), ...revoked } };
        },
      },
    },
    '/clients/{client}/api-keys': {
      GET: { act: 'api_key.list', run: ({ params: [client] }) => listed(client) },
      POST: {
        act: 'api_key.issue',
        run: async ({ params: [client], ...call }) => {
          const { expires_at: expiresAt = null } = readFields(await call.json(), {
            expires_at: expiry,
          });
          const issued = await issueApiKey(await openVault(), client!, expiresAt);
          const body = { ...issued, last_used_at: null };
          return { status: 201, body, target: issued.api_key_id };
        },
      },
    },
  };
}
