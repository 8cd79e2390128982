import {
  createClient,
  DEFAULT_SETTINGS,
  issueApiKey,
  listClients,
  updateClient,
} from '../service/clients.ts';
import type { Vault } from '../service/vault.ts';
import { shown } from '../terminal.ts';
import type { Client, TokenMode } from '../types.ts';
import { type OutputOptions, print, table, time } from './output.ts';

/** What a client may do: one column each. */
export type Permissions = Pick<Client, 'can_tokenize' | 'can_detokenize'>;

export interface CreateOptions extends OutputOptions {
  readonly name: string;
  readonly can?: Permissions;
  readonly rateLimit?: number;
  readonly detokenizeLimit?: number;
  readonly unknownTokenLimit?: number;
  readonly tokenMode: TokenMode;
  readonly timeToLive?: number;
}

export async function clientCreate(
  vault: Vault,
  client_prefix: string,
  options: CreateOptions,
): Promise<void> {
  const { name, can, tokenMode: token_mode } = options;
  const settings = {
    ...DEFAULT_SETTINGS,
    name,
    token_mode,
    rate_limit: options.rateLimit ?? null,
    detokenize_limit: options.detokenizeLimit ?? null,
    unknown_token_limit: options.unknownTokenLimit ?? null,
    time_to_live_s: options.timeToLive ?? null,
    ...can,
  };
  const { client_id } = await createClient(vault, client_prefix, settings);
  const { api_key } = await issueApiKey(vault, client_id, null);
  print(
    options,
    { client_id, api_key },
    `client   ${client_id}\nAPI key  ${api_key}  (shown only this once)`,
  );
}

export async function clientList(vault: Vault, options: OutputOptions): Promise<void> {
  const clients = await listClients(vault);
  const rows = clients.map((client) => [
    client.client_id,
    client.name,
    canText(client),
    rateText(client.rate_limit),
    rateText(client.detokenize_limit),
    rateText(client.unknown_token_limit),
    client.token_mode,
    timeToLiveText(client.time_to_live_s),
    time(client.created_at),
    time(client.last_used_at),
    time(client.disabled_at),
  ]);
  print(options, clients, table(HEADINGS, rows));
}

const HEADINGS = [
  'CLIENT',
  'NAME',
  'CAN',
  'RATE LIMIT',
  'DETOKENIZE',
  'UNKNOWN TOKENS',
  'TOKENS',
  'TIME TO LIVE',
  'CREATED',
  'LAST USED',
  'DISABLED',
];

export interface UpdateOptions extends OutputOptions {
  readonly name?: string;
  readonly can?: Permissions;
  readonly rateLimit?: number | 'default';
  readonly detokenizeLimit?: number | 'default';
  readonly unknownTokenLimit?: number | 'default';
  readonly tokenMode?: TokenMode;
  readonly timeToLive?: number | 'none';
  readonly enable?: boolean;
}

export async function clientUpdate(
  vault: Vault,
  client_id: string,
  options: UpdateOptions,
): Promise<void> {
  const { name, can, tokenMode: token_mode, timeToLive, enable } = options;
  const client = await updateClient(vault, client_id, {
    name,
    token_mode,
    rate_limit: ownLimit(options.rateLimit),
    detokenize_limit: ownLimit(options.detokenizeLimit),
    unknown_token_limit: ownLimit(options.unknownTokenLimit),
    time_to_live_s: timeToLive === 'none' ? null : timeToLive,
    disabled: enable === undefined ? undefined : !enable,
    ...can,
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
  const limits = [
    `rate limit ${rateText(client.rate_limit)}`,
    `detokenize limit ${rateText(client.detokenize_limit)}`,
    `unknown tokens ${rateText(client.unknown_token_limit)}`,
  ];
  return `${client.client_id}  ${shown(client.name)}: ${state}, can ${canText(client)}, ${limits.join(', ')}, ${client.token_mode} tokens, time to live ${timeToLiveText(client.time_to_live_s)}`;
}

function canText({ can_tokenize, can_detokenize }: Permissions): string {
  return [can_tokenize && 'tokenize', can_detokenize && 'detokenize'].filter(Boolean).join(',');
}

/** undefined: as it is; null: that of the deployment. */
function ownLimit(limit: number | 'default' | undefined): number | null | undefined {
  return limit === 'default' ? null : limit;
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
