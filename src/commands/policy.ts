import { createReadStream } from 'node:fs';
import { type Command, InvalidArgumentError } from 'commander';
import { errorCode, OperatorError } from '../errors.ts';
import type { Change } from '../policy/changes.ts';
import type { Mistake } from '../policy/document.ts';
import { MAX_DOCUMENT_BYTES } from '../policy/format.ts';
import type { ParsedPolicy } from '../policy/parse.ts';
import type { DeclaredPolicy } from '../policy/policy.ts';
import type { ClientView, PolicyPlan } from '../service/policies.ts';
import type { Vault } from '../service/vault.ts';
import { shown, shownLines } from '../terminal.ts';
import type { Durable } from '../types.ts';
import {
  acting,
  command,
  config,
  type OutputOptions,
  print,
  printDone,
  printTable,
  time,
  withVault,
} from './command.ts';

/** Nodes read the policy every 2 s, and use none that is older than this. */
const IN_FORCE_S = 5;

/** Imported when needed, so that help does not wait for YAML and the driver of the database. */
const policies = () => import('../service/policies.ts');
const parse = async (document: string): Promise<ParsedPolicy> =>
  (await import('../policy/parse.ts')).parsePolicy(document);

export function addPolicy(program: Command): void {
  const policy = program
    .command('policy')
    .description('Which fields are tokenized, as which kind, and what clients see of them.');
  addCheck(policy);
  addApply(policy);
  addShow(policy);
  addDiff(policy);
  command(
    policy,
    'schema',
    'Print the JSON Schema of a policy, for editors.',
    ['standin policy schema > policy.schema.json'],
    false,
  ).action(async () => {
    const { policySchema } = await import('../policy/schema.ts');
    process.stdout.write(`${JSON.stringify(policySchema(), null, 2)}\n`);
  });
}

const FILE = 'policy in YAML or JSON; "-": standard input';

function addCheck(policy: Command): void {
  command(
    policy,
    'check',
    'List all mistakes of a policy, or show an example of each kind. Changes nothing; exits with 1 when there are mistakes.',
    ['standin policy check policy.yaml', 'standin policy check policy.yaml --clients'],
  )
    .argument('<file>', FILE)
    .option('--clients', 'open the vault too, and show what each client will see')
    .action(async (file: string, options: CheckOptions) => {
      const document = await readDocument(file);
      const parsed = await parse(document);
      if (parsed.policy === undefined) return reportMistakes(file, parsed, options);
      const { policy: checked } = parsed;
      if (!options.clients) return report(file, parsed, checked, undefined, options);
      await withVault((vault) => report(file, parsed, checked, vault, options));
    });
}

function addApply(policy: Command): void {
  command(policy, 'apply', 'Make a policy the next version, on all nodes.', [
    'standin policy apply policy.yaml',
    'standin policy apply policy.yaml --if-version 3 --json',
  ])
    .argument('<file>', FILE)
    .option('--if-version <n>', 'only if n is the newest version; 0: there is none', version)
    .action(async (file: string, options: ApplyOptions) => {
      const document = await readDocument(file);
      const checked = demandPolicy(file, await parse(document));
      await withVault((vault) => acting(apply(vault, document, checked, options)));
    });
}

function addShow(policy: Command): void {
  command(policy, 'show', 'Print the policy in force, byte for byte as it was applied.', [
    'standin policy show > policy.yaml',
    'standin policy show 3',
    'standin policy show --versions',
  ])
    .argument('[version]', 'an older version; default: the newest', version)
    .option('--versions', 'list all versions instead')
    .action((asked: number | undefined, options: ShowOptions, itself: Command) => {
      if (options.versions && asked !== undefined)
        itself.error('error: name a version or give --versions, not both');
      return withVault((vault) =>
        options.versions ? list(vault, options) : show(vault, asked, options),
      );
    });
}

function addDiff(policy: Command): void {
  command(policy, 'diff', 'Say what a policy would change. Changes nothing.', [
    'standin policy diff policy.yaml',
    'standin policy diff policy.yaml --exit-code',
  ])
    .argument('<file>', FILE)
    .option('--exit-code', 'exit with 1 when something would change')
    .action(async (file: string, options: DiffOptions) => {
      const document = await readDocument(file);
      const checked = demandPolicy(file, await parse(document));
      await withVault((vault) => diff(vault, document, checked, options));
    });
}

interface CheckOptions extends OutputOptions {
  readonly clients?: boolean;
}
interface ApplyOptions extends OutputOptions {
  readonly ifVersion?: number;
}
interface ShowOptions extends OutputOptions {
  readonly versions?: boolean;
}
interface DiffOptions extends OutputOptions {
  readonly exitCode?: boolean;
}

function version(text: string): number {
  if (!/^\d{1,9}$/.test(text)) throw new InvalidArgumentError('It must be a whole number.');
  return Number(text);
}

/** Reads no more than a policy may have: the parser says that the rest is too much. */
export async function readDocument(file: string): Promise<string> {
  const chunks: Buffer[] = [];
  let bytes = 0;
  try {
    for await (const chunk of file === '-' ? process.stdin : createReadStream(file)) {
      chunks.push(chunk);
      bytes += chunk.length;
      if (bytes > MAX_DOCUMENT_BYTES) break;
    }
  } catch (error) {
    throw new OperatorError(`${file} cannot be read (${errorCode(error)})`);
  }
  try {
    const decoder = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });
    return decoder.decode(Buffer.concat(chunks), { stream: bytes > MAX_DOCUMENT_BYTES });
  } catch {
    throw new OperatorError(
      `${nameOf(file)} is not UTF-8: convert it, for example with iconv -f LATIN1 -t UTF-8`,
    );
  }
}

