import {
  CLIENT_SETTINGS,
  type Client,
  type ClientSettings,
  DEFAULT_SETTINGS,
  SETTING_NAMES,
} from '../client-settings.ts';
import { newApiKey, randomHex } from '../crypto/api-key.ts';
import { Conflict, NotFound, OperatorError } from '../errors.ts';
import { insertApiKey } from '../store/api-keys.ts';
import type { ClientChange, Taken } from '../store/clients.ts';
import { allowedOr } from '../store/database-error.ts';
import { unsafeCharacter } from '../terminal.ts';
import { commandDeadline } from '../timeouts.ts';
import type { ApiKey, Durable, UsedApiKey } from '../types.ts';
import type { Vault } from '../vault/vault.ts';

const CLIENT_ID_BYTES = 12;
const API_KEY_ID_BYTES = 6;
const API_KEY_ID = new RegExp(`^key_[0-9a-f]{${2 * API_KEY_ID_BYTES}}$`);

export { newApiKey };

/** An API key in clear. It is shown once and never stored. */
export interface IssuedApiKey extends ApiKey {
  readonly api_key: string;
}

/** @param isDisabled whether nobody may use the client yet, not even with a JWT of its subject */
export async function createClient(
  { clients }: Vault,
  clientPrefix: string,
  settings: ClientSettings,
  isDisabled = false,
): Promise<Durable<Client>> {
  requireAcceptable(settings);
  const clientId = newClientId(clientPrefix);
  const client = await clients.insert(clientId, settings, isDisabled, commandDeadline());
  return orTaken(client, settings);
}

/**
 * Creates the first client and its API key. Returns undefined when the vault has clients already.
 * @param takeApiKey called before the client is created, and only if there is none. The key must be
 * safe first: a client with a lost API key would block every later start.
 */
export async function createFirstClient(
  vault: Vault,
  clientPrefix: string,
  takeApiKey: () => string,
): Promise<Durable<IssuedApiKey> | undefined> {
  if ((await vault.clients.list(commandDeadline())).length > 0) return undefined;
  const clientId = newClientId(clientPrefix);
  let apiKey = '';
  const made = await allowedOr(
    "The vault has no client yet, and the user of DATABASE_URL may not create one. As the owner of the vault's tables, run: standin client create --name NAME",
    vault.clients.insertFirst(
      clientId,
      { name: 'first', ...DEFAULT_SETTINGS },
      (query) => {
        // Inside the transaction, so that only one of several starting nodes writes the key file.
        const issue = newIssue(vault, takeApiKey());
        apiKey = issue.api_key;
        return insertApiKey(query, { ...issue, client_id: clientId, expires_at: null });
      },
      commandDeadline(),
    ),
  );
  return made && { ...made, api_key: apiKey };
}

/** @throws OperatorError for a setting that is not acceptable: the database does not check it */
function requireAcceptable(change: ClientChange): void {
  for (const setting of SETTING_NAMES) {
    const value = change[setting];
    const { read, accepts } = CLIENT_SETTINGS[setting];
    if (value === undefined || read(value) !== undefined) continue;
    const unsafe = unsafeCharacter(String(value));
    throw new OperatorError(
      unsafe === undefined
        ? `The ${setting} of a client must be ${accepts}.`
        : `The ${setting} of a client cannot contain ${unsafe}: leave out control characters, line ends, and characters that change the direction of text.`,
    );
  }
}

export interface UsedClient extends Client {
  /**
   * Last use of any of its API keys, or of a JWT, on any node, to the minute; null: none since uses
   * are recorded.
   */
  readonly last_used_at: Date | null;
}

/** @param named id or name of the client */
export async function getClient(vault: Vault, named: string): Promise<UsedClient> {
  return findIn(await listClients(vault), named);
}

/** All clients, the oldest first. */
export async function listClients({ clients, apiKeys }: Vault): Promise<UsedClient[]> {
  const deadlineMs = commandDeadline();
  const listed = await clients.list(deadlineMs);
  const uses = await apiKeys.usesOfClients(deadlineMs);
  return listed.map((client) => ({
    ...client,
    last_used_at: uses.get(client.client_id)?.last_used_at ?? null,
  }));
}

/**
 * @param named id or name of the client
 * @param check gets the client as it is before the change, and may throw to leave it so
 */
