import type { Command } from 'commander';
import { command, config } from './command.ts';

export function addServe(program: Command): void {
  command(
    program,
    'serve',
    'Run the service.',
    ['standin serve', 'PORT=9000 standin serve'],
    false,
  ).action(async () => {
    const settings = config();
    // Loading takes a while, and `serve` sets its handlers only then. Before that, there is nothing
    // to finish, and nothing for SIGHUP to reload.
    for (const signal of ['SIGTERM', 'SIGINT']) process.once(signal, () => process.exit(0));
    process.on('SIGHUP', () => {});
    const { serve } = await import('../main.ts');
    await serve(settings);
  });
}
