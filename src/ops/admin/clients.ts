import {
  createClient,
  getClient,
  listClients,
  type UsedClient,
  updateClient,
} from '../../access/clients.ts';
import { CLIENT_SETTINGS, type Client, DEFAULT_SETTINGS } from '../../client-settings.ts';
import { Conflict, NotFound } from '../../errors.ts';
import * as schemas from '../../openapi/schemas.ts';
import { invalid } from '../../public/body/data.ts';
import { type Durable, restate } from '../../types.ts';
import type { Vault } from '../../vault/vault.ts';
import { refusal } from '../errors.ts';
import {
  type AdminCall,
  type AdminDone,
  type AdminPart,
  type AdminResponse,
  changing,
  checkMatch,
  etagOf,
  flag,
  reading,
} from './operation.ts';

/** The fields that a request can set. */
const FIELDS = { ...CLIENT_SETTINGS, disabled: flag('Its API keys are refused.') };

const CREATED = schemas.time('When it was made.');
const DISABLED = schemas.orNull(schemas.time('When it was disabled; null: it is not.'));
const USED = schemas.time('The last use of its API keys, to the minute; null: none is known.');
const readOnly = (schema: schemas.Schema): schemas.Schema => ({ ...schema, readOnly: true });
/** Of responses: a body that is one may have them. */
const FACTS = {
  client_id: readOnly(
    schemas.text('Names the client for good.', 'standin_4907e74b8c583784ff4253cc'),
  ),
  created_at: readOnly(CREATED),
  disabled_at: readOnly(DISABLED),
  last_used_at: readOnly(schemas.orNull(USED)),
};

const BODY = {
  ...{ name: 'ClientSettings', description: 'Settings of a client. A response is one, too.' },
  ...{ fields: FIELDS, ignored: FACTS },
};
type ClientCall = AdminCall<typeof FIELDS>;

const CLIENT = { response: 'ClientDetails', hasEtag: true };
const CHANGE = { ...CLIENT, isConditional: true, errors: ['conflict'] as const };

export const CLIENTS: AdminPart = {
  ...{ tag: 'Clients', description: 'The applications that may call.' },
  schemas: {
    // Not `Client`, and no name that is that of its field in small letters: clients made for Python
    // and Go have such names themselves.
    ClientDetails: schemas.object('A client: an application that may call.', {
      ...Object.fromEntries(Object.entries(FIELDS).map(([name, { schema }]) => [name, schema])),
      ...FACTS,
    }),
    ClientList: schemas.object('All clients.', {
      clients: schemas.list('The oldest first.', 'ClientDetails'),
    }),
  },
  operations: [
    reading('get', '/clients', {
      act: 'client.list',
      ...{ id: 'listClients', summary: 'All clients' },
      ...{ description: 'As `standin client list --json`.', response: 'ClientList' },
      run: async ({ vault }) => ({ body: { clients: (await listClients(vault)).map(shown) } }),
    }),
    reading('get', '/clients/{client}', {
      ...{ ...CLIENT, act: 'client.get', id: 'getClient', summary: 'A client' },
      description: 'By its id or its name.',
      run: async ({ vault }, { named }) => responseOf(await getClient(vault, named)),
    }),
    changing('put', '/clients/{client}', {
      ...{ ...CHANGE, act: 'client.put', id: 'putClient' },
      summary: 'Make a client, or set all settings',
      description:
        'Makes the client with this name (201), or gives the client the settings of the body (200). A setting that is missing is default, except the space. With `If-None-Match: *` it only makes.',
      body: BODY,
      statuses: [200, 201],
      run: ({ vault, clientPrefix }, call) => put(vault, clientPrefix, call),
    }),
    changing('patch', '/clients/{client}', {
      ...{ ...CHANGE, act: 'client.update', id: 'updateClient' },
      summary: 'Change settings of a client',
      description: 'A setting that is missing stays.',
      body: BODY,
      run: ({ vault }, call) => change(vault, call, call.body, false),
    }),
    changing('delete', '/clients/{client}', {
      ...{ ...CHANGE, act: 'client.disable', id: 'disableClient', summary: 'Disable a client' },
      description:
        'Refuses all its API keys within 5 s. The client stays, for its records. A second time, it changes nothing.',
      run: ({ vault }, call) => change(vault, call, { disabled: true }, false),
    }),
  ],
};

/** A client as responses have it: what PUT takes, and when it was made, used and disabled. */
function shown({ last_used_at: lastUsedAt, ...client }: UsedClient) {
  return { ...client, disabled: client.disabled_at !== null, last_used_at: lastUsedAt };
}

function responseOf(client: UsedClient): AdminResponse {
  return { body: shown(client), etag: etagOfClient(client), target: client.client_id };
}

/** @param made as the store has just changed it */
async function doneOf(vault: Vault, made: Durable<Client>, status?: 201): Promise<AdminDone> {
  const client = { ...(await getClient(vault, made.client_id)), ...made };
  return { ...responseOf(client), body: restate(made, shown(client)), ...(status && { status }) };
}

/** A use does not change it. */
function etagOfClient(client: Client | UsedClient): string {
  const { last_used_at: _, ...rest } = { last_used_at: null, ...client };
  return etagOf(rest);
}

/** Makes the client, or gives it all settings of the body. A setting that is missing is default. */
async function put(vault: Vault, clientPrefix: string, call: ClientCall): Promise<AdminDone> {
  const { named, body } = call;
  const { name, disabled = false, ...given } = body;
  const existing = await clientOrUndefined(vault, named);
  if (existing !== undefined) {
    const { space: _, ...defaults } = DEFAULT_SETTINGS;
    return change(vault, call, { ...defaults, disabled, ...body }, true);
  }
  checkMatch(call.headers, undefined);
  if (name !== undefined && name !== named) throw invalid('name: must be the name in the path');
  if (CLIENT_SETTINGS.name.read(named) === undefined)
    throw invalid(`path: the name must be ${CLIENT_SETTINGS.name.accepts}`);
  try {
    const settings = { ...DEFAULT_SETTINGS, ...given, name: named };
    return doneOf(vault, await createClient(vault, clientPrefix, settings, disabled), 201);
  } catch (error) {
    // Somebody else made it just now.
    const made = error instanceof Conflict && (await clientOrUndefined(vault, named));
    if (!made) throw error;
    return put(vault, clientPrefix, call);
  }
}

/** @param isWhole a name in the path stays: the next PUT would make another client */
async function change(
  vault: Vault,
  { named, headers }: Pick<ClientCall, 'named' | 'headers'>,
  { space: wanted, ...changes }: ClientCall['body'],
  isWhole: boolean,
): Promise<AdminDone> {
  const changed = await updateClient(vault, named, changes, (client) => {
    checkMatch(headers, etagOfClient(client));
    if (wanted !== undefined && wanted !== client.space)
      throw refusal(
        'conflict',
        `space: the client is in the space ${JSON.stringify(client.space)}, which never changes. Make another client.`,
      );
    const isRenamed = changes.name !== undefined && changes.name !== client.name;
    if (isWhole && isRenamed && named !== client.client_id)
      throw invalid('name: must be the name in the path; PATCH changes it');
  });
  return doneOf(vault, changed);
}

async function clientOrUndefined(vault: Vault, named: string): Promise<UsedClient | undefined> {
  return getClient(vault, named).catch((error) => {
    if (error instanceof NotFound) return undefined;
    throw error;
  });
}
