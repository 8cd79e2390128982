import { type Command, InvalidArgumentError, Option } from 'commander';
import { parseRate } from '../config/parsers.ts';
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
import { command, spanMs, withVault } from './command.ts';
import { type OutputOptions, print, table, time } from './output.ts';

export function addClient(program: Command): void {
  const client = program.command('client').description('Clients: the applications that may call.');
  const creating = command(
    client,
    'create',
    'Make a client with an API key; the key is shown only once.',
    [
      'standin client create --name billing',
      'standin client create --name crm --rate-limit 200 --token-mode random --json',
      'standin client create --name intake --can tokenize',
    ],
  ).requiredOption('--name <name>', 'what people call it', nonEmpty);
  addPermissionsAndLimits(creating, 'default', rate)
    .addOption(tokenMode().default('deterministic'))
    .option('--time-to-live <time>', 'how long its tokens are known; default: for ever', timeToLive)
    .action((options) =>
      withVault((vault, config) => create(vault, config.CLIENT_PREFIX, options)),
    );
  command(client, 'list', 'List all clients.', ['standin client list']).action((options) =>
    withVault((vault) => list(vault, options)),
  );
  addUpdate(client);
  command(client, 'disable <client_id>', 'Refuse all API keys of a client.', [
    'standin client disable standin_0123456789abcdef01234567',
  ]).action((clientId, options) => withVault((vault) => disable(vault, clientId, options)));
}

function addUpdate(client: Command): void {
  const updating = command(client, 'update <client_id>', 'Change a client.', [
    'standin client update standin_0123456789abcdef01234567 --rate-limit default',
    'standin client update standin_0123456789abcdef01234567 --can detokenize',
    'standin client update standin_0123456789abcdef01234567 --enable',
  ]).option('--name <name>', 'what people call it', nonEmpty);
  addPermissionsAndLimits(updating, '"default"', rateOrDefault)
    .addOption(tokenMode())
    .option(
      '--time-to-live <time>',
      'how long its new tokens are known; "none": for ever',
      timeToLiveOrNone,
    )
    .option('--enable', 'undo disable')
    .action((clientId, options, itself: Command) => {
      if (!isChange(options))
        itself.error('error: name what to change, for example --rate-limit 200');
      return withVault((vault) => update(vault, clientId, options));
    });
}

/** @param fallback the word that means the limit of the deployment */
function addPermissionsAndLimits(
  made: Command,
  fallback: string,
  parse: (text: string) => number | 'default',
): Command {
  const can = new Option('--can <operations>', 'what it may do').choices(CAN);
  // A parser, because choices alone would demand one order.
  made.addOption(can.argParser(permissions));
  for (const [option, counted, setting] of LIMITS) {
    const help = `${counted} a second; 0: no limit; ${fallback}: ${setting}`;
    made.option(`--${option} <n>`, help, parse);
  }
  return made;
}

const LIMITS = [
  ['rate-limit', 'requests', 'RATE_LIMIT'],
  ['detokenize-limit', 'detokenize requests', 'DETOKENIZE_LIMIT'],
  ['unknown-token-limit', 'unknown tokens', 'UNKNOWN_TOKEN_LIMIT'],
] as const;

function tokenMode(): Option {
  return new Option(
    '--token-mode <mode>',
    'equal values get equal tokens, or a new token each time',
  ).choices(['deterministic', 'random']);
}

const CAN = ['tokenize', 'detokenize', 'tokenize,detokenize'];

function permissions(text: string): Permissions {
  const operations = text.split(',');
  const canTokenize = operations.includes('tokenize');
  const canDetokenize = operations.includes('detokenize');
  const known = Number(canTokenize) + Number(canDetokenize);
  if (known !== operations.length)
    throw new InvalidArgumentError('It must be tokenize, detokenize or tokenize,detokenize.');
  return { can_tokenize: canTokenize, can_detokenize: canDetokenize };
}

function nonEmpty(text: string): string {
  if (text.trim() === '' || text.length > 200)
    throw new InvalidArgumentError('It must have 1 to 200 characters.');
  return text;
}

function isChange({ json: _, ...change }: UpdateOptions): boolean {
  return Object.keys(change).length > 0;
}

function rate(text: string): number {
  const parsed = parseRate(text);
  if (parsed === undefined)
    throw new InvalidArgumentError('It must be a number of requests a second, 0 to 1000000.');
  return parsed;
}

