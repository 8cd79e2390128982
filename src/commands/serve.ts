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
    // Loading takes a while, and serve has its handlers after it: until then there is nothing to
    // finish, and nothing that a SIGHUP could restart.
    for (const signal of ['SIGTERM', 'SIGINT']) process.once(signal, () => process.exit(0));
    process.on('SIGHUP', () => {});
    const { serve } = await import('../main.ts');
    await serve(settings);
  });
}
