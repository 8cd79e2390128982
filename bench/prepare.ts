import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { freshRecord, freshRecords, type Texts } from './bodies.ts';
import type { Contestant } from './contestants.ts';
import { headersOf, INTERFACES, type Operation, post } from './interfaces.ts';
import type { JobResult, Request } from './load.ts';

/** Files of a contestant for the generator: its tokens, and values that are stored already. */
export type Prepared = Readonly<Record<'detokenize' | 'repeat', string>>;

/** The preparation uses records below this number, in requests that a slow machine answers in time. */
export const FIRST_FRESH_RECORD = 10_000;
const RECORDS_A_REQUEST = 100;
const REPEATED_RECORDS = 3_333;

/**
 * Tokenizes the records of these numbers, detokenizes all tokens, and compares. Writes the requests
 * for the generator.
 * @throws Error if a contestant does not return the right values
 */
export async function prepare(
  contestant: Contestant,
  folder: string,
  numberOf: (i: number) => number = (i) => i,
): Promise<Prepared> {
  const records = Array.from({ length: FIRST_FRESH_RECORD }, (_, i) =>
    freshRecord(numberOf(i), contestant.isWide),
  );
  const tokens: Texts[] = [];
  for (let from = 0; from < records.length; from += RECORDS_A_REQUEST) {
    const some = records.slice(from, from + RECORDS_A_REQUEST);
    const made = await ask(contestant, 'tokenize', some);
    tokens.push(...(await compare(contestant, some, made)));
  }
  const { body, expected } = INTERFACES[contestant.speaks];
  const write = (operation: Operation, sent: readonly Texts[], answered: readonly Texts[]) => {
    const file = join(folder, `${contestant.title}-${operation}.json`);
    const requests = sent.map(
      (texts, i): Request => [body(operation, [texts]), expected(answered[i]!)],
    );
    writeFileSync(file, JSON.stringify(requests));
    return file;
  };
  return {
    detokenize: write('detokenize', tokens, records),
    repeat: write('tokenize', records.slice(0, REPEATED_RECORDS), tokens),
  };
}

/**
 * Detokenizes sampled answers of tokenize, and compares the results with what was sent.
 * @param count records of each request
 * @returns the number of tokens
 */
export async function verify(
  contestant: Contestant,
  samples: JobResult['samples'],
  count: number,
): Promise<number> {
  let verified = 0;
  for (const [from, body] of samples) {
    const records = freshRecords(from, count, contestant.isWide);
    const tokens = INTERFACES[contestant.speaks].texts('tokenize', JSON.parse(body));
    await compare(contestant, records, tokens);
    verified += tokens.length;
  }
  return verified;
}

/** The tokens of each record. @throws Error unless detokenize answers the records */
async function compare(contestant: Contestant, records: readonly Texts[], tokens: string[]) {
  const sent = JSON.stringify(records.flat());
  const isEcho = contestant.name === 'echo';
  if ((JSON.stringify(tokens) === sent) !== isEcho) throw new Error('tokenize answered the values');
  const size = records[0]!.length;
  const lists = records.map((_, i) => tokens.slice(i * size, (i + 1) * size));
  // The echo returns its input, so there is nothing to detokenize.
  if (!isEcho && JSON.stringify(await ask(contestant, 'detokenize', lists)) !== sent)
    throw new Error('detokenize answered other values than were tokenized');
  return lists;
}

/** The texts of the answer. */
async function ask(target: Contestant, operation: Operation, records: readonly Texts[]) {
  const { path, body, texts } = INTERFACES[target.speaks];
  const url = `${target.url}${path(operation)}`;
  return texts(operation, await post(url, headersOf(target), body(operation, records)));
}
