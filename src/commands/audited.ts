import { hostname, userInfo } from 'node:os';
import { AuditFile, STANDARD_OUTPUT } from '../audit/audit-file.ts';
import type { Config } from '../config/config.ts';
import { OperatorError } from '../errors.ts';
import type { Vault } from '../vault/vault.ts';

const AUDIT_PATIENCE_MS = 4_000;

/** A run of a command that has lines in the audit log. */
interface AuditedRun {
  readonly event: 'import' | 'export';
  /** What the command does, for example its space and its files. */
  readonly about: object;
  /** What it did so far. */
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
  const log = logAt(path, (last, bytes) => keyring.auditMac(last, bytes));
  if (path === undefined)
    process.stderr.write(`standin: AUDIT_LOG is not set, so no line says that this ${event} ran\n`);
  const put = async (outcome: string, more: object, harm: string) => {
    const time = new Date().toISOString();
    const who = { event, outcome, user: userName(), ...about };
    const failure = await log.put(
      `${JSON.stringify({ time, ...who, ...more, node: hostname() })}\n`,
    );
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
    await log.close();
  }
}

/** Puts lines, each with the errno name of its failure. */
function logAt(path: string | undefined, mac: ConstructorParameters<typeof AuditFile>[1]) {
  if (path === undefined) return { put: async () => undefined, close: async () => {} };
  if (path === STANDARD_OUTPUT) {
    // Standard output has the result of the command.
    const put = async (line: string) => void process.stderr.write(line);
    return { put, close: async () => {} };
  }
  const file = new AuditFile(path, mac);
  const put = async (line: string) =>
    (await file.append([line], performance.now() + AUDIT_PATIENCE_MS)).failure;
  return { put, close: () => file.close() };
}

/** A container may run as a user id without a name. */
function userName(): string {
  try {
    return userInfo().username;
  } catch {
    return `${process.getuid?.()}`;
  }
}
