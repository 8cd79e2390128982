import { Argument, type Command } from 'commander';
import { command } from './command.ts';
import { bashCompletion } from './shells/bash.ts';
import { fishCompletion } from './shells/fish.ts';
import { wordsOf } from './shells/words.ts';
import { zshCompletion } from './shells/zsh.ts';

/**
 * The scripts have all words in them. Packages such as @bomb.sh/tab ask the program at each Tab
 * instead, which would take 0.25 s here every time.
 */
const SHELLS = { bash: bashCompletion, zsh: zshCompletion, fish: fishCompletion };

export function addCompletion(program: Command): void {
  command(
    program,
    'completion',
    'Print a script that has a shell complete commands, options and files.',
    [
      'standin completion bash > ~/.local/share/bash-completion/completions/standin',
      'standin completion zsh > ~/.zsh/completions/_standin',
      'standin completion fish > ~/.config/fish/completions/standin.fish',
    ],
    false,
  )
    .addArgument(new Argument('<shell>', 'which one').choices(Object.keys(SHELLS)))
    .action((shell: keyof typeof SHELLS) => {
      process.stdout.write(SHELLS[shell](wordsOf(program)));
    });
}
