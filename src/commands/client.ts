import { type Command, InvalidArgumentError, Option } from 'commander';
import {
  createClient,
  issueApiKey,
  listApiKeys,
  listClients,
  newApiKey,
  revokeApiKey,
  updateClient,
} from '../access/clients.ts';
import {
  CLIENT_SETTINGS,
  type Client,
  type ClientSettings,
  DEFAULT_SETTINGS,
  LIMIT_COLUMNS,
  RIGHT_NAMES,
  type RightName,
  SETTING_NAMES,
  type SettingName,
  TOKEN_MODES,
  wordsOf,
} from '../client-settings.ts';
import { parseRate } from '../config/setting.ts';
import { shown, unsafeCharacter } from '../terminal.ts';
import { IN_FORCE_S } from '../timeouts.ts';
import { type ApiKey, restate } from '../types.ts';
import type { Vault } from '../vault/vault.ts';
import {
  acting,
  command,
  type OutputOptions,
  print,
  printDone,
  printTable,
  time,
  withVault,
} from './command.ts';

/** An option that sets something is read as a part of ClientSettings. */
type ClientOptions = OutputOptions & Readonly<Record<string, Partial<ClientSettings> | boolean>>;

export function addClient(program: Command): void {
  const client = program.command('client').description('Clients: the applications that may call.');
  addCreate(client);
  command(client, 'list', 'List all clients.', ['standin client list']).action((options) =>
    withVault((vault) => list(vault, options)),
  );
  addUpdate(client);
  command(client, 'disable', 'Refuse all API keys of a client.', ['standin client disable billing'])
    .argument('<client>', CLIENT)
    .action((named, options) => withVault((vault) => acting(disable(vault, named, options))));
}

function addCreate(client: Command): void {
  const creating = command(
    client,
    'create',
    'Make a client with an API key; the key is shown only once. With --subject: without.',
    [
      'standin client create --name billing',
      'standin client create --name crm --rate-limit 200 --token-mode random --json',
      'standin client create --name intake --can tokenize',
      'standin client create --name jobs --subject spiffe://example.org/jobs',
    ],
  );
  addSettings(creating, true).action((options) =>
    withVault((vault, config) => acting(create(vault, config.CLIENT_PREFIX, options))),
  );
}

function addUpdate(client: Command): void {
  const updating = command(client, 'update', 'Change a client.', [
    'standin client update billing --rate-limit default',
    'standin client update billing --can detokenize',
    'standin client update standin_0123456789abcdef01234567 --enable',
  ]).argument('<client>', CLIENT);
  addSettings(updating, false)
    .option('--enable', 'undo disable')
    .action((named, options, itself: Command) => {
      const { json: _, ...changes } = options;
      if (Object.keys(changes).length === 0)
        itself.error('error: name what to change, for example --rate-limit 200');
      return withVault((vault) => acting(update(vault, named, options)));
    });
}

const CLIENT = 'its name or id';
const operationOf = (right: RightName) => right.slice('can_'.length);
const OPERATIONS = RIGHT_NAMES.map(operationOf);
/** The name of an option's argument. Options that are not here take a number. */
const ARGUMENTS: Partial<Record<SettingName, string>> = {
  ...{ name: 'name', token_mode: 'mode', time_to_live_s: 'time', space: 'name', subject: 'claim' },
};
const isRight = (name: SettingName) => (RIGHT_NAMES as readonly string[]).includes(name);
const isLimit = (name: SettingName) => (LIMIT_COLUMNS as readonly string[]).includes(name);

function addSettings(made: Command, isNew: boolean): Command {
  for (const name of SETTING_NAMES.filter((one) => !isRight(one))) {
    if (name !== 'space' || isNew) made.addOption(optionOf(name, isNew));
    if (name === 'name') made.addOption(rightsOption());
  }
  return made;
}

function rightsOption(): Option {
  const [tokenize, detokenize, lookup] = OPERATIONS;
  const option = new Option('--can <operations>', 'what it may do').choices([
    ...OPERATIONS,
    ...[`${tokenize},${detokenize}`, `${tokenize},${lookup}`, `${detokenize},${lookup}`],
    OPERATIONS.join(),
  ]);
  return option.argParser(rights); // Choices alone would take one order.
}

