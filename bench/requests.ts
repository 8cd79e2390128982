import { readFileSync } from 'node:fs';
import { freshData } from './bodies.ts';
import type { Source } from './job.ts';

/** `data` of a request and of its answer, as JSON. */
export interface Request {
  readonly sent: string;
  /** undefined: not known in advance. */
  readonly expected: string | undefined;
}

export type Next = () => Request;

/** Number of the next fresh record. */
export interface Counter {
  next: number;
}

export function requests(source: Source, counter: Counter): Next {
  if (source.kind === 'fresh') {
    return () => {
      const sent = freshData(counter.next, source.records);
      counter.next += source.records;
      return { sent, expected: undefined };
    };
  }
  const pairs = readPairs(source.file);
  return () => pairs[Math.floor(Math.random() * pairs.length)]!;
}

const files = new Map<string, readonly Request[]>();

function readPairs(file: string): readonly Request[] {
  let pairs = files.get(file);
  if (pairs === undefined) {
    const written: [string, string][] = JSON.parse(readFileSync(file, 'latin1'));
    pairs = written.map(([sent, expected]) => ({ sent, expected }));
    files.set(file, pairs);
  }
  return pairs;
}
