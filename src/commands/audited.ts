import { hostname, userInfo } from 'node:os';
import { AuditFile, STANDARD_OUTPUT } from '../audit/audit-file.ts';
import type { Config } from '../config/config.ts';
import { OperatorError } from '../errors.ts';
import type { Vault } from '../vault/vault.ts';

const AUDIT_TIMEOUT_MS = 4_000;

/** A run of a command that has lines in the audit log. */
interface AuditedRun {
  readonly event: 'import' | 'export';
  /** The subject of the run, for example its space and its files. */
  readonly about: object;
  /** The results so far. */
  readonly counts: () => object;
}

/**
 * Does the work between two lines of the audit log: one with the outcome `started`, one with its
 * counts and the outcome `success`, `interrupted` (Ctrl-C) or `failed`.
 * @param work resolves when all was done, or Ctrl-C has stopped it
 * @throws OperatorError when the first line cannot be written: nothing was done then
 */
export async function audited<T extends { readonly is_complete: boolean }>(
  { keyring }: Vault,
  { AUDIT_LOG: path }: Config,
  { event, about, counts }: AuditedRun,
  work: () => Promise<T>,
): Promise<T> {
  const isFile = path !== undefined && path !== STANDARD_OUTPUT;
  const file = isFile
    ? new AuditFile(path, (last, bytes) => keyring.auditMac(last, bytes))
    : undefined;
  if (path === undefined)
    process.stderr.write(`standin: AUDIT_LOG is not set, so no line says that this ${event} ran\n`);
  const put = async (outcome: string, more: object, harm: string) => {
    const time = new Date().toISOString();
    const who = { event, outcome, user: userName(), ...about };
    const line = `${JSON.stringify({ time, ...who, ...more, node: hostname() })}\n`;
    // Standard output has the result of the command.
    if (path === STANDARD_OUTPUT) process.stderr.write(line);
    const written = await file?.append([line], performance.now() + AUDIT_TIMEOUT_MS);
    const failure = written?.failure;
    if (failure === undefined) return;
    throw new OperatorError(
      `The audit log ${path} cannot be written (${failure}), so ${harm}. Correct AUDIT_LOG, or run the command as a user that can write it.`,
    );
  };
  try {
    await put('started', {}, `nothing was ${event}ed`);
    let outcome = 'failed';
    try {
      const end = await work();
      outcome = end.is_complete ? 'success' : 'interrupted';
      return end;
    } finally {
      await put(outcome, counts(), `it lacks the end of this ${event} (${outcome})`);
    }
  } finally {
    await file?.close();
  }
}

/** A container may run as a user id without a name. */
function userName(): string {
  try {
    return userInfo().username;
  } catch {
    return `${process.getuid?.()}`;
  }
}
