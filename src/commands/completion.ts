import type { Command, Option } from 'commander';
import { command } from './command.ts';

/** The generator of each script, and a file that the shell reads by itself. */
const SHELLS = {
  bash: [bashCompletion, '~/.local/share/bash-completion/completions/standin'],
  zsh: [zshCompletion, '~/.zsh/completions/_standin'],
  fish: [fishCompletion, '~/.config/fish/completions/standin.fish'],
} as const;

/** The candidates for a value. undefined: only the user knows the value. */
type Candidates = readonly string[] | 'files' | undefined;

interface OptionWords {
  /** For example `-o` and `--output`. */
  readonly flags: readonly string[];
  readonly description: string;
  /** undefined: the option takes no value. */
  readonly value?: { readonly candidates: Candidates };
}

/** A command with everything that completion needs. */
interface CommandWords {
  /** The words after the program's name; empty for the program itself. */
  readonly path: readonly string[];
  readonly options: readonly OptionWords[];
  readonly subcommands: readonly { readonly name: string; readonly description: string }[];
  /** For the words that name no command and no option. */
  readonly operand: Candidates;
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
  const [operand] = made.registeredArguments;
  const itself = {
    path,
    subcommands: visible.map((one) => ({ name: one.name(), description: one.description() })),
    options: help.visibleOptions(made).map(optionWords),
    operand:
      made.name() === HELP ? beside : operand && candidatesOf(operand.name(), operand.argChoices),
  };
  const others = names.filter((name) => name !== HELP);
  return [itself, ...visible.flatMap((one) => below(one, [...path, one.name()], others))];
}

function optionWords(option: Option): OptionWords {
  const { short, long, description, argChoices } = option;
  const flags = [short, long].filter((flag) => flag !== undefined);
  const name = /[<[]([^.\]>]+)/.exec(option.flags)?.[1];
  if (name === undefined) return { flags, description };
  return { flags, description, value: { candidates: candidatesOf(name, argChoices) } };
}

function candidatesOf(name: string, choices: readonly string[] | undefined): Candidates {
  return choices ?? (PATH.test(name) ? 'files' : undefined);
}

/** Also works in bash 3.2 of macOS, and without the package bash-completion. */
function bashCompletion(commands: readonly CommandWords[]): string {
  return `# Completion of standin for bash. Made by: standin completion bash
${finder(commands)}
_standin() {
  local word=\${COMP_WORDS[COMP_CWORD]} end=$COMP_CWORD candidates=
  # Bash takes --option=value apart.
  if [[ $word == = ]]; then word=
  elif [[ \${COMP_WORDS[COMP_CWORD-1]} == = ]]; then end=$((COMP_CWORD - 1))
  fi
  _standin_find "$word" "\${COMP_WORDS[@]:1:end-1}"
  COMPREPLY=()
  if [[ $candidates == ${FILES} ]]; then
    # The shell's own way, with quotes and tildes; bash 3.2 takes it of complete, below.
    compopt -o default 2>/dev/null
  else
    COMPREPLY=($(compgen -W "$candidates" -- "$word"))
  fi
}
if type compopt >/dev/null 2>&1; then complete -F _standin standin
else complete -o default -F _standin standin
fi
`;
}

/** Put the script in a folder of fpath as `_standin`, or source it after compinit. */
function zshCompletion(commands: readonly CommandWords[]): string {
  return `#compdef standin
# Completion of standin for zsh. Made by: standin completion zsh
${finder(commands)}
_standin() {
  local candidates= word=$PREFIX
  local -a before=("\${(@)words[2,CURRENT-1]}")
  if [[ $PREFIX == --*=* ]]; then
    before+=("\${PREFIX%%=*}")
    compset -P '*='
  fi
  _standin_find "$word" "\${before[@]}"
  if [[ $candidates == ${FILES} ]]; then _files; else compadd -- \${=candidates}; fi
}
if [[ $funcstack[1] == _standin ]]; then _standin "$@"; else compdef _standin standin; fi
`;
}

/** Marks file names. No other candidate has a slash. */
const FILES = '/files/';

