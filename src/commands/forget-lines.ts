import { OperatorError } from '../errors.ts';
import { count } from '../terminal.ts';
import { chunksOf, nameOf, readText } from './text-file.ts';

/** A token or a value, and the number of its line, from 1. */
export interface Line {
  readonly line: number;
  readonly text: string;
}

/** Far longer than any token, whose stem has the shape of at most 256 characters. */
const MAX_LINE_CHARACTERS = 1_000;

/**
 * Reads the tokens of a file in batches, one token a line; `-` is standard input. Skips blank lines
 * and space around tokens: no token begins or ends with space.
 * @throws OperatorError when the file cannot be read or does not contain tokens
 */
export async function* tokenLines(file: string, batchSize: number): AsyncGenerator<Line[]> {
  let batch: Line[] = [];
  let line = 0;
  for await (const untrimmed of lines(file)) {
    line++;
    const text = untrimmed.trim();
    if (text === '') continue;
    if (batch.push({ line, text }) < batchSize) continue;
    yield batch;
    batch = [];
  }
  if (batch.length > 0) yield batch;
}

async function* lines(file: string): AsyncGenerator<string> {
  let rest = '';
  let line = 0;
  const decoder = new TextDecoder('utf-8', { ignoreBOM: true });
  for await (const chunk of chunksOf(file)) {
    const parts = (rest + decoder.decode(chunk, { stream: true })).split('\n');
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

function noToken(file: string, line: number): OperatorError {
  return new OperatorError(
    `Line ${line} of ${nameOf(file)} is longer than any token: the file must have one token a line. The lines before it are done; you can safely run the command again.`,
  );
}

/** A scan has all of them in memory. */
const MAX_VALUES = 100_000;

/** One value a line; in an NDJSON file, each line is a JSON string. Skips blank lines. */
export async function valueLines(file: string): Promise<Line[]> {
  const isJson = /\.(ndjson|jsonl)$/i.test(file);
  const text = (await readText(file)).replace(/^\ufeff/, '');
  const all = text.split('\n').map((one, i) => ({ line: i + 1, text: one.replace(/\r$/, '') }));
  const values = all.filter(({ text }) => text !== '');
  if (values.length > MAX_VALUES)
    throw new OperatorError(
      `${file} has more than ${count(MAX_VALUES, 'value')}: forget them in several files.`,
    );
  return isJson ? values.map(parsed) : values;
}

function parsed({ line, text: json }: Line): Line {
  try {
    const text: unknown = JSON.parse(json);
    if (typeof text === 'string') return { line, text };
  } catch {
    // Said below.
  }
  throw new OperatorError(`Line ${line} is not a JSON string. Nothing was forgotten.`);
}
