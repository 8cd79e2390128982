import { createReadStream, statSync } from 'node:fs';
import { join, resolve } from 'node:path';
import type { Command } from 'commander';
import {
  BadRowError,
  BulkError,
  type Decode,
  type Job,
  type RunEnd,
  RunFailure,
  runBulk,
} from '#bulk';
import type { Config } from '../config/config.ts';
import { InternalError, OperatorError } from '../errors.ts';
import { kekSourceOf } from '../kek/kek-source.ts';
import { KeyringFollower } from '../service/keys/keyring-follower.ts';
import { type Imported, Importer, isRefusal, type Pair } from '../service/records/import.ts';
import { settled, type Vault } from '../service/vault.ts';
import { count } from '../terminal.ts';
import { DEFAULT_KIND, DEFAULT_SPACE, type Durable } from '../types.ts';
import { decoderFor } from './age-files.ts';
import { audited } from './audited.ts';
import {
  addFormat,
  contradictionOf,
  EXIT_REJECTED,
  type FileOptions,
  formatFor,
} from './bulk-options.ts';
import {
  acting,
  command,
  EXIT_INTERRUPTED,
  interruptible,
  type OutputOptions,
  printDone,
  withVault,
} from './command.ts';
import { checkedManifest, checkPart, MANIFEST } from './export-manifest.ts';
import { lockOutput } from './output-lock.ts';
import { fieldsOf, listOf, namesOf, type PairOptions, pairReader } from './pair-rows.ts';
import { Progress } from './progress.ts';

interface ImportOptions extends OutputOptions, FileOptions, PairOptions {
  readonly dryRun?: boolean;
  /** File with the key that decrypts the pairs. */
  readonly identity?: string;
  /** File with the position of the run. */
  readonly checkpoint?: string;
}

export function addImport(program: Command): void {
  const made = command(
    program,
    'import',
    'Store values under the tokens that another vault gave them.',
    [
      'standin import pairs.csv --dry-run',
      'standin import pairs.csv --token-field old_token --value-field email --rejects rejects.csv',
      'standin import pairs --identity key.txt --resume',
    ],
  )
    .argument(
      '<file>',
      'pairs of token and value, or a folder of standin export; "-": standard input',
    )
    .option('--token-field <field>', 'column or path of the tokens', 'token')
    .option('--value-field <field>', 'column or path of the values', 'value')
    .option('--kind-field <field>', 'of the kinds; default of JSON: kind')
    .option('--space-field <field>', 'of the spaces; default of JSON: space')
    .option('--expires-field <field>', 'of the times of expiry; default of JSON: expires_at')
    .option('--use-field <field>', 'of both or detokenize, as --random; default of JSON: use')
    .option('--kind <name>', 'of rows without one', DEFAULT_KIND)
    .option('--space <name>', 'of rows without one; default: the default space', DEFAULT_SPACE)
    .option('--random', 'only detokenize these tokens: tokenize draws others')
    .option('--identity <file>', 'decrypts a file of standin export, or of age')
    .option('--dry-run', 'check the whole file against itself and the vault, and write nothing');
  addFormat(made)
    .option('--checkpoint <file>', 'position of the run; default: beside the file')
    .action((file: string, options: ImportOptions, itself: Command) => {
      const problem = contradictionOf(options);
      if (problem !== undefined) itself.error(`error: ${problem}`);
      return withVault((vault, settings) => acting(importPairs(vault, settings, file, options)));
    });
}

/** Rows by what became of them. */
interface Tally {
  rejected: number;
  imported: number;
  already_known: number;
  detokenize_only: number;
}

async function importPairs(
  vault: Vault,
  config: Config,
  file: string,
  options: ImportOptions,
): Promise<Durable<object>> {
  const { vault: vaultOptions } = config;
  const kek = kekSourceOf(vaultOptions);
  const follower = new KeyringFollower(vault.wrappedKeys, kek, vault.plainKeys);
  const source = await sourceOf(file, options);
  const progress = new Progress({ unit: 'pair', total: source.pairs });
  const tally: Tally = { rejected: 0, imported: 0, already_known: 0, detokenize_only: 0 };
  const startedAtMs = performance.now();
  const work = async (stop: AbortSignal) => {
    await follower.start();
    const importer = await Importer.open(vault, follower, {
      suffix: vaultOptions.token_suffix,
      isDryRun: options.dryRun ?? false,
      stop,
    });
    return runBulk(jobOf(source, options, importer, tally, progress), stop);
  };
  const run = async () => {
    const end = await interruptible(work)
      .catch((error) => {
        throw explained(error);
      })
      .finally(() => {
        follower.stop();
        progress.end();
      });
    const seconds = Math.round(performance.now() - startedAtMs) / 1000;
    return conclude(end, await settled(vault, tally), seconds, options);
  };
  const { space, kind } = options;
  const about = {
    ...{ space, kind, is_dry_run: options.dryRun === true },
    ...{ input: file === '-' ? null : resolve(file), is_resumed: options.resume === true },
  };
  return audited(vault, config, { event: 'import', about, counts: () => tally }, run);
}

