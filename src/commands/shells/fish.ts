import type { Candidates, CommandWords } from '../completion.ts';

export function fishCompletion(commands: readonly CommandWords[]): string {
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
${commands.flatMap(lines).join('\n')}
`;
}

function lines({ path, options, subcommands, operands }: CommandWords): string[] {
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
    ...operands.flatMap(({ candidates }) =>
      candidates === undefined
        ? []
        : [
            `complete -c standin -n '${under}' ${candidates === 'files' ? '-F' : choices(candidates).join(' ')}`,
          ],
    ),
  ];
}

function choices(candidates: Candidates): string[] {
  return candidates === undefined || candidates === 'files' ? [] : [`-a '${candidates.join(' ')}'`];
}

function quoted(text: string): string {
  return `'${text.replaceAll(/[\\']/g, '\\$&')}'`;
}
