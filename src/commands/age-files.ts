import type { Encrypter } from 'age-encryption';
import { BulkError, type Decode } from '#bulk';
import { secretText } from '../config/config.ts';
import { OperatorError } from '../errors.ts';
import { readText } from './text-file.ts';

/** @param file more recipients, one a line; undefined: none */
export async function recipientsOf(
  recipients: readonly string[],
  file: string | undefined,
): Promise<readonly string[]> {
  return file === undefined ? recipients : [...recipients, ...linesOf(await readText(file))];
}

/** Without blank lines and comments, as age reads its files. */
function linesOf(text: string): string[] {
  const lines = text.split('\n').map((line) => line.trim());
  return lines.filter((line) => line !== '' && !line.startsWith('#'));
}

/** @throws OperatorError without a recipient, or for one that is none */
export async function encrypterFor(recipients: readonly string[]): Promise<Encrypter> {
  if (recipients.length === 0)
    throw new OperatorError(
      'There is no recipient. Make a key with age-keygen, and name its age1.',
    );
  // Loaded only here: no other command needs it.
  const { Encrypter } = await import('age-encryption');
  const encrypter = new Encrypter();
  const words = (line: string) =>
    `"${line.slice(0, 12)}" is no recipient: it begins with age1, as age-keygen prints it.`;
  for (const one of recipients) add(() => encrypter.addRecipient(one), words(one));
  return encrypter;
}

/** @throws OperatorError in these words when the library refuses it */
function add(work: () => void, words: string): void {
  try {
    work();
  } catch {
    throw new OperatorError(words);
  }
}

/**
 * Decrypts with the identities of a file, which age-keygen makes.
 * @throws OperatorError when the file has none, or others can read it
 */
export async function decoderFor(identityFile: string): Promise<Decode> {
  const { Decrypter } = await import('age-encryption');
  const decrypter = new Decrypter();
  const words = `${identityFile} has a line that is no identity: AGE-SECRET-KEY-1..., as age-keygen makes it.`;
  for (const one of linesOf(secretText(identityFile))) add(() => decrypter.addIdentity(one), words);
  return async function* decrypted(chunks) {
    try {
      const output = await decrypter.decrypt(ReadableStream.from(withShortHeader(chunks)));
      for await (const chunk of output) yield Buffer.from(chunk);
    } catch (error) {
      const { message } = error as Error;
      throw new BulkError(
        `The file cannot be decrypted with ${identityFile} (${message}): is it the identity of a recipient, and the file whole?`,
      );
    }
  };
}

/** A header has some 100 bytes a recipient. The decrypter keeps it in memory, however long. */
const MAX_HEADER_BYTES = 65_536;
const END_OF_HEADER = '\n---';

async function* withShortHeader(chunks: AsyncIterable<Buffer>): AsyncIterable<Buffer> {
  let header: Buffer | undefined = Buffer.alloc(0);
  for await (const chunk of chunks) {
    header = header && Buffer.concat([header, chunk]);
    if (header?.subarray(0, MAX_HEADER_BYTES).includes(END_OF_HEADER)) header = undefined;
    else if (header !== undefined && header.length > MAX_HEADER_BYTES)
      throw new Error(`its header does not end within ${MAX_HEADER_BYTES} bytes`);
    yield chunk;
  }
}
