import { createReadStream } from 'node:fs';
import { stat } from 'node:fs/promises';
import { errorCode, OperatorError } from '../errors.ts';

export const STANDARD_INPUT = '-';
const READ_BYTES = 262_144;

/** A file for a message. */
export function nameOf(file: string): string {
  return file === STANDARD_INPUT ? 'standard input' : file;
}

/** The chunks of a file, or of standard input. @throws OperatorError */
export async function* chunksOf(file: string): AsyncGenerator<Buffer> {
  const options = { highWaterMark: READ_BYTES };
  try {
    yield* file === STANDARD_INPUT ? process.stdin : createReadStream(file, options);
  } catch (error) {
    throw cannotBeRead(file, error);
  }
}

/** In bytes. @throws OperatorError */
export async function sizeOf(file: string): Promise<number> {
  try {
    return (await stat(file)).size;
  } catch (error) {
    throw cannotBeRead(file, error);
  }
}

function cannotBeRead(file: string, error: unknown): OperatorError {
  return new OperatorError(`${nameOf(file)} cannot be read (${errorCode(error)})`);
}

/**
 * The text of a file, or of standard input.
 * @param maxBytes the end of a longer text is left out
 * @throws OperatorError when it cannot be read, or is not UTF-8
 */
export async function readText(file: string, maxBytes = Infinity): Promise<string> {
  const chunks: Buffer[] = [];
  // Even without a last character that is cut, the text is longer than maxBytes.
  const enough = maxBytes + 3;
  let bytes = 0;
  for await (const chunk of chunksOf(file)) {
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
