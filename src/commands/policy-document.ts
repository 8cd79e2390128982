import { OperatorError } from '../errors.ts';
import type { Mistake } from '../policy/document.ts';
import type { ParsedPolicy } from '../policy/parse.ts';
import type { DeclaredPolicy } from '../policy/policy.ts';
import { MAX_DOCUMENT_BYTES } from '../policy/schema.ts';
import { shown } from '../terminal.ts';
import { nameOf, readText } from './text-file.ts';

/** Imported when needed, so that help does not wait for YAML. */
export const parse = async (document: string): Promise<ParsedPolicy> =>
  (await import('../policy/parse.ts')).parsePolicy(document);

export const FILE = 'policy in YAML or JSON; "-": standard input';

/** Reads little more than a policy may have: the parser says that it is too much. */
export function readDocument(file: string): Promise<string> {
  return readText(file, MAX_DOCUMENT_BYTES);
}

/** In the form that editors follow. */
export function placed(file: string, { line, column, text }: Mistake): string {
  return `${nameOf(file)}:${line}:${column}: ${text}`;
}

export function warningText(file: string, { text, ...place }: Mistake): string {
  return shown(placed(file, { ...place, text: `warning: ${text}` }));
}

/** What an apply asks about. */
export function consequenceLine(text: string): string {
  return shown(`! ${text}`);
}

export interface ReadPolicy {
  readonly document: string;
  readonly policy: DeclaredPolicy;
}

/** @throws OperatorError with all mistakes */
export async function readPolicy(file: string): Promise<ReadPolicy> {
  const document = await readDocument(file);
  const { policy, mistakes, warnings } = await parse(document);
  for (const warning of warnings) process.stderr.write(`${warningText(file, warning)}\n`);
  if (policy !== undefined) return { document, policy };
  throw new OperatorError(
    'The policy has mistakes:',
    ...mistakes.map((one) => shown(placed(file, one))),
  );
}
