import type { Candidates, CommandWords, OptionWords } from '../completion.ts';

/** Put the script in a folder of fpath as `_standin`, or source it after compinit. */
export function zshCompletion(commands: readonly CommandWords[]): string {
  return `#compdef standin
# Completion of standin for zsh. Made by: standin completion zsh
${commands.map(completer).join('\n')}
if [[ $funcstack[1] == _standin ]]; then _standin "$@"; else compdef _standin standin; fi
`;
}

function completer({ path, options, subcommands, operands }: CommandWords): string {
  const specs = options.map(optionSpec);
  if (subcommands.length === 0) {
    specs.push(
      ...operands.map(({ name, candidates, isVariadic }) =>
        quoted(`${isVariadic ? '*' : ''}:${escaped(name)}:${action(candidates)}`),
      ),
    );
    return functionOf(path, [`  _arguments ${specs.join(' \\\n    ')}`]);
  }
  specs.push("'1: :->command'", "'*:: :->words'");
  return functionOf(path, [
    '  local state line',
    `  _arguments -C ${specs.join(' \\\n    ')} && return`,
    '  case $state in',
    '  command)',
    '    local -a names=(',
    ...subcommands.map(({ name, description }) => `      ${quoted(`${name}:${description}`)}`),
    '    )',
    '    _describe command names ;;',
    '  words)',
    '    case $line[1] in',
    ...subcommands.map(({ name }) => `    ${name}) ${functionName([...path, name])} ;;`),
    '    esac ;;',
    '  esac',
  ]);
}

function functionOf(path: readonly string[], body: readonly string[]): string {
  return [`${functionName(path)}() {`, ...body, '}'].join('\n');
}

function functionName(path: readonly string[]): string {
  return ['_standin', ...path].join('_');
}

function optionSpec({ flags, description, value }: OptionWords): string {
  const text = `[${escaped(description)}]`;
  const taken = value === undefined ? '' : `:${escaped(value.name)}:${action(value.candidates)}`;
  // --help and --version exclude all other words.
  const others = flags.includes('--help') || flags.includes('--version') ? '- *' : flags.join(' ');
  return flags
    .map((flag) => {
      const attached = value === undefined ? '' : flag.startsWith('--') ? '=' : '+';
      return quoted(`(${others})${flag}${attached}${text}${taken}`);
    })
    .join(' ');
}

/** A space makes zsh show only the name of the value. */
function action(candidates: Candidates): string {
  return candidates === 'files'
    ? '_files'
    : candidates === undefined
      ? ' '
      : `(${candidates.join(' ')})`;
}

function escaped(text: string): string {
  return text.replaceAll(/[\\:[\]]/g, '\\$&');
}

function quoted(text: string): string {
  return `'${text.replaceAll("'", "'\\''")}'`;
}