function optionOf(name: SettingName, isNew: boolean): Option {
  const { default: fallback, meaning, nullMeans } = CLIENT_SETTINGS[name];
  const ofNull = nullMeans === undefined ? '' : `; "${wordOfNull(name)}": ${nullMeans}`;
  const option = new Option(
    `--${name.replace(/_s$/, '').replaceAll('_', '-')} <${ARGUMENTS[name] ?? 'n'}>`,
    meaning[0]!.toLowerCase() + meaning.slice(1) + ofNull,
  );
  option.makeOptionMandatory(isNew && name === 'name');
  if (name === 'token_mode') option.choices(TOKEN_MODES);
  if (name === 'token_mode' && isNew) option.default({ [name]: fallback }, `"${fallback}"`);
  return option.argParser((text) => ({ [name]: read(name, text) }));
}

function rights(text: string): Partial<ClientSettings> {
  const named = text.split(',');
  const known = OPERATIONS.filter((operation) => named.includes(operation));
  if (known.length !== named.length)
    throw new InvalidArgumentError(
      'It must be some of tokenize, detokenize and lookup, with commas: tokenize,lookup.',
    );
  return Object.fromEntries(OPERATIONS.map((one) => [`can_${one}`, known.includes(one)]));
}

/** Stands for null in an option. */
const wordOfNull = (name: SettingName) => (isLimit(name) ? 'default' : 'none');

function read(name: SettingName, text: string): unknown {
  const { accepts, nullMeans, read } = CLIENT_SETTINGS[name];
  const isNull = nullMeans !== undefined && text === wordOfNull(name);
  const found = read(isNull ? null : jsonOf(name, text));
  if (found !== undefined) return found;
  // The service says which character is not safe.
  if (unsafeCharacter(text) !== undefined) return text;
  const words = name === 'time_to_live_s' ? 'a time like 30m, 12h or 90d, up to 10000d' : accepts;
  throw new InvalidArgumentError(`It must be ${words.replace('; or null', '')}.`);
}

function jsonOf(name: SettingName, text: string): unknown {
  if (name === 'time_to_live_s') return spanS(text);
  return isLimit(name) ? parseRate(text) : text;
}

/** The settings that the options name. */
function settingsOf(options: ClientOptions): Partial<ClientSettings> {
  return Object.assign({}, ...Object.values(options));
}

async function create(vault: Vault, clientPrefix: string, options: ClientOptions) {
  const settings = { ...DEFAULT_SETTINGS, ...settingsOf(options) } as ClientSettings;
  const { subject } = settings;
  const client = await createClient(vault, clientPrefix, settings);
  const { client_id: clientId } = client;
  // A client with JWTs needs no secret that somebody would have to keep.
  const { api_key: apiKey } = subject
    ? { api_key: null }
    : await issueApiKey(vault, clientId, null);
  return printDone(
    options,
    restate(client, { client_id: clientId, api_key: apiKey }),
    `client   ${clientId}
can      ${mayText(settings, settings.name, clientId)}
${apiKey ? `API key  ${apiKey}  (shown only this once)` : `subject  ${subject}`}`,
  );
}

async function list(vault: Vault, options: OutputOptions): Promise<void> {
  const clients = await listClients(vault);
  const rows = clients.map((client) => [
    client.client_id,
    client.name,
    canText(client),
    ...LIMIT_COLUMNS.map((column) => rateText(client[column])),
    client.token_mode,
    timeToLiveText(client.time_to_live_s),
    client.space || '-',
    ...[client.created_at, client.last_used_at, client.disabled_at].map(time),
  ]);
  const empty = 'No clients yet. Make one with: standin client create --name NAME';
  printTable(options, clients, { headings: HEADINGS, rows, empty });
}

const HEADINGS = [
  ...['CLIENT', 'NAME', 'CAN', ...LIMIT_COLUMNS.map((column) => wordsOf(column).toUpperCase())],
  ...['TOKENS', 'TIME TO LIVE', 'SPACE', 'CREATED', 'LAST USED', 'DISABLED'],
];

async function update(vault: Vault, named: string, options: ClientOptions) {
  const client = await updateClient(vault, named, {
    ...settingsOf(options),
    ...(options.enable && { disabled: false }),
  });
  return printDone(options, client, describe(client));
}

async function disable(vault: Vault, named: string, options: OutputOptions) {
  const client = await updateClient(vault, named, { disabled: true });
  const text = `${describe(client)}\nIts API keys stop working within ${IN_FORCE_S} s.`;
  return printDone(options, client, text);
}

type Permissions = Pick<Client, RightName>;

