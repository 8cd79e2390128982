import { Command } from 'commander';
import { shownLines } from '../terminal.ts';
import { VERSION } from '../version.ts';
import { addCompletion } from './completion.ts';
import { teach } from './help.ts';

type Add = (program: Command) => void;

/** The file of each command has its name; tokenize and detokenize share one. */
const COMMANDS: Readonly<Record<string, () => Promise<Add>>> = {
  serve: async () => (await import('./serve.ts')).addServe,
  migrate: async () => (await import('./migrate.ts')).addMigrate,
  client: async () => (await import('./client.ts')).addClient,
  'api-key': async () => (await import('./api-key.ts')).addApiKey,
  tokenize: async () => (await import('./bulk.ts')).addTokenize,
  detokenize: async () => (await import('./bulk.ts')).addDetokenize,
  forget: async () => (await import('./forget.ts')).addForget,
  keyring: async () => (await import('./keyring.ts')).addKeyring,
  verify: async () => (await import('./verify.ts')).addVerify,
  openapi: async () => (await import('./openapi.ts')).addOpenApi,
  doctor: async () => (await import('./doctor.ts')).addDoctor,
  license: async () => (await import('./license.ts')).addLicense,
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
    const add = await COMMANDS[name]!();
    add(program);
  }
  addCompletion(program);
  teach(program);
  return program;
}
