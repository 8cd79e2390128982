import type { Command } from 'commander';
import { OperatorError } from '../errors.ts';
import type { ParsedPolicy } from '../policy/parse.ts';
import type { ClientView } from '../policy/policies.ts';
import type { DeclaredPolicy } from '../policy/policy.ts';
import { count, shown } from '../terminal.ts';
import { command, config, type OutputOptions, print, printTable, withVault } from './command.ts';
import {
  consequenceLine,
  FILE,
  parse,
  placed,
  readDocument,
  warningText,
} from './policy-document.ts';
import type { Strings } from './policy-record.ts';

/** Imported when needed, so that help does not wait for YAML and the driver of the database. */
const policies = () => import('../policy/policies.ts');

/** What options add. */
interface Added {
  readonly strings?: readonly Strings[];
  readonly clients?: readonly ClientView[];
  readonly consequences?: readonly string[];
}

interface CheckOptions extends OutputOptions {
  readonly clients?: boolean;
  readonly record?: string;
}

export function addCheck(policy: Command): void {
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
    .action(async (file: string, options: CheckOptions) => {
      const document = await readDocument(file);
      const parsed = await parse(document);
      const { policy: checked } = parsed;
      if (checked === undefined) return reportMistakes(file, parsed, options);
      const added = options.record === undefined ? {} : await recordOf(options.record, checked);
      if (!options.clients) return report(file, parsed, checked, added, options);
      await withVault(async (vault) => {
        const { clientViews, planningFacts, planOf } = await policies();
        const [newest, all] = await planningFacts(vault);
        const { consequences } = planOf(newest, all, document, checked);
        const clients = clientViews(checked, all);
        await report(file, parsed, checked, { ...added, clients, consequences }, options);
      });
    });
}

async function recordOf(file: string, policy: DeclaredPolicy): Promise<Added> {
  const { stringsIn } = await import('./policy-record.ts');
  return { strings: await stringsIn(file, policy) };
}

/** As for compilers, the mistakes are the result, on standard output. */
function reportMistakes(file: string, { mistakes }: ParsedPolicy, options: OutputOptions): void {
  const lines = mistakes.map((mistake) => shown(placed(file, mistake)));
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
  const result = { is_valid: true, mistakes, warnings, kinds, ...added };
  if (options.json) return print(options, result, '');
  for (const warning of warnings) process.stdout.write(`${warningText(file, warning)}\n`);
  const rows = kinds.map((one) =>
    'token' in one
      ? [one.kind, one.value, one.token, one.mask]
      : [one.kind, one.value, `refused: ${one.refusal}`, ''],
  );
  printTable(options, kinds, { headings: ['KIND', 'EXAMPLE', 'TOKEN', 'MASKED'], rows });
  if (added.strings !== undefined) reportStrings(added.strings);
  if (added.clients !== undefined) reportClients(added.clients);
  for (const one of added.consequences ?? []) process.stdout.write(`${consequenceLine(one)}\n`);
}

function reportStrings(strings: readonly Strings[]): void {
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

function reportClients(clients: readonly ClientView[]): void {
  const kinds = Object.keys(clients[0]?.sees ?? {});
  process.stdout.write('\n');
  printTable({}, clients, {
    headings: ['CLIENT', ...kinds],
    rows: clients.map(({ name, sees }) => [name, ...kinds.map((kind) => sees[kind]!)]),
    empty: 'No client of the vault can detokenize.',
  });
}
