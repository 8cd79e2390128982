import type { Command } from 'commander';
import { OperatorError } from '../errors.ts';
import type { ParsedPolicy } from '../policy/parse.ts';
import type { DeclaredPolicy } from '../policy/policy.ts';
import type { ClientView } from '../service/policies.ts';
import { shown } from '../terminal.ts';
import { command, config, type OutputOptions, print, printTable, withVault } from './command.ts';
import {
  consequenceLine,
  FILE,
  parse,
  placed,
  readDocument,
  warningText,
} from './policy-document.ts';

/** Imported when needed, so that help does not wait for YAML and the driver of the database. */
const policies = () => import('../service/policies.ts');

/** What the vault adds. */
interface OfVault {
  readonly clients: readonly ClientView[];
  readonly consequences: readonly string[];
}

interface CheckOptions extends OutputOptions {
  readonly clients?: boolean;
}

export function addCheck(policy: Command): void {
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
      const { policy: checked } = parsed;
      if (checked === undefined) return reportMistakes(file, parsed, options);
      if (!options.clients) return report(file, parsed, checked, undefined, options);
      await withVault(async (vault) => {
        const { clientViews, planPolicy } = await policies();
        const { consequences } = await planPolicy(vault, document, checked);
        const ofVault = { clients: await clientViews(vault, checked), consequences };
        await report(file, parsed, checked, ofVault, options);
      });
    });
}

/** As for compilers, the mistakes are the result, on standard output. */
function reportMistakes(file: string, { mistakes }: ParsedPolicy, options: OutputOptions): void {
  const lines = mistakes.map((mistake) => shown(placed(file, mistake)));
  print(options, { is_valid: false, mistakes }, lines.join('\n'));
  throw new OperatorError(`${mistakes.length} mistake${mistakes.length > 1 ? 's' : ''} found.`);
}

async function report(
  file: string,
  { mistakes, warnings }: ParsedPolicy,
  policy: DeclaredPolicy,
  ofVault: OfVault | undefined,
  options: OutputOptions,
): Promise<void> {
  const { kindExamples } = await policies();
  const kinds = kindExamples(policy, config().vault.token_suffix);
  const result = { is_valid: true, mistakes, warnings, kinds, ...ofVault };
  if (options.json) return print(options, result, '');
  for (const warning of warnings) process.stdout.write(`${warningText(file, warning)}\n`);
  const rows = kinds.map((one) =>
    'token' in one
      ? [one.kind, one.value, one.token, one.mask]
      : [one.kind, one.value, `refused: ${one.refusal}`, ''],
  );
  printTable(options, kinds, { headings: ['KIND', 'EXAMPLE', 'TOKEN', 'MASKED'], rows });
  if (ofVault !== undefined) reportClients(ofVault);
}

function reportClients({ clients, consequences }: OfVault): void {
  const kinds = Object.keys(clients[0]?.sees ?? {});
  process.stdout.write('\n');
  printTable({}, clients, {
    headings: ['CLIENT', ...kinds],
    rows: clients.map(({ name, sees }) => [name, ...kinds.map((kind) => sees[kind]!)]),
    empty: 'No client of the vault can detokenize.',
  });
  for (const one of consequences) process.stdout.write(`${consequenceLine(one)}\n`);
}
