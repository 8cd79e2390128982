import { spawnSync } from 'node:child_process';
import { existsSync, writeFileSync } from 'node:fs';
import { isIPv6 } from 'node:net';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { Command, CommanderError, Option } from 'commander';
import { errorCode, InternalError, operatorError, PerhapsDone } from '../errors.ts';
import { shownLines } from '../terminal.ts';
import { VERSION } from '../version.ts';
import { command, config, examplesHelp, examplesOf, refuseRepeated } from './command.ts';
import { addCompletion } from './completion.ts';

type Add = (program: Command) => void;

/** A group of --help without a name of its own. */
const MORE = 'More:';

/**
 * The commands in the order of --help, each with its group. They are loaded one by one: a command
 * does not wait for the modules of the others.
 */
const COMMANDS: Readonly<Record<string, readonly [group: string, load: () => Promise<Add>]>> = {
  serve: ['Run:', async () => addServe],
  migrate: ['Run:', async () => (await import('./node.ts')).addMigrate],
  'model-proxy': ['Run:', async () => (await import('./model-proxy.ts')).addModelProxy],
  client: ['Clients and API keys:', async () => (await import('./client.ts')).addClient],
  'api-key': ['Clients and API keys:', async () => (await import('./client.ts')).addApiKey],
  policy: ['Kinds and rights:', async () => (await import('./policy.ts')).addPolicy],
  tokenize: ['Values and files:', async () => (await import('./bulk.ts')).addTokenize],
  detokenize: ['Values and files:', async () => (await import('./bulk.ts')).addDetokenize],
  import: ['Stored values:', async () => (await import('./import.ts')).addImport],
  export: ['Stored values:', async () => (await import('./export.ts')).addExport],
  forget: ['Stored values:', async () => (await import('./forget.ts')).addForget],
  verify: ['Stored values:', async () => (await import('./records.ts')).addVerify],
  audit: ['Audit log:', async () => (await import('./audit.ts')).addAudit],
  keyring: ['Keys of the vault:', async () => (await import('./keyring.ts')).addKeyring],
  doctor: ['Trouble:', async () => (await import('./node.ts')).addDoctor],
  config: ['Trouble:', async () => (await import('./node.ts')).addConfig],
  license: ['Trouble:', async () => (await import('./node.ts')).addLicense],
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
function wordsFor(program: Command, words: readonly string[]): string[] {
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

/** Exit codes: 0 done, 1 a problem (named on standard error), 2 wrong usage. */
const FAILED = 1;
const WRONG_USAGE = 2;

/** The text for the operator: our own words, or the code of the failure. */
async function explain(error: unknown): Promise<string> {
  const { BulkError } = await import('#bulk');
  if (error instanceof BulkError) return `${error.message}.`;
  const explained = operatorError(error);
  if (explained !== undefined) return explained.message;
  const code = errorCode(error) ?? errorCode((error as Error).cause);
  const detail = code === undefined ? '' : ` (${code})`;
  if (error instanceof InternalError) return `${error.message}${detail}. Run: standin doctor`;
  return `Unexpected failure${detail}: ${(error as Error).message}`;
}

const PERHAPS_DONE = '. The change may have been made: run the command again.';

/** Runs the command that the arguments of the process name. */
export async function run(): Promise<void> {
  harden();
  const exitCode = await execute(process.argv.slice(2));
  if (exitCode !== undefined) process.exit(exitCode);
}

/** @returns the exit code, when the command is over; undefined: the process ends by itself */
export async function execute(args: readonly string[]): Promise<number | undefined> {
  try {
    const [first, ...rest] = args;
    // `help client create` means `client create --help`.
    const isHelp = first === 'help' && rest.length > 0;
    const words = isHelp ? [...rest, '--help'] : args;
    const program = await buildProgram(words[0]);
    await program.parseAsync(wordsFor(program, words), { from: 'user' });
    return undefined;
  } catch (error) {
    if (error instanceof CommanderError) return error.exitCode === 0 ? 0 : WRONG_USAGE;
    const again = error instanceof PerhapsDone ? PERHAPS_DONE : '';
    process.stderr.write(`standin: ${shownLines((await explain(error)) + again)}\n`);
    return FAILED;
  }
}

/**
 * Keeps debuggers and core files away from the memory of this process, which holds keys and values.
 * Children inherit the core file settings, but not the signal handler.
 */
function harden(): void {
  // Without a handler, Node would open a debugger port and expose all keys.
  process.on('SIGUSR1', () => {});
  preventCoreFiles();
}

/** Selects the kinds of memory in a core file, one bit each (core(5)). */
const CORE_FILTER = '/proc/self/coredump_filter';
const PRLIMIT_TIMEOUT_MS = 2_000;

/**
 * Two ways, because either can fail. The filter leaves memory out, but the kernel still writes the
 * registers of all threads, and tests found halves of keys there. So the size limit is set to 0
 * too; Node cannot do that, so prlimit of util-linux does. For other systems, see
 * docs/operating.md.
 */
function preventCoreFiles(): void {
  if (process.platform !== 'linux') return;
  try {
    writeFileSync(CORE_FILTER, '0');
  } catch {
    // Not permitted here: prlimit still helps.
  }
  spawnSync('prlimit', ['--core=0', '--pid', String(process.pid)], {
    stdio: 'ignore',
    timeout: PRLIMIT_TIMEOUT_MS,
  });
}
