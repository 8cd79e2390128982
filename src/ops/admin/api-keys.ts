import { getApiKey, issueApiKey, listApiKeys, revokeApiKey } from '../../access/clients.ts';
import * as schemas from '../../openapi/schemas.ts';
import {
  type AdminPart,
  type AdminParts,
  type AdminResponse,
  changing,
  type Field,
  reading,
} from './operation.ts';

const TIME = /^\d{4}-\d\d-\d\dT\d\d:\d\d(:\d\d(\.\d{1,9})?)?(Z|[+-]\d\d:\d\d)$/;

const expiry: Field<Date | null> = {
  schema: schemas.orNull(schemas.time('A time in the future; null or missing: never.')),
  accepts: 'a time in the future, such as 2030-01-31T12:00:00Z, or null',
  read: (json) => {
    if (json === null) return null;
    const date = new Date(typeof json === 'string' && TIME.test(json) ? json : Number.NaN);
    return date > new Date() ? date : undefined;
  },
};
const LIFE = {
  ...{ name: 'ApiKeyLife', description: 'How long it lives.', isOptional: true },
  fields: { expires_at: expiry },
};

const API_KEY: Readonly<Record<string, schemas.Schema>> = {
  api_key_id: schemas.text('Names the API key. It gives no access.', 'key_e925c2c4d683'),
  client_id: schemas.text('The client that it belongs to.', 'standin_4907e74b8c583784ff4253cc'),
  created_at: schemas.time('When it was issued.'),
  expires_at: schemas.orNull(schemas.time('When it ends; null: never.')),
  revoked_at: schemas.orNull(schemas.time('When it was revoked; null: it was not.')),
  last_used_at: schemas.orNull(schemas.time('The last use, to the minute; null: none is known.')),
};

/** @param client undefined: of all clients */
async function listed({ vault }: AdminParts, client?: string): Promise<AdminResponse> {
  return { body: { api_keys: await listApiKeys(vault, client) } };
}

export const API_KEYS: AdminPart = {
  ...{ tag: 'API keys', description: 'A client can have several.' },
  schemas: {
    ApiKey: schemas.object('An API key, without its text.', API_KEY),
    ApiKeyList: schemas.object('API keys.', {
      api_keys: schemas.list('The oldest first.', 'ApiKey'),
    }),
    IssuedApiKey: schemas.object('An API key with its text, which no other response has.', {
      ...API_KEY,
      api_key: {
        ...schemas.text('The API key.', 'stk_0123456789ABCDEFGHIJKLMNOPQR1KnaxG'),
        pattern: '^stk_[0-9A-Za-z]{34}$',
      },
    }),
  },
  operations: [
    reading('get', '/api-keys', {
      act: 'api_key.list',
      ...{ id: 'listApiKeys', summary: 'All API keys' },
      ...{ description: 'Without their texts.', response: 'ApiKeyList' },
      run: (parts) => listed(parts),
    }),
    reading('get', '/api-keys/{api_key_id}', {
      act: 'api_key.get',
      ...{ id: 'getApiKey', summary: 'An API key' },
      ...{ description: 'Without its text.', response: 'ApiKey' },
      run: async ({ vault }, { named }) => ({ body: await getApiKey(vault, named) }),
    }),
    changing('delete', '/api-keys/{api_key_id}', {
      act: 'api_key.revoke',
      ...{ id: 'revokeApiKey', summary: 'Revoke an API key' },
      description: 'It stops working within 5 s. A second time, it changes nothing.',
      response: 'ApiKey',
      async run({ vault }, { named }) {
        const revoked = await revokeApiKey(vault, named);
        return { body: { ...(await getApiKey(vault, named)), ...revoked } };
      },
    }),
    reading('get', '/clients/{client}/api-keys', {
      act: 'api_key.list',
      ...{ id: 'listApiKeysOfClient', summary: 'The API keys of a client' },
      ...{ description: 'Without their texts.', response: 'ApiKeyList' },
      run: (parts, { named }) => listed(parts, named),
    }),
    changing('post', '/clients/{client}/api-keys', {
      act: 'api_key.issue',
      ...{ id: 'issueApiKey', summary: 'Issue an API key' },
      description: 'Only this response has its text. A second request issues a second API key.',
      body: LIFE,
      response: 'IssuedApiKey',
      statuses: [201],
      errors: ['conflict'],
      async run({ vault }, { named, body: { expires_at: expiresAt = null } }) {
        const issued = await issueApiKey(vault, named, expiresAt);
        const body = { ...issued, last_used_at: null };
        return { status: 201, body, target: issued.api_key_id };
      },
    }),
  ],
};
