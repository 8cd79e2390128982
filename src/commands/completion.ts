import type { Command, Option } from 'commander';
import { command } from './command.ts';
import { bashCompletion } from './shells/bash.ts';
import { fishCompletion } from './shells/fish.ts';
import { zshCompletion } from './shells/zsh.ts';

/** The generator of each script, and a file that the shell reads by itself. */
const SHELLS = {
  bash: [bashCompletion, '~/.local/share/bash-completion/completions/standin'],
  zsh: [zshCompletion, '~/.zsh/completions/_standin'],
  fish: [fishCompletion, '~/.config/fish/completions/standin.fish'],
} as const;

/** The candidates for a value. undefined: only the user knows the value. */
export type Candidates = readonly string[] | 'files' | undefined;

export interface OptionWords {
  /** For example `-o` and `--output`. */
  readonly flags: readonly string[];
  readonly description: string;
  /** undefined: the option takes no value. */
  readonly value?: { readonly name: string; readonly candidates: Candidates };
}

/** A command with everything that completion needs. */
export interface CommandWords {
  /** The words after the program's name; empty for the program itself. */
  readonly path: readonly string[];
  readonly options: readonly OptionWords[];
  readonly subcommands: readonly { readonly name: string; readonly description: string }[];
  readonly operands: readonly {
    readonly name: string;
    readonly candidates: Candidates;
    readonly isVariadic: boolean;
  }[];
}

/**
 * The scripts contain all words, so a Tab does not start the program
 * (docs/decisions/0020-what-we-wrote-ourselves.md).
 */
export function addCompletion(program: Command): void {
  const completion = program
    .command('completion')
    .description('Scripts that make a shell complete commands, options and files.');
  for (const [shell, [write, file]] of Object.entries(SHELLS)) {
    const examples = [`standin completion ${shell} > ${file}`];
    command(completion, shell, `Print the script for ${shell}.`, examples, false).action(() => {
      process.stdout.write(write(wordsOf(program)));
    });
  }
}

const HELP = 'help';
/** Names of values that are paths. */
const PATH = /(^|[_-])(file|folder|path)$/i;

/** The program and all its commands, as commander knows them. Parents come first. */
function wordsOf(program: Command): CommandWords[] {
  return below(program, [], []);
}

/** @param beside the commands that `help` explains, if this command is `help` */
function below(made: Command, path: readonly string[], beside: readonly string[]): CommandWords[] {
  const help = made.createHelp();
  const visible = help.visibleCommands(made);
  const names = visible.map((one) => one.name());
  const itself = {
    path,
    subcommands: visible.map((one) => ({ name: one.name(), description: one.description() })),
    options: help.visibleOptions(made).map(optionWords),
    operands: made.registeredArguments.map((operand) => ({
      name: operand.name(),
      candidates: made.name() === HELP ? beside : candidatesOf(operand.name(), operand.argChoices),
      isVariadic: operand.variadic,
    })),
  };
  const others = names.filter((name) => name !== HELP);
  return [itself, ...visible.flatMap((one) => below(one, [...path, one.name()], others))];
}

function optionWords(option: Option): OptionWords {
  const { short, long, description, argChoices } = option;
  const flags = [short, long].filter((flag) => flag !== undefined);
  const name = /[<[]([^.\]>]+)/.exec(option.flags)?.[1];
  if (name === undefined) return { flags, description };
  return { flags, description, value: { name, candidates: candidatesOf(name, argChoices) } };
}

function candidatesOf(name: string, choices: readonly string[] | undefined): Candidates {
  return choices ?? (PATH.test(name) ? 'files' : undefined);
}
