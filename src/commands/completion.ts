import type { Command } from 'commander';
import { command } from './command.ts';
import { bashCompletion } from './shells/bash.ts';
import { fishCompletion } from './shells/fish.ts';
import { wordsOf } from './shells/words.ts';
import { zshCompletion } from './shells/zsh.ts';

/** The scripts, and a file that the shell looks in by itself. */
const SHELLS = {
  bash: [bashCompletion, '~/.local/share/bash-completion/completions/standin'],
  zsh: [zshCompletion, '~/.zsh/completions/_standin'],
  fish: [fishCompletion, '~/.config/fish/completions/standin.fish'],
} as const;

/**
 * The scripts have all words in them. Packages such as @bomb.sh/tab start the program at every Tab
 * instead, which takes 0.1 s of a processor, and are one more package.
 */
export function addCompletion(program: Command): void {
  const completion = program
    .command('completion')
    .description('A script that has a shell complete commands, options and files.');
  for (const [shell, [write, file]] of Object.entries(SHELLS)) {
    const examples = [`standin completion ${shell} > ${file}`];
    command(completion, shell, `Print the script for ${shell}.`, examples, false).action(() => {
      process.stdout.write(write(wordsOf(program)));
    });
  }
}
