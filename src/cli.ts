#!/usr/bin/env node
import { Command, CommanderError } from 'commander';
import { addBulk } from './cli/bulk.ts';
import { addApiKey, addClient } from './cli/client.ts';
import { command, config } from './cli/command.ts';
import { addForget } from './cli/forget.ts';
import { addKeyring, addVerify } from './cli/keyring.ts';
import { addOpenApi } from './cli/openapi.ts';
import { InternalError, OperatorError } from './errors.ts';
import { harden } from './hardening.ts';
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
    ['standin migrate', 'standin migrate --grant-to standin_app'],
  )
    .option(
      '--grant-to <role>',
      'also give a database role the rights of the service, and no other',
    )
    .action(async (options) => {
      const { migrateCommand } = await import('./commands/migrate.ts');
      return migrateCommand(config().vault, options);
    });
  addClient(program);
  addApiKey(program);
  addBulk(program);
  addForget(program);
  addKeyring(program);
  addVerify(program);
  addOpenApi(program);
  command(
    program,
    'doctor',
    'Say what is wrong with configuration, database, keys and settings, and what to do.',
    ['standin doctor'],
  ).action(async (options) => {
    const { doctor } = await import('./commands/doctor.ts');
    const { vault, license, REDIS_URL, tls } = config();
    return doctor(vault, license, REDIS_URL, tls, options);
  });
  command(
    program.command('license').description('The license.'),
    'verify [file]',
    'Verify a license offline.',
    ['standin license verify', 'standin license verify license.jwt --public-key key.pem'],
  )
    .option('--public-key <file>', 'public key in PEM; default: LICENSE_PUBLIC_KEY_FILE')
    .action(async (file, options) => {
      const { licenseVerify } = await import('./commands/license.ts');
      return licenseVerify(licenseFiles(file, options.publicKey), options);
    });
  return program;
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
  harden();
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
