import { resolve } from 'node:path';
import type { Command } from 'commander';
import { BulkError } from '#bulk';
import type { Config } from '../config/config.ts';
import { OperatorError, reasonInWords } from '../errors.ts';
import { type ExportedPair, exportPairs } from '../records/export.ts';
import type { ReadSettings } from '../records/verify.ts';
import { count } from '../terminal.ts';
import type { Vault } from '../vault/vault.ts';
import { encrypterFor, recipientsOf } from './age-files.ts';
import { audited } from './audited.ts';
import {
  command,
  EXIT_INTERRUPTED,
  type OutputOptions,
  print,
  whole,
  withVault,
} from './command.ts';
import { type ExportParts, openParts } from './export-parts.ts';
import { rate, watchedScan } from './records.ts';

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

const partSize = whole('a whole number of pairs, 1000 or more', 1_000);

function collected(text: string, before: readonly string[] = []): string[] {
  return [...before, text];
}

/** @throws OperatorError */
async function exportVault(vault: Vault, config: Config, options: ExportOptions): Promise<void> {
  const recipients = await recipientsOf(options.recipient ?? [], options.recipientsFile);
  const encrypter = options.plain ? undefined : await encrypterFor(recipients);
  const terms = { '--space': options.space ?? 'all', '--plain': `${options.plain === true}` };
  const parts = await openParts(options.output, terms, encrypter, options.resume ?? false);
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
  try {
    await audited(vault, config, { event: 'export', about, counts }, () =>
      run(vault, options, parts),
    );
  } catch (error) {
    throw error instanceof BulkError ? new OperatorError(`${error.message}.${AGAIN}`) : error;
  } finally {
    await parts.close();
  }
}

const AGAIN = ' The complete files stay: continue with the same options and --resume.';

async function run(
  vault: Vault,
  { rate: recordsPerS, space, partSize, ...options }: ExportOptions,
  parts: ExportParts,
): Promise<{ readonly is_complete: boolean }> {
  const write = async (pairs: readonly ExportedPair[], at: string) => {
    if (parts.pending >= partSize) await parts.complete(at);
    if (pairs.length === 0) return;
    const text = pairs.map((pair) => `${JSON.stringify(pair)}\n`).join('');
    await parts.write(text, pairs.length, pairs.filter(({ token }) => token === null).length);
  };
  const work = (settings: ReadSettings) => exportPairs(vault, { ...settings, space, write });
  const from = parts.manifest.next;
  const { result: end } = await watchedScan(vault, { from, rate: recordsPerS }, work);
  await parts.complete(end.next);
  report(options, parts, end.next === undefined, end.bad);
  if (end.error !== undefined)
    throw new OperatorError(`The export ended early: ${reasonInWords(end.error)}.${AGAIN}`);
  if (end.bad > 0)
    throw new OperatorError(
      `${count(end.bad, 'record')} did not open and ${end.bad === 1 ? 'is' : 'are'} missing in the export: see standin verify.`,
    );
  if (end.next !== undefined) process.exitCode = EXIT_INTERRUPTED;
  return { is_complete: end.next === undefined };
}

function report(
  options: OutputOptions & Pick<ExportOptions, 'output'>,
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
