import { createReadStream } from 'node:fs';
import { OperatorError } from '../errors.ts';
import type { Token } from '../types.ts';

/** A token and the number of its line, from 1. */
export interface TokenLine {
  readonly line: number;
  readonly token: Token;
}

/** Far longer than any token, whose stem has the shape of at most 256 characters. */
const MAX_LINE_CHARACTERS = 1_000;
const STANDARD_INPUT = '-';

/**
 * Reads the tokens of a file in batches, one token a line; `-` is standard input. Skips blank lines
 * and space around tokens: no token begins or ends with space.
 * @throws OperatorError when the file cannot be read or does not contain tokens
 */
export async function* tokenLines(file: string, batchSize: number): AsyncGenerator<TokenLine[]> {
  let batch: TokenLine[] = [];
  let line = 0;
  for await (const text of lines(file)) {
    line++;
    const token = text.trim() as Token;
    if (token === '') continue;
    if (batch.push({ line, token }) < batchSize) continue;
    yield batch;
    batch = [];
  }
  if (batch.length > 0) yield batch;
}

async function* lines(file: string): AsyncGenerator<string> {
  let rest = '';
  let line = 0;
  for await (const chunk of chunks(file)) {
    const parts = (rest + chunk).split('\n');
    rest = parts.pop()!;
    for (const part of [...parts, rest]) {
      line++;
      if (part.length > MAX_LINE_CHARACTERS) throw noToken(file, line);
    }
    line--;
    yield* parts;
  }
  yield rest;
}

async function* chunks(file: string): AsyncGenerator<string> {
  const input = file === STANDARD_INPUT ? process.stdin : createReadStream(file);
  input.setEncoding('utf8');
  try {
    for await (const chunk of input) yield chunk as string;
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    throw new OperatorError(`${nameOf(file)} cannot be read (${code}). Name a file of tokens.`);
  }
}

function noToken(file: string, line: number): OperatorError {
  return new OperatorError(
    `Line ${line} of ${nameOf(file)} is longer than any token: the file must have one token a line. The lines before it are done; you can safely run the command again.`,
  );
}

function nameOf(file: string): string {
  return file === STANDARD_INPUT ? 'Standard input' : file;
}
