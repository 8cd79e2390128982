import type { Command } from 'commander';
import { command, withVault } from './command.ts';

export function addForget(program: Command): void {
  command(
    program,
    'forget [token...]',
    'Remove the values behind tokens, for ever: they are as unknown from then on.',
    [
      'standin forget --file tokens.txt --dry-run',
      'standin forget --file tokens.txt',
      'standin forget --file - --yes --json',
    ],
  )
    .option('--file <file>', 'tokens, one a line; "-": standard input')
    .option('--dry-run', 'say how many are known, and change nothing')
    .option('--yes', 'do not ask')
    .action(async (tokens: string[], options, itself: Command) => {
      if ((tokens.length === 0) === (options.file === undefined))
        itself.error('error: name tokens, or a file of them with --file');
      // Only who runs a command waits for its modules.
      const { forget } = await import('../commands/forget.ts');
      return withVault((vault) => forget(vault, tokens, options));
    });
}
