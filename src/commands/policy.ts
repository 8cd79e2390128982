import { type Command, InvalidArgumentError } from 'commander';
import { OperatorError, StaleVersion } from '../errors.ts';
import type { Change } from '../policy/changes.ts';
import type { PolicyPlan } from '../policy/policies.ts';
import { shown, shownLines } from '../terminal.ts';
import type { Durable } from '../types.ts';
import type { Vault } from '../vault/vault.ts';
import {
  acting,
  command,
  type OutputOptions,
  print,
  printDone,
  printTable,
  time,
  withVault,
} from './command.ts';
import { addCheck } from './policy-check.ts';
import { consequenceLine, FILE, type ReadPolicy, readPolicy } from './policy-document.ts';
import { canAsk, requireYes } from './question.ts';

/** Nodes read the policy every 2 s, and use none that is older than this. */
const IN_FORCE_S = 5;

/** Imported when needed, so that help does not wait for YAML and the driver of the database. */
const policies = () => import('../policy/policies.ts');

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
    const { POLICY_SCHEMA } = await import('../policy/schema.ts');
    process.stdout.write(`${JSON.stringify(POLICY_SCHEMA, null, 2)}\n`);
  });
}

function addApply(policy: Command): void {
  command(policy, 'apply', 'Make a policy the next version, on all nodes.', [
    'standin policy apply policy.yaml',
    'standin policy apply policy.yaml --if-version 3 --yes --json',
  ])
    .argument('<file>', FILE)
    .option('--if-version <n>', 'only if n is the newest version; 0: there is none', version)
    .option('--yes', 'do not ask')
    .action(async (file: string, options: PolicyOptions) => {
      const read = await readPolicy(file);
      await withVault((vault) => acting(apply(vault, file, read, options)));
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
    .action((asked: number | undefined, options: PolicyOptions, itself: Command) => {
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
    .action(async (file: string, options: PolicyOptions) => {
      const read = await readPolicy(file);
      await withVault((vault) => diff(vault, read, options));
    });
}

/** Of all these commands together. */
interface PolicyOptions extends OutputOptions {
  readonly ifVersion?: number;
  readonly yes?: boolean;
  readonly versions?: boolean;
  readonly exitCode?: boolean;
}

function version(text: string): number {
  if (!/^\d{1,9}$/.test(text)) throw new InvalidArgumentError('It must be a whole number.');
  return Number(text);
}

async function apply(
  vault: Vault,
  file: string,
  { document, policy }: ReadPolicy,
  options: PolicyOptions,
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
  options: PolicyOptions,
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
  const lines = changes.map(({ what, before, after }: Change) => {
    if (before === null) return `+ ${what}: ${after}`;
    return after === null ? `- ${what}: ${before}` : `~ ${what}: ${after} (was: ${before})`;
  });
  const nothing = 'No kind, field or right changes.';
  const head = unreadable === null ? [] : [unreadable];
  return [...head, ...(lines.length === 0 ? [nothing] : lines)].map(shown);
}

async function show(
  vault: Vault,
  asked: number | undefined,
  options: PolicyOptions,
): Promise<void> {
  const { findPolicy } = await policies();
  const found = await findPolicy(vault.policies, asked);
  if (options.json) return print(options, found, '');
  const { document } = found;
  process.stdout.write(process.stdout.isTTY ? shownLines(document) : document);
}

async function list(vault: Vault, options: PolicyOptions): Promise<void> {
  const { listPolicies } = await policies();
  const versions = await listPolicies(vault.policies);
  const rows = versions.map((one) => [String(one.version), time(one.applied_at), one.applied_by]);
  const empty = 'No policy yet. Apply one with: standin policy apply FILE';
  printTable(options, versions, { headings: ['VERSION', 'APPLIED', 'BY'], rows, empty });
}
