import { createClient, DEFAULT_SETTINGS, issueApiKey, updateClient } from '../service/clients.ts';
import { commandDeadline, type Vault } from '../service/vault.ts';
import type { Client, TokenMode } from '../types.ts';
import { type OutputOptions, print, table, time } from './output.ts';

export interface CreateOptions extends OutputOptions {
  readonly name: string;
  readonly rateLimit?: number;
  readonly tokenMode: TokenMode;
  readonly timeToLive?: number;
}

export async function clientCreate(
  vault: Vault,
  client_prefix: string,
  options: CreateOptions,
): Promise<void> {
  const { name, rateLimit: rate_limit = null, tokenMode: token_mode } = options;
  const { timeToLive: time_to_live_s = null } = options;
  const settings = { ...DEFAULT_SETTINGS, name, rate_limit, token_mode, time_to_live_s };
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
    timeToLiveText(client.time_to_live_s),
    time(client.created_at),
    time(client.disabled_at),
  ]);
  print(
    options,
    clients,
    table(['CLIENT', 'NAME', 'RATE LIMIT', 'TOKENS', 'TIME TO LIVE', 'CREATED', 'DISABLED'], rows),
  );
}

export interface UpdateOptions extends OutputOptions {
  readonly name?: string;
  readonly rateLimit?: number | 'default';
  readonly tokenMode?: TokenMode;
  readonly timeToLive?: number | 'none';
  readonly enable?: boolean;
}

export async function clientUpdate(
  vault: Vault,
  client_id: string,
  options: UpdateOptions,
): Promise<void> {
  const { name, rateLimit, tokenMode: token_mode, timeToLive, enable } = options;
  const rate_limit = rateLimit === 'default' ? null : rateLimit;
  const client = await updateClient(vault, client_id, {
    ...(name === undefined ? {} : { name }),
    ...(rate_limit === undefined ? {} : { rate_limit }),
    ...(token_mode === undefined ? {} : { token_mode }),
    ...(timeToLive === undefined
      ? {}
      : { time_to_live_s: timeToLive === 'none' ? null : timeToLive }),
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
  return `${client.client_id}  ${client.name}: ${state}, rate limit ${rateText(client.rate_limit)}, ${client.token_mode} tokens, time to live ${timeToLiveText(client.time_to_live_s)}`;
}

function rateText(rate_limit: number | null): string {
  if (rate_limit === null) return 'default';
  return rate_limit === 0 ? 'none' : `${rate_limit}/s`;
}

const UNITS_S = [
  ['d', 86_400],
  ['h', 3_600],
  ['m', 60],
] as const;

/** As commands take it. */
function timeToLiveText(time_to_live_s: number | null): string {
  if (time_to_live_s === null) return 'for ever';
  const unit = UNITS_S.find(([, seconds]) => time_to_live_s % seconds === 0);
  return unit === undefined ? `${time_to_live_s}s` : `${time_to_live_s / unit[1]}${unit[0]}`;
}
