import { createReadStream, statSync } from 'node:fs';
import { join, resolve } from 'node:path';
import type { Command } from 'commander';
import type { Decode, Row, TakeJob } from '#bulk';
import type { Config } from '../config/config.ts';
import { InternalError, OperatorError, reasonInWords } from '../errors.ts';
import { Importer } from '../records/import.ts';
import { EXPIRED, isRefusal, PAIR_USES, type Pair } from '../records/pairs.ts';
import { count } from '../terminal.ts';
import { EveryKind } from '../tokens/every-kind.ts';
import { DEFAULT_KIND, DEFAULT_SPACE, type Durable } from '../types.ts';
import { confirmDurable, type Vault } from '../vault/vault.ts';
import { decoderFor } from './age-files.ts';
import { audited } from './audited.ts';
import {
  addFormat,
  type FileOptions,
  formatFor,
  jobOptions,
  type RowsEnd,
  runRows,
} from './bulk-options.ts';
import { acting, command, type OutputOptions, printDone, withVault } from './command.ts';
import { checkedManifest, checkPart, MANIFEST } from './export-parts.ts';
import { Progress } from './progress.ts';
import { followerOf } from './records.ts';

/** The meaning of a field for the pair of its row, and its name in JSON without an option. */
const ROLES = {
  ...({ token: 'token', value: 'value', kind: 'kind' } as const),
  ...({ space: 'space', expires: 'expires_at', use: 'use' } as const),
};
type Role = keyof typeof ROLES;
type FieldOptions = Readonly<Partial<Record<`${Role}Field`, string>>>;

interface ImportArguments extends OutputOptions, FileOptions, FieldOptions {
  /** Of rows without one. */
  readonly kind: string;
  readonly space: string;
  readonly random?: boolean;
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
    .action((file: string, options: ImportArguments) =>
      withVault((vault, settings) => acting(importPairs(vault, settings, file, options))),
    );
}

/** Rows by what became of them. */
type Tally = Record<'rejected' | 'imported' | 'already_known' | 'detokenize_only', number>;

async function importPairs(
  vault: Vault,
  config: Config,
  file: string,
  options: ImportArguments,
): Promise<Durable<object>> {
  const follower = followerOf(vault);
  const source = await sourceOf(file, options);
  const progress = new Progress({ unit: 'pair', total: source.pairs });
  const tally: Tally = { rejected: 0, imported: 0, already_known: 0, detokenize_only: 0 };
  const jobFor = async (stop: AbortSignal) => {
    await follower.start();
    const kinds = await EveryKind.read(vault, vault.options.token_suffix);
    const isDryRun = options.dryRun === true;
    const importer = new Importer(vault, kinds, follower, { isDryRun, stop });
    return jobOf(source, options, importer, tally, progress);
  };
  const run = async () => {
    const end = await runRows('import', jobFor, progress, (cause, isResumable) =>
      cause instanceof InternalError && isResumable
        ? `The import ended early: ${reasonInWords(cause)}`
        : undefined,
    ).finally(() => follower.stop());
    return report(end, await confirmDurable(vault, tally), options);
  };
  const { space, kind } = options;
  const about = {
    ...{ space, kind, is_dry_run: options.dryRun === true },
    ...{ input: file === '-' ? null : resolve(file), is_resumed: options.resume === true },
  };
  return audited(vault, config, { event: 'import', about, counts: () => tally }, run);
}

/**
 * The file of an import, or all parts of an export.
 * @throws OperatorError for a folder or a part that is not as the export wrote it
 */
async function sourceOf(path: string, options: ImportArguments) {
  const isFolder = statSync(path, { throwIfNoEntry: false })?.isDirectory();
  const manifest = isFolder ? await checkedManifest(path) : await checkPart(path);
  const [name = 'empty.ndjson'] = manifest?.parts.map(({ file }) => file) ?? [path];
  if (name.endsWith('.age') && options.identity === undefined)
    throw new OperatorError(`${path} is encrypted: name the file of your key with --identity.`);
  const decode = options.identity === undefined ? undefined : await decoderFor(options.identity);
  const format = formatFor(name.replace(/\.age$/, ''), options);
  if (manifest === undefined) return { path, inputPath: path, format, decode, pairs: undefined };
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
    yield* decode?.(chunks) ?? chunks;
  }
}

