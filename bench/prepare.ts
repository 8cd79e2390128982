import type { Contestant, Prepared } from './contestants.ts';
import { freshRecords, INTERFACES, type Operation, post, type Texts } from './interfaces.ts';
import type { JobResult, Request } from './load.ts';

/** The preparation uses records below this number, in requests that a slow machine answers in time. */
export const FIRST_FRESH_RECORD = 10_000;
const RECORDS_A_REQUEST = 100;
const REPEATED_RECORDS = 3_333;

/**
 * Tokenizes the records of these numbers, detokenizes all tokens, and compares. Makes the requests
 * for the generator.
 * @throws Error if a contestant does not return the right values
 */
export async function prepare(
  contestant: Contestant,
  numberOf: (i: number) => number = (i) => i,
): Promise<Prepared> {
  const numbers = Array.from({ length: FIRST_FRESH_RECORD }, (_, i) => numberOf(i));
  const records = numbers.flatMap((number) => freshRecords(number, 1, contestant.isWide));
  const tokens: Texts[] = [];
  for (let from = 0; from < records.length; from += RECORDS_A_REQUEST) {
    const some = records.slice(from, from + RECORDS_A_REQUEST);
    const made = await ask(contestant, 'tokenize', some);
    tokens.push(...(await compare(contestant, some, made)));
  }
  const { body, expected } = INTERFACES[contestant.speaks];
  const requests = (operation: Operation, sent: readonly Texts[], answered: readonly Texts[]) =>
    sent.map((texts, i): Request => [body(operation, [texts]), expected(answered[i]!)]);
  return {
    detokenize: requests('detokenize', tokens, records),
    repeat: requests('tokenize', records.slice(0, REPEATED_RECORDS), tokens),
  };
}

/**
 * Detokenizes sampled answers of tokenize, and compares the results with what was sent.
 * @param count records of each request
 * @returns the number of tokens
 */
export async function verify(contestant: Contestant, { samples }: JobResult, count: number) {
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
  return texts(operation, await post(target, path(operation), body(operation, records)));
}
