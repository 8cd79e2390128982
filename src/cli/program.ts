import { Command } from 'commander';
import { OperatorError } from '../errors.ts';
import { shownLines } from '../terminal.ts';
import { VERSION } from '../version.ts';
import { addBulk } from './bulk.ts';
import { addApiKey, addClient } from './client.ts';
import { command, config } from './command.ts';
import { addCompletion } from './completion.ts';
import { addForget } from './forget.ts';
import { teach } from './help.ts';
import { addKeyring, addVerify } from './keyring.ts';
import { addOpenApi } from './openapi.ts';

/** Every command, with its options and its help. */
export function buildProgram(): Command {
  const program = new Command('standin')
    .description(
      'Standin replaces sensitive strings in JSON by tokens of the same shape, and gives them back to those who may have them. Their values are encrypted in PostgreSQL.',
    )
    .version(VERSION)
    .exitOverride()
    .configureOutput({ writeErr: (text) => process.stderr.write(shownLines(text)) })
    .usage('<command> [options]')
    .configureHelp({ subcommandTerm: (made) => made.name() })
    .showHelpAfterError('(--help tells more)');
  addServe(program);
  addMigrate(program);
  addClient(program);
  addApiKey(program);
  addBulk(program);
  addForget(program);
  addKeyring(program);
  addVerify(program);
  addOpenApi(program);
  addDoctor(program);
  addLicense(program);
  addCompletion(program);
  teach(program);
  return program;
}

function addServe(program: Command): void {
  command(
    program,
    'serve',
    'Run the service.',
    ['standin serve', 'PORT=9000 standin serve'],
    false,
  ).action(async () => {
    const settings = config();
    // Loading takes a while, and serve has its handlers after it: until then there is nothing to
    // finish, and nothing that a SIGHUP could restart.
    for (const signal of ['SIGTERM', 'SIGINT']) process.once(signal, () => process.exit(0));
    process.on('SIGHUP', () => {});
    // Only who serves waits for the modules of the service.
    const { serve } = await import('../main.ts');
    await serve(settings);
  });
}

function addMigrate(program: Command): void {
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
      const { migrateCommand } = await import('../commands/migrate.ts');
      return migrateCommand(config().vault, options);
    });
}

function addDoctor(program: Command): void {
  command(
    program,
    'doctor',
    'Say what is wrong with configuration, database, keys and settings, and what to do.',
    ['standin doctor'],
  ).action(async (options) => {
    const { doctor } = await import('../commands/doctor.ts');
    return doctor(config(), options);
  });
}

function addLicense(program: Command): void {
  command(
    program.command('license').description('The license.'),
    'verify [file]',
    'Verify a license offline.',
    ['standin license verify', 'standin license verify license.jwt --public-key key.pem'],
  )
    .option('--public-key <file>', 'public key in PEM; default: LICENSE_PUBLIC_KEY_FILE')
    .action(async (file, options) => {
      const { licenseVerify } = await import('../commands/license.ts');
      return licenseVerify(licenseFiles(file, options.publicKey), options);
    });
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
