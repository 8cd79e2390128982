import { type Command, InvalidArgumentError, Option } from 'commander';
import type { Permissions, UpdateOptions } from '../commands/client.ts';
import { parseRate } from '../config/parsers.ts';
import { command, withVault } from './command.ts';

// Only who runs a command waits for its modules.
const clients = () => import('../commands/client.ts');
const apiKeys = () => import('../commands/api-key.ts');

export function addClient(program: Command): void {
  const client = program.command('client').description('Clients: who may call.');
  const create = command(
    client,
    'create',
    'Make a client with an API key; the key is shown only once.',
    [
      'standin client create --name billing',
      'standin client create --name crm --rate-limit 200 --token-mode random --json',
      'standin client create --name intake --can tokenize',
    ],
  ).requiredOption('--name <name>', 'what people call it', nonEmpty);
  addPermissionsAndLimits(create, 'default', rate)
    .addOption(tokenMode().default('deterministic'))
    .option('--time-to-live <time>', 'how long its tokens are known; default: for ever', timeToLive)
    .action((options) =>
      withVault(async (vault, config) =>
        (await clients()).clientCreate(vault, config.CLIENT_PREFIX, options),
      ),
    );
  command(client, 'list', 'List all clients.', ['standin client list']).action((options) =>
    withVault(async (vault) => (await clients()).clientList(vault, options)),
  );
  addUpdate(client);
  command(client, 'disable <client_id>', 'Turn all API keys of a client away.', [
    'standin client disable standin_0123456789abcdef01234567',
  ]).action((client_id, options) =>
    withVault(async (vault) => (await clients()).clientDisable(vault, client_id, options)),
  );
}

function addUpdate(client: Command): void {
  const update = command(client, 'update <client_id>', 'Change a client.', [
    'standin client update standin_0123456789abcdef01234567 --rate-limit default',
    'standin client update standin_0123456789abcdef01234567 --can detokenize',
    'standin client update standin_0123456789abcdef01234567 --enable',
  ]).option('--name <name>', 'what people call it', nonEmpty);
  addPermissionsAndLimits(update, '"default"', rateOrDefault)
    .addOption(tokenMode())
    .option(
      '--time-to-live <time>',
      'how long tokens that it gets from now on are known; "none": for ever',
      timeToLiveOrNone,
    )
    .option('--enable', 'undo disable')
    .action((client_id, options, itself: Command) => {
      if (!isChange(options))
        itself.error('error: name what to change, for example --rate-limit 200');
      return withVault(async (vault) => (await clients()).clientUpdate(vault, client_id, options));
    });
}

/** @param fallback how the limit of the deployment is called for */
function addPermissionsAndLimits(
  made: Command,
  fallback: string,
  parse: (text: string) => number | 'default',
): Command {
  const can = new Option('--can <operations>', 'what it may do').choices(CAN);
  // Unlike choices alone, in any order.
  made.addOption(can.argParser(permissions));
  for (const [option, counted, setting] of LIMITS) {
    const help = `${counted} a second; 0: none; ${fallback}: ${setting}`;
    made.option(`--${option} <n>`, help, parse);
  }
  return made;
}

const LIMITS = [
  ['rate-limit', 'requests', 'RATE_LIMIT'],
  ['detokenize-limit', 'detokenize requests', 'DETOKENIZE_LIMIT'],
  ['unknown-token-limit', 'unknown tokens', 'UNKNOWN_TOKEN_LIMIT'],
] as const;

export function addApiKey(program: Command): void {
  const api_key = program
    .command('api-key')
    .description('API keys of clients; several may be live at once.');
  command(api_key, 'issue', 'Issue one more API key; it is shown only once.', [
    'standin api-key issue --client standin_0123456789abcdef01234567 --expires 90d',
  ])
    .requiredOption('--client <client_id>', 'whose key it is')
    .option(
      '--expires <when>',
      'a time from now like 90d or 12h, or an ISO date; default: never',
      expiry,
    )
    .action((options) => withVault(async (vault) => (await apiKeys()).apiKeyIssue(vault, options)));
  command(
    api_key,
    'new',
    'Print a new API key for BOOTSTRAP_API_KEY_FILE; no vault knows it yet.',
    ['standin api-key new'],
  ).action(async (options) => (await apiKeys()).apiKeyNew(options));
  command(api_key, 'list', 'List API keys (not the keys themselves, which are not stored).', [
    'standin api-key list --client standin_0123456789abcdef01234567',
  ])
    .option('--client <client_id>', 'only those of one client')
    .action((options) => withVault(async (vault) => (await apiKeys()).apiKeyList(vault, options)));
  command(api_key, 'revoke <api_key_id>', 'Turn an API key away from now on.', [
    'standin api-key revoke key_0123456789ab',
  ]).action((api_key_id, options) =>
    withVault(async (vault) => (await apiKeys()).apiKeyRevoke(vault, api_key_id, options)),
  );
}

function tokenMode(): Option {
  return new Option(
    '--token-mode <mode>',
    'equal values get equal tokens, or a fresh one each time',
  ).choices(['deterministic', 'random']);
}

/** What --can takes. */
const CAN = ['tokenize', 'detokenize', 'tokenize,detokenize'];

function permissions(text: string): Permissions {
  const operations = text.split(',');
  const can_tokenize = operations.includes('tokenize');
  const can_detokenize = operations.includes('detokenize');
  const known = Number(can_tokenize) + Number(can_detokenize);
  if (known !== operations.length)
    throw new InvalidArgumentError('It must be tokenize, detokenize or tokenize,detokenize.');
  return { can_tokenize, can_detokenize };
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

/** Not null for the default: commander makes that an empty text. */
function rateOrDefault(text: string): number | 'default' {
  return text === 'default' ? text : rate(text);
}

/** In seconds. */
function timeToLive(text: string): number {
  const time_to_live_s = spanMs(text) / 1000;
  if (!(time_to_live_s > 0 && time_to_live_s <= MAX_TIME_TO_LIVE_S))
    throw new InvalidArgumentError('It must be a time like 30m, 12h or 90d, up to 10000d.');
  return time_to_live_s;
}

function timeToLiveOrNone(text: string): number | 'none' {
  return text === 'none' ? text : timeToLive(text);
}

const MAX_TIME_TO_LIVE_S = 10_000 * 86_400;
const UNITS_MS: Record<string, number> = { m: 60_000, h: 3_600_000, d: 86_400_000 };

/** Of a time like 30m, 12h or 90d; NaN: it is not one. */
function spanMs(text: string): number {
  const span = /^(\d{1,6})([mhd])$/.exec(text);
  return span ? Number(span[1]) * UNITS_MS[span[2]!]! : Number.NaN;
}

function expiry(text: string): Date {
  const span_ms = spanMs(text);
  const date = new Date(Number.isNaN(span_ms) ? text : Date.now() + span_ms);
  if (Number.isNaN(date.getTime()) || date <= new Date()) {
    throw new InvalidArgumentError(
      'It must be a time from now like 30m, 12h or 90d, or an ISO date in the future.',
    );
  }
  return date;
}