/** What an import reads: a file, or all parts of an export. */
interface Source {
  readonly path: string;
  readonly inputPath: string;
  readonly format: Job['format'];
  readonly decode: Decode | undefined;
  /** undefined: not known. */
  readonly pairs?: number;
}

/** @throws OperatorError for a folder or a part that is not as the export wrote it */
async function sourceOf(path: string, options: ImportOptions): Promise<Source> {
  const isFolder = statSync(path, { throwIfNoEntry: false })?.isDirectory();
  const manifest = isFolder ? await checkedManifest(path) : await checkPart(path);
  const [name = 'empty.ndjson'] = manifest?.parts.map(({ file }) => file) ?? [path];
  if (name.endsWith('.age') && options.identity === undefined)
    throw new OperatorError(`${path} is encrypted: name the file of your key with --identity.`);
  const decode = options.identity === undefined ? undefined : await decoderFor(options.identity);
  const format = formatFor(name.replace(/\.age$/, ''), options);
  if (manifest === undefined) return { path, inputPath: path, format, decode };
  const files = manifest.parts.map(({ file }) => join(path, file));
  return {
    path: resolve(path),
    // Stands for the parts, because it has their digests.
    inputPath: join(path, MANIFEST),
    format,
    decode: () => joined(files, decode),
    pairs: manifest.pairs,
  };
}

async function* joined(files: readonly string[], decode: Decode | undefined) {
  for (const file of files) {
    const chunks: AsyncIterable<Buffer> = createReadStream(file);
    yield* decode === undefined ? chunks : { [Symbol.asyncIterator]: () => decode(chunks) };
  }
}

function jobOf(
  { path, inputPath, format, decode, pairs }: Source,
  options: ImportOptions,
  importer: Importer,
  tally: Tally,
  progress: Progress,
): Job {
  const isJson = format === 'ndjson' || format === 'json';
  const fields = fieldsOf(options, isJson);
  const isKept = path !== '-' && !options.dryRun;
  const names = namesOf(fields);
  const read = pairReader(names, options);
  return {
    operation: 'import',
    inputPath,
    decode,
    outputPath: undefined,
    checkpointPath: isKept ? (options.checkpoint ?? `${path}.checkpoint`) : undefined,
    format,
    fields: listOf(fields, isJson),
    delimiter: options.delimiter,
    hasHeader: options.header,
    keepsBlank: true,
    rejectsPath: options.rejects,
    rejectedRowsPath: options.rejectedRows,
    isResume: options.resume ?? false,
    isForced: options.force ?? false,
    lock: lockOutput,
    terms: { '--kind': options.kind, '--space': options.space, '--random': `${options.random}` },
    ask: undefined,
    take: async (rows) => {
      const taken = rows.flatMap((row) => read(row) ?? []);
      const results = await importer.take(taken);
      const good = rows.filter((row) => row.problem === undefined);
      results.forEach((result, i) => {
        if (isRefusal(result)) good[i]!.problem = { ...result, field: names[result.field] };
        else add(tally, result, taken[i]!);
      });
      tally.rejected += rows.filter((row) => row.problem !== undefined).length;
    },
    onProgress: (done, share) => progress.advance(done, pairs === undefined ? share : undefined),
  };
}

function add(tally: Tally, { isKnown, isGiven }: Imported, { use }: Pair): void {
  if (isKnown) tally.already_known++;
  else tally.imported++;
  if (!isGiven && use === 'both') tally.detokenize_only++;
}

function explained(error: unknown): unknown {
  const { cause, isResumable } =
    error instanceof RunFailure ? error : { cause: error, isResumable: false };
  const rest = isResumable
    ? ' To go on, run standin import with the same options and --resume.'
    : '';
  if (cause instanceof BadRowError)
    return new OperatorError(
      `${cause.message}. To leave such rows out, name a file for them with --rejects. You can safely import the rows before it again.${rest}`,
    );
  if (cause instanceof BulkError) return new OperatorError(`${cause.message}.${rest}`);
  if (cause instanceof InternalError && isResumable)
    return new OperatorError(`The import ended early: ${cause.reason}.${rest}`);
  return cause;
}

function conclude(
  { is_complete: isComplete, isResumable, rows, rejected }: RunEnd,
  tally: Durable<Tally>,
  seconds: number,
  options: ImportOptions,
): Durable<Tally & { readonly is_complete: boolean }> {
  const isDryRun = options.dryRun === true;
  const done = isDryRun ? 'to import' : 'imported';
  const others =
    tally.detokenize_only === 0
      ? ''
      : `; ${count(tally.detokenize_only)} for detokenize only, because tokenize gives their values another token`;
  const printed = printDone(
    options,
    { is_dry_run: isDryRun, is_complete: isComplete, rows, ...tally, rejected, seconds },
    `${count(tally.imported, 'pair')} ${done}, ${count(tally.already_known)} known before, ${count(rejected)} rejected${others}; ${seconds} s.`,
  );
  if (!isComplete) {
    const remedy = isResumable ? '; to go on, run it again with --resume' : '';
    process.stderr.write(`standin: stopped${remedy}\n`);
    process.exitCode = EXIT_INTERRUPTED;
  } else if (rejected > 0) process.exitCode = EXIT_REJECTED;
  return printed;
}
