import { CLIENT_SETTINGS, type Client, DEFAULT_SETTINGS } from '../../client-settings.ts';
import { Conflict, NotFound } from '../../errors.ts';
import { invalid } from '../../http/data.ts';
import {
  createClient,
  getClient,
  listClients,
  type UsedClient,
  updateClient,
} from '../../service/clients.ts';
import type { Vault } from '../../service/vault.ts';
import { type Durable, restate } from '../../types.ts';
import {
  type AdminAnswer,
  type AdminCall,
  type AdminDone,
  type AdminParts,
  type AdminRoutes,
  flag,
  readFields,
} from './call.ts';
import { refusal } from './errors.ts';
import { checkMatch, etagOf } from './etags.ts';

/** The fields of a request. */
const FIELDS = { ...CLIENT_SETTINGS, disabled: flag };

/** Of answers: a body that is one may have them. */
const READ_ONLY = ['client_id', 'created_at', 'disabled_at', 'last_used_at'];

export function clientRoutes({ openVault, clientPrefix }: AdminParts): AdminRoutes {
  return {
    '/clients': {
      GET: {
        act: 'client.list',
        run: async () => {
          const clients = await listClients(await openVault());
          return { status: 200, body: { clients: clients.map(shown) } };
        },
      },
    },
    '/clients/{client}': {
      GET: {
        act: 'client.get',
        run: async ({ params: [named] }) => answerOf(await getClient(await openVault(), named!)),
      },
      PUT: {
        act: 'client.put',
        run: async (call) => put(await openVault(), clientPrefix, call),
      },
      PATCH: { act: 'client.update', run: async (call) => patch(await openVault(), call) },
      DELETE: { act: 'client.disable', run: async (call) => disable(await openVault(), call) },
    },
  };
}

/** A client as answers have it: what PUT takes, and when it was made, used and disabled. */
function shown({ disabled_at: disabledAt, created_at: createdAt, ...client }: UsedClient) {
  const { last_used_at: lastUsedAt, ...settings } = client;
  return {
    ...settings,
    disabled: disabledAt !== null,
    created_at: createdAt,
    disabled_at: disabledAt,
    last_used_at: lastUsedAt,
  };
}

function answerOf(client: UsedClient, status: 200 | 201 = 200): AdminAnswer {
  return { status, body: shown(client), etag: etagOfClient(client), target: client.client_id };
}

/** @param made as the store has just changed it */
async function doneOf(
  vault: Vault,
  made: Durable<Client>,
  status: 200 | 201 = 200,
): Promise<AdminDone> {
  const client = { ...(await getClient(vault, made.client_id)), ...made };
  return { ...answerOf(client, status), body: restate(made, shown(client)) };
}

/** A use does not change it. */
function etagOfClient(client: Client | UsedClient): string {
  const { last_used_at: _, ...rest } = { last_used_at: null, ...client };
  return etagOf(Object.entries(rest).sort());
}

/** Makes the client, or gives it all settings of the body. A setting that is missing is default. */
async function put(vault: Vault, clientPrefix: string, call: AdminCall): Promise<AdminDone> {
  const named = call.params[0]!;
  const { name, disabled = false, ...given } = readFields(await call.json(), FIELDS, READ_ONLY);
  const existing = await clientOrUndefined(vault, named);
  if (existing !== undefined) {
    const { space: _, ...defaults } = DEFAULT_SETTINGS;
    return change(vault, call, { ...defaults, ...given, disabled, ...(name && { name }) }, true);
  }
  checkMatch(call.headers, undefined);
  if (name !== undefined && name !== named) throw invalid('name: must be the name in the path');
  if (FIELDS.name.read(named) === undefined)
    throw invalid(`path: the name must be ${FIELDS.name.accepts}`);
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

async function patch(vault: Vault, call: AdminCall): Promise<AdminDone> {
  return change(vault, call, readFields(await call.json(), FIELDS, READ_ONLY), false);
}

async function disable(vault: Vault, call: AdminCall): Promise<AdminDone> {
  return change(vault, call, { disabled: true }, false);
}

type Changes = ReturnType<typeof readFields<typeof FIELDS>>;

/** @param isWhole a name in the path stays: the next PUT would make another client */
async function change(
  vault: Vault,
  { params: [named], headers }: AdminCall,
  { space: wanted, ...changes }: Changes,
  isWhole: boolean,
): Promise<AdminDone> {
  const changed = await updateClient(vault, named!, changes, (client) => {
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