/** Returns a word for the default, because commander turns null into an empty text. */
function rateOrDefault(text: string): number | 'default' {
  return text === 'default' ? text : rate(text);
}

/** In seconds. */
function timeToLive(text: string): number {
  const timeToLiveS = spanMs(text) / 1000;
  if (!(timeToLiveS > 0 && timeToLiveS <= MAX_TIME_TO_LIVE_S))
    throw new InvalidArgumentError('It must be a time like 30m, 12h or 90d, up to 10000d.');
  return timeToLiveS;
}

function timeToLiveOrNone(text: string): number | 'none' {
  return text === 'none' ? text : timeToLive(text);
}

const MAX_TIME_TO_LIVE_S = 10_000 * 86_400;

/** The columns of what a client may do. */
type Permissions = Pick<Client, 'can_tokenize' | 'can_detokenize'>;

interface CreateOptions extends OutputOptions {
  readonly name: string;
  readonly can?: Permissions;
  readonly rateLimit?: number;
  readonly detokenizeLimit?: number;
  readonly unknownTokenLimit?: number;
  readonly tokenMode: TokenMode;
  readonly timeToLive?: number;
}

async function create(vault: Vault, clientPrefix: string, options: CreateOptions): Promise<void> {
  const { name, can, tokenMode } = options;
  const settings = {
    ...DEFAULT_SETTINGS,
    name,
    token_mode: tokenMode,
    rate_limit: options.rateLimit ?? null,
    detokenize_limit: options.detokenizeLimit ?? null,
    unknown_token_limit: options.unknownTokenLimit ?? null,
    time_to_live_s: options.timeToLive ?? null,
    ...can,
  };
  const { client_id: clientId } = await createClient(vault, clientPrefix, settings);
  const { api_key: apiKey } = await issueApiKey(vault, clientId, null);
  print(
    options,
    { client_id: clientId, api_key: apiKey },
    `client   ${clientId}\nAPI key  ${apiKey}  (shown only this once)`,
  );
}

async function list(vault: Vault, options: OutputOptions): Promise<void> {
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

interface UpdateOptions extends OutputOptions {
  readonly name?: string;
  readonly can?: Permissions;
  readonly rateLimit?: number | 'default';
  readonly detokenizeLimit?: number | 'default';
  readonly unknownTokenLimit?: number | 'default';
  readonly tokenMode?: TokenMode;
  readonly timeToLive?: number | 'none';
  readonly enable?: boolean;
}

async function update(vault: Vault, clientId: string, options: UpdateOptions): Promise<void> {
  const { name, can, tokenMode, timeToLive, enable } = options;
  const client = await updateClient(vault, clientId, {
    name,
    token_mode: tokenMode,
    rate_limit: ownLimit(options.rateLimit),
    detokenize_limit: ownLimit(options.detokenizeLimit),
    unknown_token_limit: ownLimit(options.unknownTokenLimit),
    time_to_live_s: timeToLive === 'none' ? null : timeToLive,
    disabled: enable === undefined ? undefined : !enable,
    ...can,
  });
  print(options, client, describe(client));
}

async function disable(vault: Vault, clientId: string, options: OutputOptions): Promise<void> {
  const client = await updateClient(vault, clientId, { disabled: true });
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

function canText({
  can_tokenize: canTokenize,
  can_detokenize: canDetokenize,
}: Permissions): string {
  return [canTokenize && 'tokenize', canDetokenize && 'detokenize'].filter(Boolean).join(',');
}

/** undefined: keep the limit; null: use the limit of the deployment. */
function ownLimit(limit: number | 'default' | undefined): number | null | undefined {
  return limit === 'default' ? null : limit;
}

function rateText(rateLimit: number | null): string {
  if (rateLimit === null) return 'default';
  return rateLimit === 0 ? 'none' : `${rateLimit}/s`;
}

const UNITS_S = [
  ['d', 86_400],
  ['h', 3_600],
  ['m', 60],
] as const;

/** In the form that the options accept. */
function timeToLiveText(timeToLiveS: number | null): string {
  if (timeToLiveS === null) return 'for ever';
  const unit = UNITS_S.find(([, seconds]) => timeToLiveS % seconds === 0);
  return unit === undefined ? `${timeToLiveS}s` : `${timeToLiveS / unit[1]}${unit[0]}`;
}
