import { createReadStream } from 'node:fs';
import { errorCode, OperatorError } from '../errors.ts';
import type { Mistake } from '../policy/document.ts';
import { MAX_DOCUMENT_BYTES } from '../policy/format.ts';
import type { ParsedPolicy } from '../policy/parse.ts';
import type { DeclaredPolicy } from '../policy/policy.ts';
import { shown } from '../terminal.ts';

/** Imported when needed, so that help does not wait for YAML. */
export const parse = async (document: string): Promise<ParsedPolicy> =>
  (await import('../policy/parse.ts')).parsePolicy(document);

export const FILE = 'policy in YAML or JSON; "-": standard input';

/** Reads little more than a policy may have: the parser says that it is too much. */
export async function readDocument(file: string, maxBytes = MAX_DOCUMENT_BYTES): Promise<string> {
  const chunks: Buffer[] = [];
  let bytes = 0;
  try {
    for await (const chunk of file === '-' ? process.stdin : createReadStream(file)) {
      chunks.push(chunk);
      bytes += chunk.length;
      if (bytes > maxBytes) break;
    }
  } catch (error) {
    throw new OperatorError(`${file} cannot be read (${errorCode(error)})`);
  }
  try {
    const decoder = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });
    return decoder.decode(Buffer.concat(chunks), { stream: bytes > maxBytes });
  } catch {
    throw new OperatorError(
      `${nameOf(file)} is not UTF-8: convert it, for example with iconv -f LATIN1 -t UTF-8`,
    );
  }
}

export function nameOf(file: string): string {
  return file === '-' ? 'standard input' : file;
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