function jobOf(
  { path, pairs, ...source }: Awaited<ReturnType<typeof sourceOf>>,
  options: ImportArguments,
  importer: Importer,
  tally: Tally,
  progress: Progress,
): TakeJob {
  const isJson = source.format === 'ndjson' || source.format === 'json';
  const paths = pathsOf(options, isJson);
  // As rows name them.
  const names: Fields = Object.fromEntries(
    paths.map(([role, path]) => [role, isJson ? path.replace(/\?$/, '') : path]),
  );
  const isKept = path !== '-' && !options.dryRun;
  return {
    ...jobOptions(options),
    ...source,
    operation: 'import',
    checkpointPath: isKept ? (options.checkpoint ?? `${path}.checkpoint`) : undefined,
    fields: paths.map(([, path]) => path),
    keepsBlank: true,
    terms: { '--kind': options.kind, '--space': options.space, '--random': `${options.random}` },
    take: async (rows) => {
      const taken = rows.flatMap((row) => pairOf(row, names, options) ?? []);
      const results = await importer.take(taken);
      const good = rows.filter((row) => row.problem === undefined);
      results.forEach((result, i) => {
        if (isRefusal(result)) {
          good[i]!.problem = { ...result, field: names[result.field] };
          return;
        }
        tally[result.isKnown ? 'already_known' : 'imported']++;
        if (!result.isGiven && taken[i]!.use === 'both') tally.detokenize_only++;
      });
      tally.rejected += rows.filter((row) => row.problem !== undefined).length;
    },
    onProgress: (done, share) => progress.advance(done, pairs === undefined ? share : undefined),
  };
}

/** Columns or paths. */
type Fields = Partial<Record<Role, string>>;

/**
 * In JSON, a path ends in `?` if rows may lack it, and rows have the usual names without an option.
 */
function pathsOf(options: ImportArguments, isJson: boolean): [Role, string][] {
  return (Object.keys(ROLES) as Role[]).flatMap((role) => {
    const field = options[`${role}Field`];
    const path = isJson ? (field?.replace(ITEM, '') ?? `${ROLES[role]}?`) : field;
    return path === undefined ? [] : [[role, path]];
  });
}

/** A row in JSONPath. */
const ITEM = /^\$(\[\*\])?\.?/;

/** The pair of a row; a row that has none gets its problem. */
function pairOf(
  row: Row,
  names: Fields,
  { kind, space, random }: ImportArguments,
): Pair | undefined {
  if (row.problem !== undefined) return undefined;
  const cellOf = (role: Role) => row.cells.find(({ field }) => field === names[role])?.value;
  const refuse = (role: Role, reason: string) => {
    row.problem = { field: names[role], reason };
    return undefined;
  };
  const [token, value, expires] = [cellOf('token'), cellOf('value'), cellOf('expires')];
  if (!token) return refuse('token', 'is empty: a pair has a token');
  if (value === undefined) return refuse('value', 'is empty: a pair has a value');
  const expiresAt = expires ? Date.parse(expires) : null;
  if (Number.isNaN(expiresAt)) return refuse('expires', EXPIRED);
  const use = PAIR_USES.find((one) => one === (cellOf('use') || 'both'));
  if (use === undefined) return refuse('use', `is not ${PAIR_USES.join(' or ')}`);
  return {
    ...{ token, value, expires_at: expiresAt, line: row.line, use: random ? 'detokenize' : use },
    ...{ kind: cellOf('kind') || kind, space: cellOf('space') || space },
  };
}

function report(end: RowsEnd, tally: Durable<Tally>, options: ImportArguments) {
  const { is_complete: isComplete, rows, rejected, seconds } = end;
  const isDryRun = options.dryRun === true;
  const others =
    tally.detokenize_only === 0
      ? ''
      : `; ${count(tally.detokenize_only)} for detokenize only, because tokenize gives their values another token`;
  return printDone(
    options,
    { is_dry_run: isDryRun, is_complete: isComplete, rows, ...tally, rejected, seconds },
    `${count(tally.imported, 'pair')} ${isDryRun ? 'to import' : 'imported'}, ${count(tally.already_known)} known before, ${count(rejected)} rejected${others}; ${seconds} s.`,
  );
}
