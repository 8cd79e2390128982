import { type Command, InvalidArgumentError } from 'commander';
import {
  issueApiKey,
  listApiKeys,
  listClients,
  newApiKey,
  revokeApiKey,
} from '../access/clients.ts';
import { type ApiKey, restate } from '../types.ts';
import type { Vault } from '../vault/vault.ts';
import {
  acting,
  command,
  type OutputOptions,
  print,
  printDone,
  printTable,
  spanMs,
  time,
  withVault,
} from './command.ts';

export function addApiKey(program: Command): void {
  const apiKey = program
    .command('api-key')
    .description('API keys of clients; a client can have several.');
  command(apiKey, 'issue', 'Issue one more API key; it is shown only once.', [
    'standin api-key issue --client billing --expires 90d',
  ])
    .requiredOption('--client <client>', 'name or id of the client of the new key')
    .option(
      '--expires <when>',
      'a time from now like 90d or 12h, or an ISO date; default: never',
      expiry,
    )
    .action((options) => withVault((vault) => acting(issue(vault, options))));
  command(apiKey, 'new', 'Print a new API key for BOOTSTRAP_API_KEY_FILE; no vault knows it yet.', [
    'standin api-key new',
  ]).action(makeNew);
  command(apiKey, 'list', 'List API keys by their ids; the keys themselves are not stored.', [
    'standin api-key list --client billing',
  ])
    .option('--client <client>', 'only keys of the client with this name or id')
    .action((options) => withVault((vault) => list(vault, options)));
  command(apiKey, 'revoke <api_key_id>', 'Refuse an API key from now on.', [
    'standin api-key revoke key_0123456789ab',
  ]).action((apiKeyId, options) => withVault((vault) => acting(revoke(vault, apiKeyId, options))));
}

function expiry(text: string): Date {
  const durationMs = spanMs(text);
  const date = new Date(Number.isNaN(durationMs) ? text : Date.now() + durationMs);
  if (Number.isNaN(date.getTime()) || date <= new Date()) {
    throw new InvalidArgumentError(
      'It must be a time from now like 30m, 12h or 90d, or an ISO date in the future.',
    );
  }
  return date;
}

interface IssueOptions extends OutputOptions {
  readonly client: string;
  readonly expires?: Date;
}

/** Prints a key for the file that BOOTSTRAP_API_KEY_FILE names. No vault knows this key yet. */
function makeNew(options: OutputOptions): void {
  const apiKey = newApiKey();
  print(options, { api_key: apiKey }, apiKey);
}

async function issue(vault: Vault, options: IssueOptions) {
  const issued = await issueApiKey(vault, options.client, options.expires ?? null);
  const { api_key_id: id, client_id: clientId, api_key: apiKey, expires_at: expiresAt } = issued;
  const result = { api_key_id: id, client_id: clientId, api_key: apiKey, expires_at: expiresAt };
  return printDone(
    options,
    restate(issued, result),
    `API key  ${apiKey}  (shown only this once)\nid       ${id}\nexpires  ${time(expiresAt)}`,
  );
}

async function list(
  vault: Vault,
  options: OutputOptions & { readonly client?: string },
): Promise<void> {
  const apiKeys = await listApiKeys(vault, options.client);
  const clients = await listClients(vault);
  const names = new Map(clients.map((client) => [client.client_id, client.name]));
  const rows = apiKeys.map((key) => [
    key.api_key_id,
    key.client_id,
    names.get(key.client_id) ?? '-',
    state(key),
    time(key.created_at),
    time(key.last_used_at),
    time(key.expires_at),
    time(key.revoked_at),
  ]);
  printTable(options, apiKeys, {
    headings: [
      ...['API KEY', 'CLIENT', 'NAME', 'STATE'],
      ...['CREATED', 'LAST USED', 'EXPIRES', 'REVOKED'],
    ],
    rows,
    empty: 'No API keys yet. Issue one with: standin api-key issue --client NAME',
  });
}

async function revoke(vault: Vault, apiKeyId: string, options: OutputOptions) {
  const apiKey = await revokeApiKey(vault, apiKeyId);
  return printDone(options, apiKey, `${apiKeyId} is revoked; it stops working within 5 s.`);
}

function state(key: ApiKey): string {
  if (key.revoked_at !== null) return 'revoked';
  return key.expires_at !== null && key.expires_at <= new Date() ? 'expired' : 'live';
}