/** A function that finds the candidates for a word after other words, in both shells. */
function finder(commands: readonly CommandWords[]): string {
  const below = commands.filter(({ path }) => path.length > 0);
  return `_standin_find() {
  local current=$1 at= before= word= options= operands=
  shift
  for word in "$@"; do
    before=$word
    case "$at $word" in
      ${below.map(({ path }) => pattern(...path)).join('|')})
        at="$at $word" ;;
    esac
  done
  case "$at $before" in
${valueCases(commands).join('\n')}
  *)
    case "$at" in
${commands.map(wordCase).join('\n')}
    esac
    case "$current" in -*) candidates=$options ;; *) candidates=$operands ;; esac ;;
  esac
}`;
}

/** The candidates after each option that takes a value. */
function valueCases(commands: readonly CommandWords[]): string[] {
  const patterns = new Map<string, string[]>();
  for (const { path, options } of commands) {
    for (const { flags, value } of options) {
      if (value === undefined) continue;
      const key = candidateText(value.candidates);
      const found = flags.map((flag) => pattern(...path, flag));
      patterns.set(key, [...(patterns.get(key) ?? []), ...found]);
    }
  }
  return [...patterns].map(
    ([candidates, found]) => `  ${found.join('|')})\n    candidates='${candidates}' ;;`,
  );
}

function wordCase({ path, options, subcommands, operand }: CommandWords): string {
  const flags = options.flatMap((option) => option.flags).filter((flag) => flag.startsWith('--'));
  const names = subcommands.map(({ name }) => name);
  const others = names.length > 0 ? names.join(' ') : candidateText(operand);
  return `    ${pattern(...path)}) options='${flags.join(' ')}' operands='${others}' ;;`;
}

function candidateText(candidates: Candidates): string {
  return candidates === 'files' ? FILES : (candidates ?? []).join(' ');
}

/** Builds the key as the loop of the script does. */
function pattern(...path: readonly string[]): string {
  return `'${path.map((word) => ` ${word}`).join('')}'`;
}

function fishCompletion(commands: readonly CommandWords[]): string {
  return `# Completion of standin for fish. Made by: standin completion fish
function __standin_words
    set -l words (commandline -opc)
    string match -v -- '-*' $words[2..-1]
end
function __standin_at -d 'Whether the words before this one are exactly these'
    test (count (__standin_words)) -eq (count $argv); and __standin_under $argv
end
function __standin_under -d 'Whether the words before this one begin with these'
    set -l words (__standin_words)
    set -l length (count $argv)
    test $length -eq 0; and return
    test (count $words) -ge $length; and test "$words[1..$length]" = "$argv"
end
complete -c standin -f
${commands.flatMap(fishLines).join('\n')}
`;
}

function fishLines({ path, options, subcommands, operand }: CommandWords): string[] {
  // Commands do not inherit the options of the program itself.
  const under = path.length === 0 ? '__standin_at' : ['__standin_under', ...path].join(' ');
  const at = ['__standin_at', ...path].join(' ');
  return [
    ...subcommands.map(
      ({ name, description }) =>
        `complete -c standin -n '${at}' -a ${name} -d ${quoted(description)}`,
    ),
    ...options.map(({ flags, description, value }) =>
      [
        `complete -c standin -n '${under}'`,
        ...flags.map((flag) =>
          flag.startsWith('--') ? `-l ${flag.slice(2)}` : `-s ${flag.slice(1)}`,
        ),
        ...(value === undefined
          ? []
          : value.candidates === 'files'
            ? ['-r -F']
            : ['-x', ...choices(value.candidates)]),
        `-d ${quoted(description)}`,
      ].join(' '),
    ),
    ...(operand === undefined
      ? []
      : [
          `complete -c standin -n '${under}' ${operand === 'files' ? '-F' : choices(operand).join(' ')}`,
        ]),
  ];
}

function choices(candidates: Candidates): string[] {
  return candidates === undefined || candidates === 'files' ? [] : [`-a '${candidates.join(' ')}'`];
}

function quoted(text: string): string {
  return `'${text.replaceAll(/[\\']/g, '\\$&')}'`;
}
