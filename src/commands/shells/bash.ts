import type { Candidates, CommandWords } from '../completion.ts';

/** Also works in bash 3.2 of macOS, and without the package bash-completion. */
export function bashCompletion(commands: readonly CommandWords[]): string {
  const below = commands.filter(({ path }) => path.length > 0);
  return `# Completion of standin for bash. Made by: standin completion bash
_standin() {
  local word=\${COMP_WORDS[COMP_CWORD]} before=\${COMP_WORDS[COMP_CWORD-1]}
  local at= candidates= options= operands= i
  # Bash takes --option=value apart.
  if [[ $word == = ]]; then word=
  elif [[ $before == = ]]; then before=\${COMP_WORDS[COMP_CWORD-2]}
  fi
  for ((i = 1; i < COMP_CWORD; i++)); do
    case "$at \${COMP_WORDS[i]}" in
      ${below.map(({ path }) => pattern(...path)).join('|')})
        at="$at \${COMP_WORDS[i]}" ;;
    esac
  done
  case "$at $before" in
${valueCases(commands).join('\n')}
  *)
    case "$at" in
${commands.map(wordCase).join('\n')}
    esac
    if [[ $word == -* ]]; then candidates=$options; else candidates=$operands; fi ;;
  esac
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

/** Marks file names. No other candidate has a slash. */
const FILES = '/files/';

/** The candidates after each option that takes a value. */
function valueCases(commands: readonly CommandWords[]): string[] {
  const patterns = new Map<string, string[]>();
  for (const { path, options } of commands) {
    for (const { flags, value } of options) {
      if (value === undefined) continue;
      const key = words(value.candidates);
      const found = flags.map((flag) => pattern(...path, flag));
      patterns.set(key, [...(patterns.get(key) ?? []), ...found]);
    }
  }
  return [...patterns].map(
    ([candidates, found]) => `  ${found.join('|')})\n    candidates='${candidates}' ;;`,
  );
}

function wordCase({ path, options, subcommands, operands }: CommandWords): string {
  const flags = options.flatMap((option) => option.flags).filter((flag) => flag.startsWith('--'));
  const names = subcommands.map(({ name }) => name);
  const others = names.length > 0 ? names.join(' ') : words(operands[0]?.candidates);
  return `    ${pattern(...path)}) options='${flags.join(' ')}' operands='${others}' ;;`;
}

function words(candidates: Candidates): string {
  return candidates === 'files' ? FILES : (candidates ?? []).join(' ');
}

/** Builds the key as the loop of the script does. */
function pattern(...path: readonly string[]): string {
  return `'${path.map((word) => ` ${word}`).join('')}'`;
}
