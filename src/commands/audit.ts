import { type Command, InvalidArgumentError } from 'commander';
import { Input } from '#bulk';
import { type Link, linkOf } from '../audit/audit-link.ts';
import { type AuditFinding, type AuditVerified, verifyAudit } from '../audit/audit-verify.ts';
import { OperatorError } from '../errors.ts';
import { count, shown } from '../terminal.ts';
import type { Vault } from '../vault/vault.ts';
import { command, EXIT_INTERRUPTED, type OutputOptions, print, withVault } from './command.ts';
import { Progress, watched } from './progress.ts';
import { chunksOf } from './text-file.ts';

interface VerifyOptions extends OutputOptions {
  readonly expect?: readonly Link[];
}

/** Findings in the --json output. Standard error names all of them. */
const MAX_LISTED = 1_000;

export function addAudit(program: Command): void {
  const audit = program.command('audit').description('The audit log.');
  command(audit, 'verify', 'Find lines that were changed, removed or added.', [
    'standin audit verify audit.log.1 audit.log',
    'standin audit verify audit.log.2.gz audit.log.1 audit.log',
  ])
    .argument('<file...>', 'in the order in which they were written; -: standard input')
    .option('--expect <head>', 'a "head" of the log that the files must reach', head)
    .action((files, options) => withVault((vault) => verify(vault, files, options)));
}

function head(text: string, others: readonly Link[] = []): Link[] {
  const link = linkOf(text);
  if (link === undefined) throw new InvalidArgumentError('It must be a "head" from the log.');
  return [...others, link];
}

async function verify(
  vault: Vault,
  files: readonly string[],
  options: VerifyOptions,
): Promise<void> {
  const inputs: Input[] = [];
  // One after the other: there may be more files than a process may have open.
  for (const file of files) inputs.push(await Input.open(file));
  // Not known with a pipe or a packed file among them.
  const sizeOf = ({ name, identity }: Input) =>
    (name.endsWith('.gz') ? undefined : identity?.bytes) ?? Number.NaN;
  const total = inputs.map(sizeOf).reduce((sum, size) => sum + size, 0);
  const sources = inputs.map((input) => ({ name: input.name, chunks: chunksOf(input) }));
  const progress = new Progress({ unit: 'line' });
  const listed: AuditFinding[] = [];
  let bad = 0;
  let bytes = 0;
  const { result, seconds, isStopped } = await watched(progress, (stop) =>
    verifyAudit(sources, {
      stop,
      macOf: (last, line) => vault.keyring.auditMac(last, line),
      expected: options.expect ?? [],
      onFinding: (finding) => {
        bad++;
        if (listed.length < MAX_LISTED) listed.push(finding);
        progress.note(`${shown(finding.file)}:${finding.line}: ${finding.detail}`);
      },
      onProgress: (lines, read) => {
        bytes += read;
        progress.advance(lines, total > 0 ? Math.min(1, bytes / total) : undefined);
      },
    }),
  );
  print(
    options,
    { ...result, bad, findings: listed, is_complete: !isStopped, seconds },
    summary(result, bad),
  );
  if (bad > 0) {
    throw new OperatorError(
      `${count(bad, 'place')} where the audit log is not as it was written (docs/operating/audit.md). Compare with a copy of the files.`,
    );
  }
  if (isStopped) process.exitCode = EXIT_INTERRUPTED;
}

function summary(result: AuditVerified, bad: number): string {
  const { lines, unlinked, incomplete, earlier, heads } = result;
  const checked = `${count(lines, 'line')} checked, ${count(bad, 'finding')}`;
  const parts = [`${checked}; ${count(heads.length, 'chain')}.`];
  if (unlinked > 0) parts.push(`Without a link, before them: ${count(unlinked, 'line')}.`);
  if (incomplete > 0) parts.push(`Skipped: ${count(incomplete, 'part')} of lines.`);
  if (earlier.length > 0) parts.push(`Begun in older files: ${count(earlier.length, 'chain')}.`);
  return parts.join('\n');
}
