import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { listData } from './bodies.ts';
import type { Contestant } from './contestants.ts';
import type { JobResult, Operation } from './job.ts';
import { asPeer, callPeer } from './peers.ts';

/** Files of a contestant for the generator. See Source. */
export interface Prepared {
  /** Tokens from before the measurements, and their values. */
  readonly tokensFile: string;
  /** Stored values, and their tokens. The load repeats the same values. */
  readonly repeatedFile: string;
}

/** `data` with values, and `data` with tokens, as JSON. */
export type Pair = readonly [string, string];

const REQUESTS = 10;
const RECORDS_PER_REQUEST = 1_000;
const REPEATED_RECORDS = 3_333;

/** The preparation uses the records below this number. */
export const FIRST_FRESH_RECORD = REQUESTS * RECORDS_PER_REQUEST;

/**
 * Tokenizes the values for later loads, detokenizes all tokens, and compares.
 * @throws Error if a contestant does not return the right values
 */
export async function prepare(contestant: Contestant, folder: string): Promise<Prepared> {
  const numbers = Array.from({ length: FIRST_FRESH_RECORD }, (_, i) => i);
  const pairs = await makePairs(contestant, numbers);
  const tokensFile = join(folder, `${contestant.name}-tokens.json`);
  const repeatedFile = join(folder, `${contestant.name}-repeated.json`);
  writeTokens(tokensFile, pairs);
  writeFileSync(repeatedFile, JSON.stringify(pairs.slice(0, REPEATED_RECORDS)));
  return { tokensFile, repeatedFile };
}

/** Writes a file of [data of tokens, data of values] for the generator. */
export function writeTokens(file: string, pairs: readonly Pair[]): void {
  writeFileSync(file, JSON.stringify(pairs.map(([values, tokens]) => [tokens, values])));
}

/** Tokenizes records, detokenizes all tokens, and compares. */
export async function makePairs(
  contestant: Contestant,
  numbers: readonly number[],
): Promise<Pair[]> {
  const pairs: Pair[] = [];
  // One request at a time, because a slow machine answers 500 after a few seconds of waiting.
  for (let from = 0; from < numbers.length; from += RECORDS_PER_REQUEST) {
    const part = numbers.slice(from, from + RECORDS_PER_REQUEST);
    pairs.push(...(await makePairsOfRequest(contestant, part)));
  }
  return pairs;
}

async function makePairsOfRequest(
  contestant: Contestant,
  numbers: readonly number[],
): Promise<Pair[]> {
  const data = JSON.parse(listData(numbers));
  const tokenized = await call(contestant, 'tokenize', data);
  await verify(contestant, [[data, tokenized]]);
  return data.records.map((record: unknown, i: number) => [
    JSON.stringify(record),
    JSON.stringify(tokenized.records[i]),
  ]);
}

/**
 * Detokenizes the answer of tokenize, and compares the result with the sent values.
 * @returns the number of tokens
 */
export async function verify(
  contestant: Contestant,
  samples: JobResult['samples'],
): Promise<number> {
  let tokens = 0;
  for (const [sent, answered] of samples) {
    const sentText = JSON.stringify(sent);
    const isSame = JSON.stringify(answered) === sentText;
    if (isSame !== (contestant.name === 'echo')) {
      throw new Error(`${contestant.name}: tokenize answered the values`);
    }
    // The echo returns its input, so there is nothing to detokenize.
    const restored =
      contestant.name === 'echo' ? sent : await call(contestant, 'detokenize', answered);
    if (JSON.stringify(restored) !== sentText) {
      throw new Error(`${contestant.name}: detokenize answered other values than were tokenized`);
    }
    tokens += (answered as any).records?.length ?? 1;
  }
  return tokens * 3;
}

/** @returns `data` of the answer */
async function call(contestant: Contestant, operation: Operation, data: unknown): Promise<any> {
  const peer = asPeer(contestant.name);
  if (peer !== undefined) {
    return callPeer(peer, contestant.url, contestant.api_key, operation, data);
  }
  const response = await fetch(`${contestant.url}/api/v1/${operation}`, {
    method: 'POST',
    headers: {
      authorization: `Bearer ${contestant.api_key}`,
      'content-type': 'application/json',
    },
    body: JSON.stringify({ data }),
  });
  if (response.status !== 200) {
    throw new Error(`${contestant.name}: ${operation} answered ${response.status}`);
  }
  const answer: any = await response.json();
  return answer.data;
}
