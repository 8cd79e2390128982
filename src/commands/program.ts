import { existsSync } from 'node:fs';
import { isIPv6 } from 'node:net';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { Command, Option } from 'commander';
import { shownLines } from '../terminal.ts';
import { VERSION } from '../version.ts';
import { command, config, examplesHelp, examplesOf, refuseRepeated } from './command.ts';
import { addCompletion } from './completion.ts';

type Add = (program: Command) => void;

/** Groups of --help, by task. */
const RUN = 'Run:';
const CLIENTS = 'Clients and API keys:';
const FILES = 'Values and files:';
const STORED = 'Stored values:';
const TROUBLE = 'Trouble:';
const MORE = 'More:';

/**
 * The commands in the order of --help, each with its group. They are loaded one by one: a command
 * does not wait for the modules of the others.
 */
const COMMANDS: Readonly<Record<string, readonly [group: string, load: () => Promise<Add>]>> = {
  serve: [RUN, async () => addServe],
  migrate: [RUN, async () => (await import('./migrate.ts')).addMigrate],
  client: [CLIENTS, async () => (await import('./client.ts')).addClient],
  'api-key': [CLIENTS, async () => (await import('./api-key.ts')).addApiKey],
  policy: ['Kinds and rights:', async () => (await import('./policy.ts')).addPolicy],
  tokenize: [FILES, async () => (await import('./bulk.ts')).addTokenize],
  detokenize: [FILES, async () => (await import('./bulk.ts')).addDetokenize],
  import: [STORED, async () => (await import('./import.ts')).addImport],
  export: [STORED, async () => (await import('./export.ts')).addExport],
  forget: [STORED, async () => (await import('./forget.ts')).addForget],
  verify: [STORED, async () => (await import('./records.ts')).addVerify],
  audit: ['Audit log:', async () => (await import('./audit.ts')).addAudit],
  keyring: ['Keys of the vault:', async () => (await import('./keyring.ts')).addKeyring],
  doctor: [TROUBLE, async () => (await import('./doctor.ts')).addDoctor],
  config: [TROUBLE, async () => (await import('./config.ts')).addConfig],
  license: [TROUBLE, async () => (await import('./license.ts')).addLicense],
  openapi: [MORE, async () => addOpenApi],
};

/**
 * The command line with its options and its help.
 * @param called first word of the command line. A known command does not wait for the modules of
 * other commands. For any other word, the program has every command.
 */
export async function buildProgram(called?: string): Promise<Command> {
  const program = new Command('standin')
    .description(
      'Standin replaces sensitive strings in JSON with tokens of the same shape, and turns them back for clients that may have them. The values are encrypted in PostgreSQL.',
    )
    .version(VERSION)
    .exitOverride()
    .configureOutput({ writeErr: (text) => process.stderr.write(shownLines(text)) })
    .usage('<command> [options]')
    .configureHelp({ subcommandTerm: (made) => made.name() })
    .showHelpAfterError('(--help tells more)');
  const isKnown = called !== undefined && Object.hasOwn(COMMANDS, called);
  for (const name of isKnown ? [called] : Object.keys(COMMANDS)) {
    const add = await COMMANDS[name]![1]();
    add(program);
  }
  addCompletion(program);
  refuseRepeated(program);
  teach(program);
  return program;
}

function addServe(program: Command): void {
  command(program, 'serve', 'Run the service.', ['standin serve', 'PORT=9000 standin serve'], false)
    .addHelpText(
      'after',
      `\n${SETTINGS_HELP}${pointer('What each does', join(DOCS, 'configuration.md'))}`,
    )
    .action(async () => {
      const settings = config();
      // Loading takes a while, and `serve` sets its handlers only then. Before that, there is
      // nothing to finish, and nothing for SIGHUP to reload.
      for (const signal of ['SIGTERM', 'SIGINT']) process.once(signal, () => process.exit(0));
      process.on('SIGHUP', () => {});
      const { serve } = await import('../main.ts');
      await serve(settings);
    });
}

function addOpenApi(program: Command): void {
  command(
    program,
    'openapi',
    'Print the OpenAPI document of the service with these settings.',
    ['standin openapi > openapi.json', 'standin openapi --interface-version 1.0.4'],
    false,
  )
    .addOption(
      new Option(
        '--interface-version <version>',
        'version of the interface; default: INTERFACE_VERSION',
      ).choices(['1.0.5', '1.0.4']),
    )
    .option('--admin', 'the document of the admin API instead')
    .action(async ({ interfaceVersion, admin }) => {
      const settings = config();
      if (admin) {
        const { adminDocumentText } = await import('../ops/admin/document.ts');
        return void process.stdout.write(adminDocumentText(settings));
      }
      const { HOST, PORT, tls, INTERFACE_VERSION } = settings;
      const host = isIPv6(HOST) ? `[${HOST}]` : HOST;
      const url = `${tls === undefined ? 'http' : 'https'}://${host}:${PORT}`;
      const version = interfaceVersion ?? INTERFACE_VERSION;
      // Imported here, so that help does not wait for the document.
      const { documentText } = await import('../openapi/document.ts');
      process.stdout.write(documentText({ ...settings, INTERFACE_VERSION: version }, url));
    });
}

const DOCS = fileURLToPath(new URL('../../docs', import.meta.url));

/** Documents are in a checkout and in the package. A container image may lack them. */
function pointer(label: string, path: string): string {
  return existsSync(path) ? `\n${label}: ${path}` : '';
}

const SETTINGS_HELP = `Settings are environment variables, or lines of the file .env in the working folder: PORT=9000.
standin config lists all of them with their values.`;

const TEACHING = `
First steps:
  1. Run the service. It makes a database in ./data. On a terminal it prints an API key, only
     once; without a terminal, the key is in ./data/first-api-key:
       standin serve
  2. Put the API key in the variable API_KEY, and tokenize:
       curl -s http://127.0.0.1:8080/api/v1/tokenize -H "Authorization: Bearer $API_KEY" \\
         -H 'Content-Type: application/json' -d '{"data":{"email":"ann@example.com"}}'
  3. Make a client that cannot restore values:
       standin client create --name intake --can tokenize
  4. Watch the service in the console: http://127.0.0.1:9464/

${SETTINGS_HELP}

Exit codes: 0 done; 1 failed, standard error says why; 2 wrong usage; 3 done, but some rows
of a file were rejected; 130 interrupted.`;

/**
 * The words without --help when they name no command: commander would print the help of what is
 * above it, as if the command were known.
 */
export function wordsFor(program: Command, words: readonly string[]): string[] {
  let at = program;
  for (const word of words) {
    if (word.startsWith('-') || at.commands.length === 0) break;
    const named = at.commands.find((made) => made.name() === word);
    if (named === undefined) return words.filter((one) => one !== '--help' && one !== '-h');
    at = named;
  }
  return [...words];
}

/** Groups the commands, and adds the first steps. */
function teach(program: Command): void {
  for (const made of program.commands) {
    made.helpGroup(COMMANDS[made.name()]?.[0] ?? MORE);
    if (made.commands.length > 0)
      made.addHelpText(
        'after',
        examplesHelp(made.commands.flatMap((one) => examplesOf(one).slice(0, 1))),
      );
  }
  program.commandsGroup(MORE).helpCommand('help [command]', 'Show how to use a command.');
  program.addHelpText('after', `${TEACHING}${pointer('Documents', DOCS)}`);
}
