import { type Command, InvalidArgumentError, Option } from 'commander';
import { parseRate } from '../config/setting.ts';
import {
  CLIENT_TEXTS,
  createClient,
  DEFAULT_SETTINGS,
  issueApiKey,
  listClients,
  SETTING_BOUNDS,
  updateClient,
} from '../service/clients.ts';
import type { Vault } from '../service/vault.ts';
import { unsafeCharacter } from '../terminal.ts';
import { restate, type TokenMode } from '../types.ts';
import {
  canText,
  describe,
  LIMITS,
  mayText,
  OPERATIONS,
  type Permissions,
  rateText,
  timeToLiveText,
} from './client-text.ts';
import {
  acting,
  command,
  type OutputOptions,
  printDone,
  printTable,
  spanMs,
  time,
  withVault,
} from './command.ts';

/** Words instead of null, because commander turns null into an empty text. */
type LimitOptions = { readonly [Key in (typeof LIMITS)[number]['key']]?: number | 'default' };

interface ClientOptions extends OutputOptions, LimitOptions {
  readonly name?: string;
  readonly can?: Permissions;
  readonly tokenMode?: TokenMode;
  /** In seconds. */
  readonly timeToLive?: number | 'none';
  readonly space?: string;
  readonly subject?: string;
  readonly enable?: boolean;
}

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
  ).requiredOption('--name <name>', 'what people and commands call it', textOf('name'));
  addPermissionsAndLimits(creating, 'default', rate)
    .addOption(tokenMode().default('deterministic'))
    .option('--time-to-live <time>', 'how long its tokens are known; default: for ever', timeToLive)
    .option('--space <name>', 'its tokens are unknown outside this space (tenant)', textOf('space'))
    .option('--subject <claim>', `${SUBJECT} instead of an API key`, textOf('subject'))
    .action((options) =>
      withVault((vault, config) => acting(create(vault, config.CLIENT_PREFIX, options))),
    );
}

function addUpdate(client: Command): void {
  const updating = command(client, 'update', 'Change a client.', [
    'standin client update billing --rate-limit default',
    'standin client update billing --can detokenize',
    'standin client update standin_0123456789abcdef01234567 --enable',
  ])
    .argument('<client>', CLIENT)
    .option('--name <name>', 'what people and commands call it', textOf('name'));
  addPermissionsAndLimits(updating, '"default"', (text) => (text === 'default' ? text : rate(text)))
    .addOption(tokenMode())
    .option(
      '--time-to-live <time>',
      'how long its new tokens are known; "none": for ever',
      (text) => (text === 'none' ? text : timeToLive(text)),
    )
    .option('--subject <claim>', `${SUBJECT}; "none": no JWT`, textOf('subject'))
    .option('--enable', 'undo disable')
    .action((named, options, itself: Command) => {
      const { json: _, ...changes } = options;
      if (Object.keys(changes).length === 0)
        itself.error('error: name what to change, for example --rate-limit 200');
      return withVault((vault) => acting(update(vault, named, options)));
    });
}

/** @param fallback the word that means the limit of the deployment */
function addPermissionsAndLimits(
  made: Command,
  fallback: string,
  parse: (text: string) => number | 'default',
): Command {
  const can = new Option('--can <operations>', 'what it may do').choices(CAN);
  made.addOption(can.argParser(permissions)); // Choices alone would take one operation.
  for (const { column, counted } of LIMITS) {
    const help = `${counted} a second; 0: no limit; ${fallback}: ${column.toUpperCase()}`;
    made.option(`--${column.replaceAll('_', '-')} <n>`, help, parse);
  }
  return made;
}

function tokenMode(): Option {
  return new Option(
    '--token-mode <mode>',
    'equal values get equal tokens, or a new token each time',
  ).choices(['deterministic', 'random']);
}

const CLIENT = 'its name or id';
const SUBJECT = 'callers may send a JWT with this JWT_CLIENT_CLAIM';

const CAN = [
  ...OPERATIONS,
  ...['tokenize,detokenize', 'tokenize,lookup', 'detokenize,lookup', 'tokenize,detokenize,lookup'],
];

function permissions(text: string): Permissions {
  const named = text.split(',');
  const known = OPERATIONS.filter((operation) => named.includes(operation));
  if (known.length !== named.length)
    throw new InvalidArgumentError(
      'It must be some of tokenize, detokenize and lookup, with commas: tokenize,lookup.',
    );
  return Object.fromEntries(
    OPERATIONS.map((one) => [`can_${one}`, known.includes(one)]),
  ) as Permissions;
}

/** Reads a name, subject or space. */
function textOf(what: keyof typeof CLIENT_TEXTS) {
  const { words, fits } = CLIENT_TEXTS[what];
  return (text: string) => {
    // Of a character that is not safe, the service says which.
    if (!fits(text) && unsafeCharacter(text) === undefined)
      throw new InvalidArgumentError(`It must have ${words}.`);
    return text;
  };
}

function rate(text: string): number {
  const parsed = parseRate(text);
  if (parsed === undefined)
    throw new InvalidArgumentError('It must be a number of requests a second, 0 to 1000000.');
  return parsed;
}

/** In seconds. */
function timeToLive(text: string): number {
  const timeToLiveS = spanMs(text) / 1000;
  if (!(timeToLiveS > 0 && timeToLiveS <= SETTING_BOUNDS.timeToLiveS))
    throw new InvalidArgumentError('It must be a time like 30m, 12h or 90d, up to 10000d.');
  return timeToLiveS;
}

/** The settings that the options name. */
function settingsOf(options: ClientOptions): Partial<typeof DEFAULT_SETTINGS> {
  const { can, tokenMode, timeToLive, space: ofSpace, subject: ofJwt } = options;
  const limits = LIMITS.filter(({ key }) => options[key] !== undefined);
  return {
    ...Object.fromEntries(
      limits.map(({ key, column }) => [column, options[key] === 'default' ? null : options[key]]),
    ),
    ...(tokenMode && { token_mode: tokenMode }),
    ...(timeToLive && { time_to_live_s: timeToLive === 'none' ? null : timeToLive }),
    ...(ofSpace && { space: ofSpace }),
    ...(ofJwt && { subject: ofJwt === 'none' ? null : ofJwt }),
    ...can,
  };
}

async function create(
  vault: Vault,
  clientPrefix: string,
  options: ClientOptions & { readonly name: string },
) {
  const settings = { ...DEFAULT_SETTINGS, ...settingsOf(options), name: options.name };
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
    ...LIMITS.map(({ column }) => rateText(client[column])),
    client.token_mode,
    timeToLiveText(client.time_to_live_s),
    client.space || '-',
    time(client.created_at),
    time(client.last_used_at),
    time(client.disabled_at),
  ]);
  const empty = 'No clients yet. Make one with: standin client create --name NAME';
  printTable(options, clients, { headings: HEADINGS, rows, empty });
}

const HEADINGS = [
  ...['CLIENT', 'NAME', 'CAN', ...LIMITS.map(({ heading }) => heading)],
  ...['TOKENS', 'TIME TO LIVE', 'SPACE', 'CREATED', 'LAST USED', 'DISABLED'],
];

async function update(vault: Vault, named: string, options: ClientOptions) {
  const client = await updateClient(vault, named, {
    ...settingsOf(options),
    name: options.name,
    disabled: options.enable && false,
  });
  return printDone(options, client, describe(client));
}

async function disable(vault: Vault, named: string, options: OutputOptions) {
  const client = await updateClient(vault, named, { disabled: true });
  return printDone(options, client, `${describe(client)}\nIts API keys stop working within 5 s.`);
}
