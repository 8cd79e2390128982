import type { Command } from 'commander';
import { type Config, parseConfig, readEnvironment } from '../config/config.ts';
import type { Vault } from '../service/vault.ts';

/** A command with its examples. It has --json unless programs have no use for its output. */
export function command(
  parent: Command,
  name: string,
  description: string,
  examples: readonly string[],
  hasJson = true,
): Command {
  const made = parent.command(name).description(description);
  if (hasJson) made.option('--json', 'print JSON');
  EXAMPLES.set(made, examples);
  return made.addHelpText('after', examplesHelp(examples));
}

const EXAMPLES = new WeakMap<Command, readonly string[]>();

/** The examples of a command made by `command`. */
export function examplesOf(made: Command): readonly string[] {
  return EXAMPLES.get(made) ?? [];
}

export function examplesHelp(examples: readonly string[]): string {
  const heading = examples.length > 1 ? 'Examples' : 'Example';
  return `\n${heading}:\n${examples.map((example) => `  ${example}`).join('\n')}`;
}

const UNITS_MS: Record<string, number> = { m: 60_000, h: 3_600_000, d: 86_400_000 };

/** Milliseconds of a time like 30m, 12h or 90d; NaN for any other text. */
export function spanMs(text: string): number {
  const span = /^(\d{1,6})([mhd])$/.exec(text);
  return span ? Number(span[1]) * UNITS_MS[span[2]!]! : Number.NaN;
}

export function config(): Config {
  return parseConfig(readEnvironment());
}

export async function withVault(
  work: (vault: Vault, config: Config) => Promise<void>,
): Promise<void> {
  const configured = config();
  // Imported here, so that help does not wait for the modules of the database.
  const { openVault } = await import('../service/vault.ts');
  const vault = await openVault(configured.vault);
  try {
    await work(vault, configured);
  } finally {
    await vault.close();
  }
}
