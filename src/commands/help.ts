import { existsSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import type { Command } from 'commander';
import { examplesHelp, examplesOf } from './command.ts';

/** Groups of --help, by task. A command in no group comes under MORE. */
const TASKS: Readonly<Record<string, readonly string[]>> = {
  'Run:': ['serve', 'migrate'],
  'Clients and API keys:': ['client', 'api-key'],
  'Files:': ['tokenize', 'detokenize'],
  'Stored values:': ['forget', 'verify'],
  'Keys of the vault:': ['keyring'],
  'Trouble:': ['doctor', 'license'],
};
const MORE = 'More:';

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

Settings are environment variables, or lines of the file .env in the working folder:
  PORT=9000 standin serve

Exit codes: 0 done; 1 failed, standard error says why; 2 wrong usage; 3 done, but some rows
of a file were rejected; 130 interrupted.`;

/** Exists in a checkout and in the package. A container image may lack it. */
const DOCS = fileURLToPath(new URL('../../docs', import.meta.url));

/** Groups the commands and adds the first steps. Call it after all commands were added. */
export function teach(program: Command): void {
  const order = Object.values(TASKS).flat();
  const rank = (made: Command) =>
    order.includes(made.name()) ? order.indexOf(made.name()) : order.length;
  // --help lists a group where its first command is.
  (program.commands as Command[]).sort((a, b) => rank(a) - rank(b));
  for (const made of program.commands) {
    const task = Object.entries(TASKS).find(([, names]) => names.includes(made.name()));
    made.helpGroup(task?.[0] ?? MORE);
    if (made.commands.length > 0)
      made.addHelpText(
        'after',
        examplesHelp(made.commands.flatMap((one) => examplesOf(one).slice(0, 1))),
      );
  }
  program.commandsGroup(MORE).helpCommand('help [command]', 'Show how to use a command.');
  const docs = existsSync(DOCS) ? `\nDocuments: ${DOCS}` : '';
  program.addHelpText('after', `${TEACHING}${docs}`);
}