function nameOf(file: string): string {
  return file === '-' ? 'standard input' : file;
}

/** In the form that editors follow. */
function placed(file: string, { line, column, text }: Mistake): string {
  return `${nameOf(file)}:${line}:${column}: ${text}`;
}

function warningText(file: string, { text, ...place }: Mistake): string {
  return shown(placed(file, { ...place, text: `warning: ${text}` }));
}

/** @throws OperatorError with all mistakes */
function demandPolicy(file: string, { policy, mistakes, warnings }: ParsedPolicy): DeclaredPolicy {
  for (const warning of warnings) process.stderr.write(`${warningText(file, warning)}\n`);
  if (policy !== undefined) return policy;
  throw new OperatorError(
    'The policy has mistakes:',
    ...mistakes.map((one) => shown(placed(file, one))),
  );
}

/** As for compilers, the mistakes are the result, on standard output. */
function reportMistakes(file: string, { mistakes }: ParsedPolicy, options: OutputOptions): void {
  const lines = mistakes.map((mistake) => shown(placed(file, mistake)));
  print(options, { is_valid: false, mistakes }, lines.join('\n'));
  throw new OperatorError(`${mistakes.length} mistake${mistakes.length > 1 ? 's' : ''} found.`);
}

/** @param vault undefined: say nothing of clients */
async function report(
  file: string,
  { mistakes, warnings }: ParsedPolicy,
  policy: DeclaredPolicy,
  vault: Vault | undefined,
  options: OutputOptions,
): Promise<void> {
  const { clientViews, kindExamples } = await policies();
  const kinds = kindExamples(policy, config().vault.token_suffix);
  const views = vault && (await clientViews(vault, policy));
  const result = { is_valid: true, mistakes, warnings, kinds, ...views };
  if (options.json) return print(options, result, '');
  for (const warning of warnings) process.stdout.write(`${warningText(file, warning)}\n`);
  const rows = kinds.map((one) =>
    'token' in one
      ? [one.kind, one.value, one.token, one.mask]
      : [one.kind, one.value, `refused: ${one.refusal}`, ''],
  );
  printTable(options, kinds, { headings: ['KIND', 'EXAMPLE', 'TOKEN', 'MASKED'], rows });
  if (views !== undefined) reportClients(views.clients, views.missing);
}

function reportClients(clients: readonly ClientView[], missing: readonly string[]): void {
  const kinds = Object.keys(clients[0]?.sees ?? {});
  process.stdout.write('\n');
  printTable({}, clients, {
    headings: ['CLIENT', ...kinds],
    rows: clients.map(({ name, sees }) => [name, ...kinds.map((kind) => sees[kind]!)]),
    empty: 'No client of the vault can detokenize.',
  });
  for (const text of missingTexts(missing)) process.stdout.write(`${shown(text)}\n`);
}

function missingTexts(missing: readonly string[]): string[] {
  return missing.map((named) => `warning: rights name ${named}, and the vault has no such client`);
}

async function apply(
  vault: Vault,
  document: string,
  policy: DeclaredPolicy,
  options: ApplyOptions,
): Promise<Durable<object>> {
  const { applyPolicy, clientViews, planPolicy } = await policies();
  const { missing } = await clientViews(vault, policy);
  for (const text of missingTexts(missing)) process.stderr.write(`${shown(text)}\n`);
  const { changes, unreadable, ...plan } = await planPolicy(vault.policies, document, policy);
  const after = options.ifVersion ?? plan.version;
  const applied = await applyPolicy(vault.policies, document, after);
  const { version } = applied;
  if (!applied.is_new) {
    const text = `Nothing changed: version ${version} is this document already.`;
    return printDone(options, { ...applied, changes: [] }, text);
  }
  const lines = linesOf({ changes, unreadable });
  const end = `Version ${version} of the policy is in force on all nodes within ${IN_FORCE_S} s.`;
  const result = { ...applied, changes, in_force_within_s: IN_FORCE_S };
  return printDone(options, result, [...lines, end].join('\n'));
}

async function diff(
  vault: Vault,
  document: string,
  policy: DeclaredPolicy,
  options: DiffOptions,
): Promise<void> {
  const { planPolicy } = await policies();
  const plan = await planPolicy(vault.policies, document, policy);
  print(options, plan, linesOf(plan).join('\n'));
  if (options.exitCode && plan.changes.length > 0) process.exitCode = 1;
}

/** The changes in words, a line each. */
function linesOf({ changes, unreadable }: Pick<PolicyPlan, 'changes' | 'unreadable'>): string[] {
  const lines = changes.map(({ what, before, after }: Change) => {
    if (before === null) return `+ ${what}: ${after}`;
    return after === null ? `- ${what}: ${before}` : `~ ${what}: ${after} (was: ${before})`;
  });
  const nothing = 'No kind, field or right changes.';
  const head = unreadable === null ? [] : [unreadable];
  return [...head, ...(lines.length === 0 ? [nothing] : lines)].map(shown);
}

async function show(vault: Vault, asked: number | undefined, options: ShowOptions): Promise<void> {
  const { findPolicy } = await policies();
  const found = await findPolicy(vault.policies, asked);
  if (options.json) return print(options, found, '');
  const { document } = found;
  process.stdout.write(process.stdout.isTTY ? shownLines(document) : document);
}

async function list(vault: Vault, options: ShowOptions): Promise<void> {
  const { listPolicies } = await policies();
  const versions = await listPolicies(vault.policies);
  const rows = versions.map((one) => [String(one.version), time(one.applied_at), one.applied_by]);
  const empty = 'No policy yet. Apply one with: standin policy apply FILE';
  printTable(options, versions, { headings: ['VERSION', 'APPLIED', 'BY'], rows, empty });
}
