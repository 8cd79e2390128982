import { resolve } from 'node:path';
import { type Command, InvalidArgumentError } from 'commander';
import { BulkError } from '#bulk';
import type { Config } from '../config/config.ts';
import { OperatorError } from '../errors.ts';
import { kekSourceOf } from '../kek/kek-source.ts';
import { KeyringFollower } from '../service/keys/keyring-follower.ts';
import { type ExportedPair, exportPairs } from '../service/records/export.ts';
import { recordsFrom } from '../service/records/record-pass.ts';
import type { Vault } from '../service/vault.ts';
import { count } from '../terminal.ts';
import { encrypterFor, recipientsOf } from './age-files.ts';
import { audited } from './audited.ts';
import {
  command,
  EXIT_INTERRUPTED,
  interruptible,
  type OutputOptions,
  print,
  withVault,
} from './command.ts';
import { ExportParts } from './export-parts.ts';
import { Progress } from './progress.ts';
import { REASONS, rate } from './records.ts';

interface ExportOptions extends OutputOptions {
  readonly output: string;
  readonly recipient?: readonly string[];
  readonly recipientsFile?: string;
  readonly plain?: boolean;
  /** undefined: all spaces. */
  readonly space?: string;
  readonly partSize: number;
  /** Records a second. */
  readonly rate?: number;
  readonly resume?: boolean;
}

export function addExport(program: Command): void {
  command(program, 'export', 'Write every value with its token into encrypted files.', [
    'standin export -o pairs --recipient age1...',
    'standin export -o pairs --recipients-file recipients.txt --space tenant --resume',
  ])
    .requiredOption('-o, --output <folder>', 'a new folder, for files of NDJSON')
    .option('--recipient <age1...>', 'who can decrypt the files; may be repeated', collected)
    .option('--recipients-file <file>', 'recipients, one a line, as age takes them')
    .option('--plain', 'do not encrypt: whoever can read the files has every value in clear')
    .option('--space <name>', 'only this space; "": the default space; default: all')
    .option('--part-size <n>', 'pairs in a file, 1000 or more', partSize, 1_000_000)
    .option('--rate <n>', 'most records a second; default: no limit', rate)
    .option('--resume', 'continue a run that did not end')
    .action((options: ExportOptions, itself: Command) => {
      const hasRecipients = options.recipient !== undefined || options.recipientsFile !== undefined;
      if (hasRecipients === (options.plain === true))
        itself.error('error: name who can decrypt the files with --recipient, or give --plain');
      return withVault((vault, config) => exportVault(vault, config, options));
    });
}

function partSize(text: string): number {
  const parsed = Number(text);
  if (!Number.isInteger(parsed) || parsed < 1_000)
    throw new InvalidArgumentError('It must be a whole number of pairs, 1000 or more.');
  return parsed;
}

function collected(text: string, before: readonly string[] = []): string[] {
  return [...before, text];
}

/** @throws OperatorError */
async function exportVault(vault: Vault, config: Config, options: ExportOptions): Promise<void> {
  const recipients = recipientsOf(options.recipient ?? [], options.recipientsFile);
  const encrypter = options.plain ? undefined : await encrypterFor(recipients);
  const terms = { '--space': options.space ?? 'all', '--plain': `${options.plain === true}` };
  const parts = await ExportParts.open(
    options.output,
    terms,
    encrypter,
    options.resume ?? false,
  ).catch(inWords('.'));
  if (options.plain)
    process.stderr.write(`standin: the files in ${options.output} have every value in clear\n`);
  const about = {
    space: options.space ?? null,
    is_encrypted: options.plain !== true,
    recipients,
    folder: resolve(options.output),
    is_resumed: options.resume === true,
  };
  const counts = () => ({
    pairs: parts.manifest.pairs,
    without_token: parts.manifest.without_token,
  });
  const progress = new Progress({
    unit: 'record',
    total: await recordsFrom(vault, parts.manifest.next),
  });
  try {
    await audited(vault, config, { event: 'export', about, counts }, () =>
      run(vault, config, options, parts, progress),
    );
  } catch (error) {
    inWords(`.${AGAIN}`)(error);
  } finally {
    await parts.close();
    progress.end(parts.manifest.next === undefined);
  }
}

function inWords(remedy: string): (error: unknown) => never {
  return (error) => {
    throw error instanceof BulkError ? new OperatorError(`${error.message}${remedy}`) : error;
  };
}

const AGAIN = ' The complete files stay: continue with the same options and --resume.';

async function run(
  vault: Vault,
  config: Config,
  options: ExportOptions,
  parts: ExportParts,
  progress: Progress,
): Promise<{ readonly is_complete: boolean }> {
  const { vault: vaultOptions } = config;
  const source = kekSourceOf(vaultOptions);
  const follower = new KeyringFollower(vault.wrappedKeys, source, vault.plainKeys);
  const write = async (pairs: readonly ExportedPair[], at: string) => {
    if (parts.pending >= options.partSize) await parts.complete(at);
    if (pairs.length === 0) return;
    const text = pairs.map((pair) => `${JSON.stringify(pair)}\n`).join('');
    await parts.write(text, pairs.length, pairs.filter(({ token }) => token === null).length);
  };
  const end = await interruptible((stop) =>
    exportPairs(vault, {
      ...{ from: parts.manifest.next, rate: options.rate, stop, follower, write },
      ...{ suffix: vaultOptions.token_suffix, space: options.space },
      onBad: ({ fingerprint, reason }) =>
        progress.note(`bad record ${fingerprint}: ${REASONS[reason]}`),
      onProgress: (records) => progress.advance(records),
    }),
  );
  await parts.complete(end.next);
  report(options, parts, end.next === undefined, end.bad);
  if (end.error !== undefined)
    throw new OperatorError(`The export ended early: ${end.error.message}.${AGAIN}`);
  if (end.bad > 0)
    throw new OperatorError(
      `${count(end.bad, 'record')} did not open and ${end.bad === 1 ? 'is' : 'are'} missing in the export: see standin verify.`,
    );
  if (end.next !== undefined) process.exitCode = EXIT_INTERRUPTED;
  return { is_complete: end.next === undefined };
}

function report(
  options: ExportOptions,
  { manifest }: ExportParts,
  isComplete: boolean,
  bad: number,
): void {
  const { parts, pairs, without_token: withoutToken } = manifest;
  const unknown =
    withoutToken === 0
      ? ''
      : `\n${count(withoutToken, 'value')} without token: their tokens cannot be drawn again. To keep the pairs, run standin detokenize on the files and tables that have the tokens.`;
  const rest = isComplete ? '' : '\nStopped before the end. Continue with --resume.';
  print(
    options,
    { is_complete: isComplete, files: parts.length, pairs, without_token: withoutToken, bad },
    `${count(pairs, 'pair')} in ${count(parts.length, 'file')} in ${options.output}.${unknown}${rest}`,
  );
}
