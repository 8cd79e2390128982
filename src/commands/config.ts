import type { Command } from 'commander';
import { readEnvironment, settingsInForce } from '../config/config.ts';
import { unknownSettings } from '../config/unknown.ts';
import { shownLines } from '../terminal.ts';
import { command, config, type OutputOptions, printTable } from './command.ts';

export function addConfig(program: Command): void {
  command(
    program,
    'config',
    'Print the settings in force, and where each comes from. Secrets are not shown.',
    ['standin config', 'PORT=9000 standin config --json'],
  ).action(showConfig);
}

/** Fails as a start would when a setting is refused. */
function showConfig(options: OutputOptions): void {
  const settings = settingsInForce();
  const rows = settings.map(({ setting, value, from }) => [
    setting,
    value ?? (from === null ? '-' : '(not shown)'),
    from ?? '-',
  ]);
  printTable(options, settings, { headings: ['SETTING', 'VALUE', 'FROM'], rows });
  for (const words of unknownSettings(readEnvironment()))
    process.stderr.write(`standin: ${shownLines(words)}\n`);
  config();
}
