#!/usr/bin/env node
import { Command, CommanderError, InvalidArgumentError, Option } from 'commander';
import { apiKeyIssue, apiKeyList, apiKeyRevoke } from './commands/api-key.ts';
import {
  clientCreate,
  clientDisable,
  clientList,
  clientUpdate,
  type UpdateOptions,
} from './commands/client.ts';
import { doctor } from './commands/doctor.ts';
import { keyringStatus } from './commands/keyring.ts';
import { licenseVerify } from './commands/license.ts';
import { migrateCommand } from './commands/migrate.ts';
import { type Config, parseConfig, parseRate, readEnvironment } from './config.ts';
import { InternalError, OperatorError } from './errors.ts';
import { openVault, type Vault } from './service/vault.ts';
import { errorCode, operatorError } from './store/failure.ts';
import { VERSION } from './version.ts';

/**
 * The command line. Exit codes: 0 done, 1 a problem that is named on standard error, 2 wrong usage.
 */
const FAILED = 1;
const WRONG_USAGE = 2;

function build(): Command {
  const program = new Command('standin')
    .description(
      'Tokenization service: tokens that keep the shape of the values they stand for, values in an encrypted vault.',
    )
    .version(VERSION)
    .showHelpAfterError('(--help tells more)')
    .addHelpText(
      'after',
      '\nSettings come from the environment and from .env; docs/configuration.md lists them.',
    );
  command(
    program,
    'serve',
    'Run the service.',
    ['standin serve', 'PORT=9000 standin serve'],
    false,
  ).action(async () => {
    const settings = config();
    // Only who serves waits for the modules of the service.
    const { serve } = await import('./main.ts');
    await serve(settings);
  });
  command(
    program,
    'migrate',
    'Bring the schema of the vault up to this program, without serving.',
    ['standin migrate'],
  ).action((options) => migrateCommand(config().vault, options));
  addClient(program);
  addApiKey(program);
  command(
    program.command('keyring').description('The keys of the vault.'),
    'status',
    'List the keys: purpose, version, which is primary, which KEK wraps them.',
    ['standin keyring status --json'],
  ).action((options) => withVault((vault) => keyringStatus(vault, options)));
  command(
    program,
    'doctor',
    'Say what is wrong with configuration, database, keys and settings, and what to do.',
    ['standin doctor'],
  ).action((options) => {
    const { vault, license, REDIS_URL } = config();
    return doctor(vault, license, REDIS_URL, options);
  });
  command(
    program.command('license').description('The license.'),
    'verify [file]',
    'Verify a license offline.',
    ['standin license verify', 'standin license verify license.jwt --public-key key.pem'],
  )
    .option('--public-key <file>', 'public key in PEM; default: LICENSE_PUBLIC_KEY_FILE')
    .action((file, options) => licenseVerify(licenseFiles(file, options.publicKey), options));
  return program;
}

function addClient(program: Command): void {
  const client = program.command('client').description('Clients: who may call.');
  command(client, 'create', 'Make a client with an API key; the key is shown only once.', [
    'standin client create --name billing',
    'standin client create --name crm --rate-limit 200 --token-mode random --json',
  ])
    .requiredOption('--name <name>', 'what people call it', nonEmpty)
    .option('--rate-limit <n>', 'requests a second; 0: none; default: RATE_LIMIT', rate)
    .addOption(tokenMode().default('deterministic'))
    .action((options) =>
      withVault((vault, config) => clientCreate(vault, config.CLIENT_PREFIX, options)),
    );
  command(client, 'list', 'List all clients.', ['standin client list']).action((options) =>
    withVault((vault) => clientList(vault, options)),
  );
  command(client, 'update <client_id>', 'Change a client.', [
    'standin client update standin_0123456789abcdef01234567 --rate-limit default',
    'standin client update standin_0123456789abcdef01234567 --enable',
  ])
    .option('--name <name>', 'what people call it', nonEmpty)
    .option('--rate-limit <n>', 'requests a second; 0: none; "default": RATE_LIMIT', rateOrDefault)
    .addOption(tokenMode())
    .option('--enable', 'undo disable')
    .action((client_id, options, itself: Command) => {
      if (!isChange(options))
        itself.error('error: name what to change, for example --rate-limit 200');
      return withVault((vault) => clientUpdate(vault, client_id, options));
    });
  command(client, 'disable <client_id>', 'Turn all API keys of a client away.', [
    'standin client disable standin_0123456789abcdef01234567',
  ]).action((client_id, options) => withVault((vault) => clientDisable(vault, client_id, options)));
}

