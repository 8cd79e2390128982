import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { listData, VALUES_PER_RECORD, WIDE_FIELDS } from './bodies.ts';
import { Connection } from './connection.ts';
import type { Contestant } from './contestants.ts';
import { answerText, isSuccess, requestText } from './interfaces.ts';
import type { JobResult, Operation } from './job.ts';

/** Files of a contestant for the generator. See Source. */
export interface Prepared {
  /** Tokens from before the measurements, and their values. */
  readonly tokensFile: string;
  /** Stored values, and their tokens. The load repeats the same values. */
  readonly repeatedFile: string;
}

/** The preparation uses records below this number, in so many requests at most. */
export const FIRST_FRESH_RECORD = 10_000;
const REQUESTS = 100;
const REPEATED_RECORDS = 3_333;
/** What a request may have by default: 10,000 values, or 100 of another product. */
const MOST_RECORDS = 1_000;
const MOST_RECORDS_OF_PEERS = 30;

export function mostRecords({ peer }: Contestant): number {
  return peer === undefined ? MOST_RECORDS : MOST_RECORDS_OF_PEERS;
}

/**
 * Tokenizes the records of these numbers, detokenizes all tokens, and compares. Writes the pairs
 * for the generator.
 * @throws Error if a contestant does not return the right values
 */
export async function prepare(
  contestant: Contestant,
  folder: string,
  numberOf: (i: number) => number = (i) => i,
): Promise<Prepared> {
  const pairs: [values: string, tokens: string][] = [];
  const records = mostRecords(contestant);
  const length = Math.min(FIRST_FRESH_RECORD, REQUESTS * records);
  const numbers = Array.from({ length }, (_, i) => numberOf(i));
  // One request at a time, because a slow machine answers 500 after a few seconds of waiting.
  for (let from = 0; from < numbers.length; from += records) {
    const data = JSON.parse(
      listData(numbers.slice(from, from + records), contestant.isWide === true),
    );
    const tokenized = await call(contestant, 'tokenize', data);
    await verify(contestant, [[data, tokenized]]);
    for (const [i, values] of data.records.entries()) {
      pairs.push([JSON.stringify(values), JSON.stringify(tokenized.records[i])]);
    }
  }
  const name = `${contestant.name}-${process.hrtime.bigint()}`;
  const tokensFile = join(folder, `${name}-tokens.json`);
  const repeatedFile = join(folder, `${name}-repeated.json`);
  writeFileSync(tokensFile, JSON.stringify(pairs.map(([values, tokens]) => [tokens, values])));
  writeFileSync(repeatedFile, JSON.stringify(pairs.slice(0, REPEATED_RECORDS)));
  return { tokensFile, repeatedFile };
}

/**
 * Detokenizes the answer of tokenize, and compares the result with the sent values.
 * @returns the number of tokens
 */
export async function verify(
  contestant: Contestant,
  samples: JobResult['samples'],
): Promise<number> {
  let records = 0;
  const isEcho = contestant.name === 'echo';
  for (const [sent, answered] of samples) {
    const sentText = JSON.stringify(sent);
    if ((JSON.stringify(answered) === sentText) !== isEcho) {
      throw new Error(`${contestant.title}: tokenize answered the values`);
    }
    // The echo returns its input, so there is nothing to detokenize.
    const restored = isEcho ? sent : await call(contestant, 'detokenize', answered);
    if (JSON.stringify(restored) !== sentText) {
      throw new Error(`${contestant.title}: detokenize answered other values than were tokenized`);
    }
    records += (answered as any).records?.length ?? 1;
  }
  return records * (contestant.isWide ? Object.keys(WIDE_FIELDS).length : VALUES_PER_RECORD);
}

/** @returns `data` of the answer */
async function call(contestant: Contestant, operation: Operation, data: unknown): Promise<any> {
  const sent = JSON.stringify(data);
  const connection = new Connection(contestant.url);
  const { status, body } = await connection.ask(requestText(contestant, operation, sent));
  connection.close();
  const answer = answerText(contestant, operation, sent, body);
  if (isSuccess(contestant.peer, status) && answer !== '') return JSON.parse(answer).data;
  throw new Error(`${contestant.title}: ${operation}: ${status} ${body}`);
}
