import type { Argument, Command, Option } from 'commander';
import { command } from './command.ts';

/** The script of each shell, and a file that the shell reads by itself. */
const SHELLS = {
  bash: [bashScript, '~/.local/share/bash-completion/completions/standin'],
  zsh: [zshScript, '~/.zsh/completions/_standin'],
  fish: [fishScript, '~/.config/fish/completions/standin.fish'],
} as const;

/**
 * The scripts contain all words, so a Tab does not start the program
 * (docs/decisions/0020-what-we-wrote-ourselves.md).
 */
export function addCompletion(program: Command): void {
  const completion = program
    .command('completion')
    .description('Scripts that make a shell complete commands, options and files.');
  for (const [shell, [script, file]] of Object.entries(SHELLS)) {
    const examples = [`standin completion ${shell} > ${file}`];
    command(completion, shell, `Print the script for ${shell}.`, examples, false).action(() => {
      process.stdout.write(script(placesIn(program)));
    });
  }
}

interface Candidate {
  readonly word: string;
  readonly description?: string;
}

/**
 * The candidates at each place of a command line: after the words of a command, after these words
 * and an option that takes a value, and in a word that begins with `-` (a place that ends in ` -`).
 */
type Places = ReadonlyMap<string, readonly Candidate[]>;

const HELP = 'help';
/** Names of values that are paths. */
const PATH = /(^|[_-])(file|folder|path)$/i;
/** Marks file names. No other candidate has a slash. */
const FILES = '/files/';

/** @param beside the commands that `help` explains, if this command is `help` */
function placesIn(made: Command, at = '', beside: readonly Candidate[] = []): Places {
  const help = made.createHelp();
  const commands = help.visibleCommands(made);
  const names = commands.map((one) => ({ word: one.name(), description: one.description() }));
  const [operand] = made.registeredArguments;
  const operands = made.name() === HELP ? beside : valuesOf(operand?.name(), operand);
  const options = help.visibleOptions(made);
  const flags = options.map(({ long, description }) => ({ word: long!, description }));
  const others = names.filter(({ word }) => word !== HELP);
  return new Map([
    [at, names.length > 0 ? names : operands],
    [`${at} -`, flags],
    ...options.flatMap((option) => {
      const name = /[<[]([^.\]>]+)/.exec(option.flags)?.[1];
      const given = [option.short, option.long].filter((flag) => flag !== undefined);
      return name === undefined
        ? []
        : given.map((flag) => [`${at} ${flag}`, valuesOf(name, option)] as const);
    }),
    ...commands.flatMap((one) => [...placesIn(one, `${at} ${one.name()}`, others)]),
  ]);
}

/** Empty: only the user knows the value. */
function valuesOf(name = '', { argChoices }: Partial<Option | Argument> = {}): Candidate[] {
  return (argChoices ?? (PATH.test(name) ? [FILES] : [])).map((word) => ({ word }));
}

/** Also works in bash 3.2 of macOS, and without the package bash-completion. */
function bashScript(places: Places): string {
  return `# Completion of standin for bash. Made by: standin completion bash
${finder(places)}
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
function zshScript(places: Places): string {
  return `#compdef standin
# Completion of standin for zsh. Made by: standin completion zsh
${finder(places)}
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

/** Finds the candidates for a word after other words, in both shells. */
function finder(places: Places): string {
  const cases = [...places].map(
    ([place, found]) => `    '${place}') found='${found.map(({ word }) => word).join(' ')}' ;;`,
  );
  return `_standin_at() {
  case "$1" in
${cases.join('\n')}
    *) return 1 ;;
  esac
}
_standin_find() {
  local current=$1 at= before= word= found=
  shift
  for word in "$@"; do
    before=$word
    if [[ $word != -* ]] && _standin_at "$at $word -"; then at="$at $word"; fi
  done
  if [[ $before == -* ]] && _standin_at "$at $before"; then :
  elif [[ $current == -* ]]; then _standin_at "$at -"
  else _standin_at "$at"
  fi
  candidates=$found
}`;
}

function fishScript(places: Places): string {
  const lines = [...places].flatMap(([place, found]) => [
    `${place}`,
    ...found.map(({ word, description = '' }) => `${place}\t${word}\t${description}`),
  ]);
  return `# Completion of standin for fish. Made by: standin completion fish
set -g __standin_places ${lines.map(quoted).join(' \\\n  ')}
function __standin_candidates
    set -l words (commandline -opc)[2..-1]
    set -l current (commandline -ct)
    set -l start (string match -r -- '^--[^=]+=' $current)
    test -n "$start"; and set -a words (string trim -r -c = -- $start)
    set -l at ''
    for word in $words
        if string match -qv -- '-*' $word; and contains -- "$at $word" $__standin_places
            set at "$at $word"
        end
    end
    set -l place $at
    if string match -q -- '-*' "$words[-1]"; and contains -- "$at $words[-1]" $__standin_places
        set place "$at $words[-1]"
    else if string match -q -- '-*' $current
        set place "$at -"
    end
    set -l found (string replace -rf -- '^'(string escape --style=regex -- $place)'\\t' '' $__standin_places)
    test (count $found) -gt 0; and string join \\n -- "$start"$found
end
complete -c standin -f -n 'not __standin_candidates | string match -q "*${FILES}*"' -a '(__standin_candidates)'
complete -c standin -F -n '__standin_candidates | string match -q "*${FILES}*"'
`;
}

function quoted(text: string): string {
  return `'${text.replaceAll(/[\\']/g, '\\$&')}'`;
}
