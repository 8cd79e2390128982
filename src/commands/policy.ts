import type { Command } from 'commander';
import { OperatorError, StaleVersion } from '../errors.ts';
import type { Mistake } from '../policy/document.ts';
import type { ParsedPolicy } from '../policy/parse.ts';
import type { ClientView, PolicyPlan } from '../policy/policies.ts';
import type { DeclaredPolicy } from '../policy/policy.ts';
import { MAX_DOCUMENT_BYTES } from '../policy/schema.ts';
import { count, shown, shownLines } from '../terminal.ts';
import { commandDeadline, IN_FORCE_S } from '../timeouts.ts';
import type { Durable } from '../types.ts';
import type { Vault } from '../vault/vault.ts';
import {
  acting,
  canAsk,
  command,
  config,
  type OutputOptions,
  print,
  printDone,
  printTable,
  requireYes,
  time,
  whole,
  withVault,
} from './command.ts';
import type { Strings } from './policy-record.ts';
import { nameOf, readText } from './text-file.ts';

/** Imported when needed, so that help does not wait for YAML and the driver of the database. */
const policies = () => import('../policy/policies.ts');

const FILE = 'policy in YAML or JSON; "-": standard input';

export function addPolicy(program: Command): void {
  const policy = program
    .command('policy')
    .description('Which fields are tokenized, as which kind, and what clients see of them.');
  addCheck(policy);
  command(policy, 'apply', 'Make a policy the next version, on all nodes.', [
    'standin policy apply policy.yaml',
    'standin policy apply policy.yaml --if-version 3 --yes --json',
  ])
    .argument('<file>', FILE)
    .option('--if-version <n>', 'only if n is the newest version; 0: there is none', version)
    .option('--yes', 'do not ask')
    .action(async (file: string, options: ApplyOptions) => {
      const read = await readPolicy(file);
      await withVault((vault) => acting(apply(vault, file, read, options)));
    });
  addShow(policy);
  command(policy, 'diff', 'Say what a policy would change. Changes nothing.', [
    'standin policy diff policy.yaml',
    'standin policy diff policy.yaml --exit-code',
  ])
    .argument('<file>', FILE)
    .option('--exit-code', 'exit with 1 when something would change')
    .action(async (file: string, options) => {
      const read = await readPolicy(file);
      await withVault((vault) => diff(vault, read, options));
    });
  command(
    policy,
    'schema',
    'Print the JSON Schema of a policy, for editors.',
    ['standin policy schema > policy.schema.json'],
    false,
  ).action(async () => {
    const { POLICY_SCHEMA } = await import('../policy/schema.ts');
    process.stdout.write(`${JSON.stringify(POLICY_SCHEMA, null, 2)}\n`);
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
    .action((asked: number | undefined, options, itself: Command) => {
      if (options.versions && asked !== undefined)
        itself.error('error: name a version or give --versions, not both');
      return withVault(async (vault) => {
        const { findPolicy } = await policies();
        if (options.versions) {
          const all = await vault.policies.list(commandDeadline());
          const rows = all.map((one) => [
            String(one.version),
            time(one.applied_at),
            one.applied_by,
          ]);
          const empty = 'No policy yet. Apply one with: standin policy apply FILE';
          const headings = ['VERSION', 'APPLIED', 'BY'];
          return printTable(options, all, { headings, rows, empty });
        }
        const found = await findPolicy(vault.policies, asked);
        if (options.json) return print(options, found, '');
        const { document } = found;
        process.stdout.write(process.stdout.isTTY ? shownLines(document) : document);
      });
    });
}

function addCheck(policy: Command): void {
  command(
    policy,
    'check',
    'List all mistakes of a policy, or show an example of each kind. Changes nothing; exits with 1 when there are mistakes.',
    [
      'standin policy check policy.yaml',
      'standin policy check policy.yaml --clients',
      'standin policy check policy.yaml --record customer.json',
    ],
  )
    .argument('<file>', FILE)
    .option('--clients', 'open the vault too, and show what each client will see')
    .option('--record <file>', 'show what becomes of each string of these records: JSON or NDJSON')
    .action(async (file: string, options) => {
      const parsed = await parsedOf(file);
      const { document, policy: checked } = parsed;
      if (checked === undefined) return reportMistakes(file, parsed, options);
      const added: Added = {};
      if (options.record !== undefined) {
        const { stringsIn } = await import('./policy-record.ts');
        added.strings = await stringsIn(options.record, checked);
      }
      if (options.clients)
        await withVault(async (vault) => {
          const { clientViews, planningFacts, planOf } = await policies();
          const [newest, all] = await planningFacts(vault);
          added.clients = clientViews(checked, all);
          added.consequences = planOf(newest, all, document, checked).consequences;
        });
      await report(file, parsed, checked, added, options);
    });
}

const version = whole('a whole number', 0, 999_999_999);

/** Reads little more than a policy may have: the parser says that it is too much. */
async function parsedOf(file: string) {
  const document = await readText(file, MAX_DOCUMENT_BYTES);
  const { parsePolicy } = await import('../policy/parse.ts');
  return { document, ...parsePolicy(document) };
}

interface ReadPolicy {
  readonly document: string;
  readonly policy: DeclaredPolicy;
}

/** @throws OperatorError with all mistakes */
async function readPolicy(file: string): Promise<ReadPolicy> {
  const { document, policy, mistakes, warnings } = await parsedOf(file);
  for (const warning of warnings) process.stderr.write(warningLine(file, warning));
  if (policy !== undefined) return { document, policy };
  throw new OperatorError('The policy has mistakes:', ...mistakes.map((one) => placed(file, one)));
}

/** A mistake in the form that editors follow. */
function placed(file: string, { line, column, text }: Mistake): string {
  return shown(`${nameOf(file)}:${line}:${column}: ${text}`);
}

function warningLine(file: string, { text, ...place }: Mistake): string {
  return `${placed(file, { ...place, text: `warning: ${text}` })}\n`;
}

/** A consequence that an apply asks about. */
function consequenceLine(text: string): string {
  return shown(`! ${text}`);
}

/** The results of the options of a check. */
interface Added {
  strings?: readonly Strings[];
  clients?: readonly ClientView[];
  consequences?: readonly string[];
}

/** As for compilers, the mistakes are the result, on standard output. */
function reportMistakes(file: string, { mistakes }: ParsedPolicy, options: OutputOptions): void {
  const lines = mistakes.map((mistake) => placed(file, mistake));
  print(options, { is_valid: false, mistakes }, lines.join('\n'));
  throw new OperatorError(`${count(mistakes.length, 'mistake')} found.`);
}

async function report(
  file: string,
  { mistakes, warnings }: ParsedPolicy,
  policy: DeclaredPolicy,
  added: Added,
  options: OutputOptions,
): Promise<void> {
  const { kindExamples } = await policies();
  const kinds = kindExamples(policy, config().vault.token_suffix);
  if (options.json)
    return print(options, { is_valid: true, mistakes, warnings, kinds, ...added }, '');
  for (const warning of warnings) process.stdout.write(warningLine(file, warning));
  const rows = kinds.map((one) =>
    'token' in one
      ? [one.kind, one.value, one.token, one.mask]
      : [one.kind, one.value, `refused: ${one.refusal}`, ''],
  );
  printTable({}, kinds, { headings: ['KIND', 'EXAMPLE', 'TOKEN', 'MASKED'], rows });
  const { strings, clients, consequences = [] } = added;
  if (strings !== undefined) {
    process.stdout.write('\n');
    printTable({}, strings, {
      headings: ['PATH', 'STRINGS', 'BECOMES'],
      rows: strings.map(({ path, strings: count, becomes, meant }) => [
        path,
        String(count),
        meant === null ? becomes : `${becomes} (did you mean ${meant}?)`,
      ]),
      empty: 'There is no string.',
    });
  }
  if (clients !== undefined) {
    const seen = Object.keys(clients[0]?.sees ?? {});
    process.stdout.write('\n');
    printTable({}, clients, {
      headings: ['CLIENT', ...seen],
      rows: clients.map(({ name, sees }) => [name, ...seen.map((kind) => sees[kind]!)]),
      empty: 'No client of the vault can detokenize.',
    });
  }
  for (const one of consequences) process.stdout.write(`${consequenceLine(one)}\n`);
}

interface ApplyOptions extends OutputOptions {
  readonly ifVersion?: number;
  readonly yes?: boolean;
}

async function apply(
  vault: Vault,
  file: string,
  { document, policy }: ReadPolicy,
  options: ApplyOptions,
): Promise<Durable<object>> {
  const { applyPolicy, planPolicy } = await policies();
  const plan = await planPolicy(vault, document, policy);
  const { changes, consequences } = plan;
  if (!options.json && !plan.is_same) process.stdout.write(`${changeLines(plan).join('\n')}\n`);
  for (const one of consequences) process.stderr.write(`${consequenceLine(one)}\n`);
  if (consequences.length > 0 && !plan.is_same && !options.yes) {
    await requireConsent(file);
    const now = await planPolicy(vault, document, policy);
    if (now.consequences.some((one) => !consequences.includes(one)))
      throw new StaleVersion(OUTDATED);
  }
  const after = options.ifVersion ?? plan.version;
  const applied = await applyPolicy(vault.policies, document, after);
  const { version } = applied;
  if (!applied.is_new) {
    const text = `Nothing changed: version ${version} is this document already.`;
    return printDone(options, { ...applied, changes: [], consequences }, text);
  }
  const text = `Version ${version} of the policy is in force on all nodes within ${IN_FORCE_S} s.`;
  const result = { ...applied, changes, consequences, in_force_within_s: IN_FORCE_S };
  return printDone(options, result, text);
}

const OUTDATED =
  'The policy in force or the clients have changed since you were asked: nothing was changed. Run the command again.';

/** @throws OperatorError without it, or when nobody can be asked */
async function requireConsent(file: string): Promise<void> {
  if (!canAsk() || file === '-')
    throw new OperatorError(
      'Nothing was changed: the policy has these consequences, and this command cannot ask you first: there is no terminal, or the policy is on standard input. Add --yes to apply it.',
    );
  await requireYes(`All nodes will do this within ${IN_FORCE_S} s.`, 'Nothing was changed.');
}

async function diff(
  vault: Vault,
  { document, policy }: ReadPolicy,
  options: OutputOptions & { readonly exitCode?: boolean },
): Promise<void> {
  const { planPolicy } = await policies();
  const plan = await planPolicy(vault, document, policy);
  // "Nothing would change" must hold after a failover: a pipeline skips the apply on it.
  if (plan.is_same) await (await import('../vault/vault.ts')).confirmDurable(vault, plan);
  const lines = [...changeLines(plan), ...plan.consequences.map(consequenceLine)];
  print(options, plan, lines.join('\n'));
  if (options.exitCode && plan.changes.length > 0) process.exitCode = 1;
}

/** The changes in words, a line each. */
function changeLines({
  changes,
  unreadable,
}: Pick<PolicyPlan, 'changes' | 'unreadable'>): string[] {
  const lines = changes.map(({ what, before, after }) => {
    if (before === null) return `+ ${what}: ${after}`;
    return after === null ? `- ${what}: ${before}` : `~ ${what}: ${after} (was: ${before})`;
  });
  if (lines.length === 0) lines.push('No kind, field or right changes.');
  return [...(unreadable === null ? [] : [unreadable]), ...lines].map(shown);
}
