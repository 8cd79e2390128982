import { newApiKey, randomHex } from '../crypto/api-key.ts';
import { OperatorError } from '../errors.ts';
import { insertApiKey } from '../store/api-keys.ts';
import type { ClientChange, ClientSettings } from '../store/clients.ts';
import { allowedOr } from '../store/database-error.ts';
import { unsafeCharacter } from '../terminal.ts';
import { commandDeadline } from '../timeouts.ts';
import type { ApiKey, Client, UsedApiKey } from '../types.ts';
import type { Vault } from './vault.ts';

const CLIENT_ID_BYTES = 12;
const API_KEY_ID_BYTES = 6;

export { newApiKey };

/** An API key in clear. It is shown once and never stored. */
export interface IssuedApiKey extends ApiKey {
  readonly api_key: string;
}

/** Settings of a client created with a name only. */
export const DEFAULT_SETTINGS: Omit<ClientSettings, 'name'> = {
  rate_limit: null,
  token_mode: 'deterministic',
  can_tokenize: true,
  can_detokenize: true,
  detokenize_limit: null,
  unknown_token_limit: null,
  time_to_live_s: null,
};

export async function createClient(
  vault: Vault,
  clientPrefix: string,
  settings: ClientSettings,
): Promise<Client> {
  demandName(settings.name);
  return vault.clients.insert(newClientId(clientPrefix), settings, commandDeadline());
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
): Promise<IssuedApiKey | undefined> {
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
        return insertApiKey(query, issue.api_key_id, clientId, issue.digest, null);
      },
      commandDeadline(),
    ),
  );
  return made && { ...made, api_key: apiKey };
}

/** Refuses characters that would control the terminal or disguise the name when it is printed. */
function demandName(name: string): void {
  const found = unsafeCharacter(name);
  if (found === undefined) return;
  throw new OperatorError(
    `The name of a client cannot contain ${found}: leave out control characters, line ends, and characters that change the direction of text.`,
  );
}

export interface UsedClient extends Client {
  /**
   * Last use of any of its API keys on any node, to the minute; null: none since uses are recorded.
   */
  readonly last_used_at: Date | null;
}

/** All clients, the oldest first. */
export async function listClients({
  clients,
  api_key_uses: apiKeyUses,
}: Vault): Promise<UsedClient[]> {
  const deadlineMs = commandDeadline();
  const listed = await clients.list(deadlineMs);
  const uses = await apiKeyUses.ofClients(deadlineMs);
  return listed.map((client) => ({
    ...client,
    last_used_at: uses.get(client.client_id)?.last_used_at ?? null,
  }));
}

export async function updateClient(
  vault: Vault,
  clientId: string,
  change: ClientChange,
): Promise<Client> {
  if (change.name !== undefined) demandName(change.name);
  const client = await vault.clients.update(clientId, change, commandDeadline());
  if (client === undefined) throw noClient(clientId);
  return client;
}

/** @param expiresAt null: never */
export async function issueApiKey(
  vault: Vault,
  clientId: string,
  expiresAt: Date | null,
): Promise<IssuedApiKey> {
  const client = await findClient(vault, clientId);
  if (client.disabled_at !== null) {
    throw new OperatorError(
      `Client ${clientId} is disabled. Enable it first: standin client update ${clientId} --enable`,
    );
  }
  const { api_key: apiKey, api_key_id: apiKeyId, digest } = newIssue(vault, newApiKey());
  return {
    ...(await vault.api_keys.insert(apiKeyId, clientId, digest, expiresAt, commandDeadline())),
    api_key: apiKey,
  };
}

function newClientId(clientPrefix: string): string {
  return `${clientPrefix}_${randomHex(CLIENT_ID_BYTES)}`;
}

function newIssue({ keyring }: Vault, apiKey: string) {
  return {
    api_key: apiKey,
    api_key_id: `key_${randomHex(API_KEY_ID_BYTES)}`,
    digest: keyring.apiKeyDigest(apiKey),
  };
}

/** @param clientId undefined: list the API keys of all clients */
export async function listApiKeys(
  vault: Vault,
  clientId: string | undefined,
): Promise<UsedApiKey[]> {
  if (clientId !== undefined) await findClient(vault, clientId);
  return vault.api_keys.list(clientId, commandDeadline());
}

export async function revokeApiKey(vault: Vault, apiKeyId: string): Promise<ApiKey> {
  const revoked = await vault.api_keys.revoke(apiKeyId, commandDeadline());
  if (revoked === undefined) {
    throw new OperatorError(
      `There is no API key ${apiKeyId}. List them with: standin api-key list`,
    );
  }
  return revoked;
}

async function findClient(vault: Vault, clientId: string): Promise<Client> {
  const clients = await vault.clients.list(commandDeadline());
  const client = clients.find((one) => one.client_id === clientId);
  if (client === undefined) throw noClient(clientId);
  return client;
}

function noClient(clientId: string): OperatorError {
  return new OperatorError(`There is no client ${clientId}. List them with: standin client list`);
}
