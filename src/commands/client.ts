import { createClient, DEFAULT_SETTINGS, issueApiKey, updateClient } from '../service/clients.ts';
import { commandDeadline, type Vault } from '../service/vault.ts';
import type { Client, TokenMode } from '../types.ts';
import { type OutputOptions, print, table, time } from './output.ts';

export interface CreateOptions extends OutputOptions {
  readonly name: string;
  readonly rateLimit?: number;
  readonly tokenMode: TokenMode;
}

export async function clientCreate(
  vault: Vault,
  client_prefix: string,
  options: CreateOptions,
): Promise<void> {
  const { name, rateLimit: rate_limit = null, tokenMode: token_mode } = options;
  const settings = { ...DEFAULT_SETTINGS, name, rate_limit, token_mode };
  const { client_id } = await createClient(vault, client_prefix, settings);
  const { api_key } = await issueApiKey(vault, client_id, null);
  print(
    options,
    { client_id, api_key },
    `client   ${client_id}\nAPI key  ${api_key}  (shown only this once)`,
  );
}

export async function clientList(vault: Vault, options: OutputOptions): Promise<void> {
  const clients = await vault.clients.list(commandDeadline());
  const rows = clients.map((client) => [
    client.client_id,
    client.name,
    rateText(client.rate_limit),
    client.token_mode,
    time(client.created_at),
    time(client.disabled_at),
  ]);
  print(
    options,
    clients,
    table(['CLIENT', 'NAME', 'RATE LIMIT', 'TOKENS', 'CREATED', 'DISABLED'], rows),
  );
}

export interface UpdateOptions extends OutputOptions {
  readonly name?: string;
  readonly rateLimit?: number | 'default';
  readonly tokenMode?: TokenMode;
  readonly enable?: boolean;
}

export async function clientUpdate(
  vault: Vault,
  client_id: string,
  options: UpdateOptions,
): Promise<void> {
  const { name, rateLimit, tokenMode: token_mode, enable } = options;
  const rate_limit = rateLimit === 'default' ? null : rateLimit;
  const client = await updateClient(vault, client_id, {
    ...(name === undefined ? {} : { name }),
    ...(rate_limit === undefined ? {} : { rate_limit }),
    ...(token_mode === undefined ? {} : { token_mode }),
    ...(enable === undefined ? {} : { disabled: !enable }),
  });
  print(options, client, describe(client));
}

export async function clientDisable(
  vault: Vault,
  client_id: string,
  options: OutputOptions,
): Promise<void> {
  const client = await updateClient(vault, client_id, { disabled: true });
  print(options, client, `${describe(client)}\nIts API keys stop working within 5 s.`);
}

function describe(client: Client): string {
  const state =
    client.disabled_at === null ? 'enabled' : `disabled since ${time(client.disabled_at)}`;
  return `${client.client_id}  ${client.name}: ${state}, rate limit ${rateText(client.rate_limit)}, ${client.token_mode} tokens`;
}

function rateText(rate_limit: number | null): string {
  if (rate_limit === null) return 'default';
  return rate_limit === 0 ? 'none' : `${rate_limit}/s`;
}
