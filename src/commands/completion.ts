import type { Command } from 'commander';
import { command } from './command.ts';
import { bashCompletion } from './shells/bash.ts';
import { fishCompletion } from './shells/fish.ts';
import { wordsOf } from './shells/words.ts';
import { zshCompletion } from './shells/zsh.ts';

/** The generator of each script, and a file that the shell reads by itself. */
const SHELLS = {
  bash: [bashCompletion, '~/.local/share/bash-completion/completions/standin'],
  zsh: [zshCompletion, '~/.zsh/completions/_standin'],
  fish: [fishCompletion, '~/.config/fish/completions/standin.fish'],
} as const;

/**
 * The scripts contain all words. Packages such as @bomb.sh/tab instead start the program at every
 * Tab, which takes 0.1 s of a processor, and add a dependency.
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
