import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { freshRecord, freshRecords, type Texts } from './bodies.ts';
import { Connection } from './connection.ts';
import type { Contestant } from './contestants.ts';
import { adapterOf, isSuccess, type Operation, requestHead } from './interfaces.ts';
import type { JobResult, Request } from './load.ts';

/** Files of a contestant for the generator. See Source. */
export interface Prepared {
  /** Tokens from before the measurements. */
  readonly tokensFile: string;
  /** Stored values. The load repeats the same values. */
  readonly repeatedFile: string;
}

/** The preparation uses records below this number, in so many requests at most. */
export const FIRST_FRESH_RECORD = 10_000;
const REQUESTS = 100;
const REPEATED_RECORDS = 3_333;
/** What a request may have by default: 10,000 values, or 100 of another product. */
export const MOST_RECORDS = 1_000;
const MOST_RECORDS_OF_PEERS = 30;

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
  const most = contestant.peer === undefined ? MOST_RECORDS : MOST_RECORDS_OF_PEERS;
  const length = Math.min(FIRST_FRESH_RECORD, REQUESTS * most);
  const records = Array.from({ length }, (_, i) =>
    freshRecord(numberOf(i), contestant.isWide === true),
  );
  const tokens: Texts[] = [];
  // One request at a time, because a slow machine answers 500 after a few seconds of waiting.
  for (let from = 0; from < length; from += most) {
    const some = records.slice(from, from + most);
    const made = await ask(contestant, 'tokenize', some);
    await compare(contestant, some, made);
    const { length: size } = some[0]!;
    tokens.push(...some.map((_, i) => made.slice(i * size, (i + 1) * size)));
  }
  const { body, expected } = adapterOf(contestant.peer);
  const name = `${contestant.name}-${process.hrtime.bigint()}`;
  const write = (operation: Operation, sent: readonly Texts[], answered: readonly Texts[]) => {
    const file = join(folder, `${name}-${operation}.json`);
    const requests = sent.map(
      (texts, i): Request => [body(operation, [texts]), expected(operation, answered[i]!)],
    );
    writeFileSync(file, JSON.stringify(requests));
    return file;
  };
  const repeated = records.slice(0, REPEATED_RECORDS);
  return {
    tokensFile: write('detokenize', tokens, records),
    repeatedFile: write('tokenize', repeated, tokens),
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
    const tokens = adapterOf(contestant.peer).texts('tokenize', JSON.parse(body));
    await compare(contestant, records, tokens);
    verified += tokens.length;
  }
  return verified;
}

async function compare(contestant: Contestant, records: readonly Texts[], tokens: string[]) {
  const sent = JSON.stringify(records.flat());
  const isEcho = contestant.name === 'echo';
  if ((JSON.stringify(tokens) === sent) !== isEcho) {
    throw new Error(`${contestant.title}: tokenize answered the values`);
  }
  // The echo returns its input, so there is nothing to detokenize.
  if (isEcho) return;
  const size = records[0]!.length;
  const lists = records.map((_, i) => tokens.slice(i * size, (i + 1) * size));
  if (JSON.stringify(await ask(contestant, 'detokenize', lists)) !== sent) {
    throw new Error(`${contestant.title}: detokenize answered other values than were tokenized`);
  }
}

/** The texts of the answer. */
async function ask(contestant: Contestant, operation: Operation, records: readonly Texts[]) {
  const { url, peer, title } = contestant;
  const { body, texts } = adapterOf(peer);
  const sent = body(operation, records);
  const connection = new Connection(url);
  const answer = await connection.ask(
    `${requestHead(contestant, operation)}${sent.length}\r\n\r\n${sent}`,
  );
  connection.close();
  if (isSuccess(peer, answer.status)) return texts(operation, JSON.parse(answer.body));
  throw new Error(`${title}: ${operation}: ${answer.status} ${answer.body}`);
}