function addApiKey(program: Command): void {
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
    .action((options) => withVault((vault) => apiKeyIssue(vault, options)));
  command(api_key, 'list', 'List API keys (not the keys themselves, which are not stored).', [
    'standin api-key list --client standin_0123456789abcdef01234567',
  ])
    .option('--client <client_id>', 'only those of one client')
    .action((options) => withVault((vault) => apiKeyList(vault, options)));
  command(api_key, 'revoke <api_key_id>', 'Turn an API key away from now on.', [
    'standin api-key revoke key_0123456789ab',
  ]).action((api_key_id, options) =>
    withVault((vault) => apiKeyRevoke(vault, api_key_id, options)),
  );
}

function command(
  parent: Command,
  name: string,
  description: string,
  examples: readonly string[],
  has_json = true,
): Command {
  const made = parent.command(name).description(description);
  if (has_json) made.option('--json', 'print JSON');
  const heading = examples.length > 1 ? 'Examples' : 'Example';
  return made.addHelpText(
    'after',
    `\n${heading}:\n${examples.map((example) => `  ${example}`).join('\n')}`,
  );
}

function config(): Config {
  return parseConfig(readEnvironment());
}

async function withVault(work: (vault: Vault, config: Config) => Promise<void>): Promise<void> {
  const configured = config();
  const vault = await openVault(configured.vault);
  try {
    await work(vault, configured);
  } finally {
    await vault.close();
  }
}

function licenseFiles(file: string | undefined, public_key: string | undefined) {
  const { LICENSE_FILE, LICENSE_PUBLIC_KEY_FILE } = config();
  const license_file = file ?? LICENSE_FILE;
  const public_key_file = public_key ?? LICENSE_PUBLIC_KEY_FILE;
  if (license_file === undefined || public_key_file === undefined) {
    throw new OperatorError(
      'Name a license and a public key: set LICENSE_FILE and LICENSE_PUBLIC_KEY_FILE, or give FILE and --public-key.',
    );
  }
  return { license_file, public_key_file };
}

function tokenMode(): Option {
  return new Option(
    '--token-mode <mode>',
    'equal values get equal tokens, or a fresh one each time',
  ).choices(['deterministic', 'random']);
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

const UNITS_MS: Record<string, number> = { m: 60_000, h: 3_600_000, d: 86_400_000 };

function expiry(text: string): Date {
  const span = /^(\d{1,6})([mhd])$/.exec(text);
  const date = span ? new Date(Date.now() + Number(span[1]) * UNITS_MS[span[2]!]!) : new Date(text);
  if (Number.isNaN(date.getTime()) || date <= new Date()) {
    throw new InvalidArgumentError(
      'It must be a time from now like 30m, 12h or 90d, or an ISO date in the future.',
    );
  }
  return date;
}

/** What went wrong, for the operator: our own words, or the code of what failed. */
function explain(error: unknown): string {
  const operator_error = operatorError(error);
  if (operator_error !== undefined) return operator_error.message;
  const code = errorCode(error) ?? errorCode((error as Error).cause);
  const detail = code === undefined ? '' : ` (${code})`;
  if (error instanceof InternalError) return `${error.message}${detail}. Run: standin doctor`;
  return `Unexpected failure${detail}: ${error instanceof Error ? error.message : String(error)}`;
}

async function main(): Promise<void> {
  const program = build();
  for (const one of [program, ...program.commands.flatMap((group) => [group, ...group.commands])])
    one.exitOverride();
  try {
    await program.parseAsync();
  } catch (error) {
    if (error instanceof CommanderError) process.exit(error.exitCode === 0 ? 0 : WRONG_USAGE);
    process.stderr.write(`standin: ${explain(error)}\n`);
    process.exit(FAILED);
  }
}

await main();