export async function updateClient(
  vault: Vault,
  named: string,
  change: ClientChange,
  check?: (client: Client) => void,
): Promise<Durable<Client>> {
  requireAcceptable(change);
  const { client_id: clientId } = await findClient(vault, named);
  const client = await vault.clients.update(clientId, change, commandDeadline(), check);
  return orTaken(client, change);
}

/**
 * @param named id or name of the client
 * @param expiresAt null: never
 */
export async function issueApiKey(
  vault: Vault,
  named: string,
  expiresAt: Date | null,
): Promise<Durable<IssuedApiKey>> {
  const { client_id: clientId, ...client } = await findClient(vault, named);
  if (client.disabled_at !== null) {
    throw new Conflict(
      `Client ${clientId} is disabled. Enable it first: standin client update ${clientId} --enable`,
    );
  }
  const issue = newIssue(vault, newApiKey());
  const made = { ...issue, client_id: clientId, expires_at: expiresAt };
  const { api_key: apiKey } = issue;
  return { ...(await vault.apiKeys.insert(made, commandDeadline())), api_key: apiKey };
}

function newClientId(clientPrefix: string): string {
  return `${clientPrefix}_${randomHex(CLIENT_ID_BYTES)}`;
}

/** Whether a text has the form of an `api_key_id`. */
export function isApiKeyId(text: string): boolean {
  return API_KEY_ID.test(text);
}

function newIssue({ keyring }: Vault, apiKey: string) {
  return {
    api_key: apiKey,
    api_key_id: `key_${randomHex(API_KEY_ID_BYTES)}`,
    digest: keyring.apiKeyDigest(apiKey),
  };
}

/** @param named id or name of a client; undefined: list the API keys of all clients */
export async function listApiKeys(vault: Vault, named: string | undefined): Promise<UsedApiKey[]> {
  const clientId = named === undefined ? undefined : (await findClient(vault, named)).client_id;
  return vault.apiKeys.list(clientId, commandDeadline());
}

export async function getApiKey(vault: Vault, apiKeyId: string): Promise<UsedApiKey> {
  const apiKeys = await listApiKeys(vault, undefined);
  const found = apiKeys.find(({ api_key_id: id }) => id === apiKeyId);
  if (found === undefined) throw noApiKey(apiKeyId);
  return found;
}

export async function revokeApiKey(vault: Vault, apiKeyId: string): Promise<Durable<ApiKey>> {
  const revoked = await vault.apiKeys.revoke(apiKeyId, commandDeadline());
  if (revoked === undefined) throw noApiKey(apiKeyId);
  return revoked;
}

function noApiKey(apiKeyId: string): NotFound {
  return new NotFound(`There is no API key ${apiKeyId}. List them with: standin api-key list`);
}

/** The client that a valid API key is of; undefined: there is none. */
export async function clientOf(
  { apiKeys, keyring }: Vault,
  apiKey: string,
  deadlineMs: number,
): Promise<Client | undefined> {
  const [live] = await apiKeys.findLive([keyring.apiKeyDigest(apiKey)], deadlineMs);
  return live?.client;
}

async function findClient(vault: Vault, named: string): Promise<Client> {
  return findIn(await vault.clients.list(commandDeadline()), named);
}

/** An id comes before a name. */
function findIn<C extends Client>(clients: readonly C[], named: string): C {
  const byName = clients.filter((one) => one.name === named);
  const client = clients.find((one) => one.client_id === named) ?? byName[0];
  if (client === undefined)
    throw new NotFound(`There is no client ${named}. List them with: standin client list`);
  if (byName.length > 1 && client.client_id !== named) {
    const ids = byName.map((one) => one.client_id).join(', ');
    throw new Conflict(
      `${byName.length} clients are called ${named}: ${ids}. Use an id, or give all but one another name: standin client update ID --name NAME`,
    );
  }
  return client;
}

function orTaken(
  client: Durable<Client> | Taken,
  { name, subject }: ClientChange,
): Durable<Client> {
  if (client === 'name')
    throw new Conflict(
      `There is a client ${name} already. Choose another name, or change that client: standin client update`,
    );
  if (client === 'subject')
    throw new Conflict(
      `Another client has the subject ${subject}. Find it with standin client list --json, or choose another subject.`,
    );
  return client;
}
