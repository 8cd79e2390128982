import { Input } from '#bulk';
import { OperatorError } from '../errors.ts';

export const STANDARD_INPUT = '-';

/** A file for a message. */
export function nameOf(file: string): string {
  return file === STANDARD_INPUT ? 'standard input' : file;
}

/** All bytes, up to the end. @throws BulkError */
export async function* chunksOf(input: Input): AsyncGenerator<Buffer> {
  try {
    for (let next = await input.read(); next !== undefined; next = await input.read()) yield next;
  } finally {
    input.close();
  }
}

/**
 * The text of a file, or of standard input.
 * @param maxBytes the end of a longer text is left out
 * @throws BulkError when it cannot be read; OperatorError when it is not UTF-8
 */
export async function readText(file: string, maxBytes = Infinity): Promise<string> {
  const chunks: Buffer[] = [];
  // Even without a last character that is cut, the text is longer than maxBytes.
  const enough = maxBytes + 3;
  let bytes = 0;
  for await (const chunk of chunksOf(await Input.open(file))) {
    chunks.push(chunk);
    bytes += chunk.length;
    if (bytes > enough) break;
  }
  try {
    const decoder = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });
    return decoder.decode(Buffer.concat(chunks), { stream: bytes > enough });
  } catch {
    throw new OperatorError(
      `${nameOf(file)} is not UTF-8: convert it, for example with iconv -f LATIN1 -t UTF-8`,
    );
  }
}