/** @param clientId for a name that a shell would not take as one word */
function mayText(
  may: Permissions & Pick<Client, 'subject'>,
  name: string,
  clientId: string,
): string {
  if (!(may.can_tokenize && may.can_detokenize)) return canText(may);
  const word = /^[\w.-]+$/.test(name) ? name : clientId;
  const credential = may.subject === null ? 'its API key turns' : 'its JWTs turn';
  return `tokenize and detokenize: ${credential} tokens back into values
         to allow less: standin client update ${word} --can tokenize`;
}

function describe(client: Client): string {
  const state =
    client.disabled_at === null ? 'enabled' : `disabled since ${time(client.disabled_at)}`;
  const limits = LIMIT_COLUMNS.map(
    (column) => `${wordsOf(column).toLowerCase()} ${rateText(client[column])}`,
  );
  const jwt = client.subject === null ? '' : `, subject ${shown(client.subject)}`;
  return `${client.client_id}  ${shown(client.name)}: ${state}${jwt}, can ${canText(client)}, ${limits.join(', ')}, ${client.token_mode} tokens, time to live ${timeToLiveText(client.time_to_live_s)}`;
}

function canText(client: Permissions): string {
  return RIGHT_NAMES.filter((right) => client[right])
    .map(operationOf)
    .join(',');
}

function rateText(rateLimit: number | null): string {
  if (rateLimit === null) return 'default';
  return rateLimit === 0 ? 'none' : `${rateLimit}/s`;
}

const UNITS_S: Readonly<Record<string, number>> = { d: 86_400, h: 3_600, m: 60 };

/** Seconds of a time like 30m, 12h or 90d; NaN for any other text. */
function spanS(text: string): number {
  const [, number, unit] = /^(\d{1,6})([mhd])$/.exec(text) ?? [];
  return unit === undefined ? Number.NaN : Number(number) * UNITS_S[unit]!;
}

/** In the form that the options accept. */
function timeToLiveText(timeToLiveS: number | null): string {
  if (timeToLiveS === null) return 'for ever';
  const [unit, seconds] = Object.entries(UNITS_S).find(([, s]) => timeToLiveS % s === 0) ?? [
    's',
    1,
  ];
  return `${timeToLiveS / seconds}${unit}`;
}

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
  ]).action((options: OutputOptions) => {
    const apiKey = newApiKey();
    print(options, { api_key: apiKey }, apiKey);
  });
  command(apiKey, 'list', 'List API keys by their ids; the keys themselves are not stored.', [
    'standin api-key list --client billing',
  ])
    .option('--client <client>', 'only keys of the client with this name or id')
    .action((options) => withVault((vault) => listKeys(vault, options)));
  command(apiKey, 'revoke <api_key_id>', 'Refuse an API key from now on.', [
    'standin api-key revoke key_0123456789ab',
  ]).action((apiKeyId, options) => withVault((vault) => acting(revoke(vault, apiKeyId, options))));
}

function expiry(text: string): Date {
  const durationS = spanS(text);
  const date = new Date(Number.isNaN(durationS) ? text : Date.now() + 1000 * durationS);
  if (Number.isNaN(date.getTime()) || date <= new Date()) {
    throw new InvalidArgumentError(
      'It must be a time from now like 30m, 12h or 90d, or an ISO date in the future.',
    );
  }
  return date;
}

async function issue(
  vault: Vault,
  options: OutputOptions & { readonly client: string; readonly expires?: Date },
) {
  const issued = await issueApiKey(vault, options.client, options.expires ?? null);
  const { api_key_id: id, client_id: clientId, api_key: apiKey, expires_at: expiresAt } = issued;
  const result = { api_key_id: id, client_id: clientId, api_key: apiKey, expires_at: expiresAt };
  return printDone(
    options,
    restate(issued, result),
    `API key  ${apiKey}  (shown only this once)\nid       ${id}\nexpires  ${time(expiresAt)}`,
  );
}

async function listKeys(
  vault: Vault,
  options: OutputOptions & { readonly client?: string },
): Promise<void> {
  const apiKeys = await listApiKeys(vault, options.client);
  const clients = await listClients(vault);
  const names = new Map(clients.map((client) => [client.client_id, client.name]));
  const rows = apiKeys.map((key) => [
    key.api_key_id,
    key.client_id,
    names.get(key.client_id)!,
    stateOf(key),
    ...[key.created_at, key.last_used_at, key.expires_at, key.revoked_at].map(time),
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
  return printDone(
    options,
    apiKey,
    `${apiKeyId} is revoked; it stops working within ${IN_FORCE_S} s.`,
  );
}

function stateOf(key: ApiKey): string {
  if (key.revoked_at !== null) return 'revoked';
  return key.expires_at !== null && key.expires_at <= new Date() ? 'expired' : 'live';
}
