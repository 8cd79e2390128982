import { closeSync, fsyncSync, openSync, readFileSync, writeSync } from 'node:fs';
import { join } from 'node:path';
import { expect } from 'vitest';
import { type Answer, call, type Place, type Service, until } from './service.ts';
import { sql } from './sql.ts';

/** A tokenized value whose 200 has arrived. */
export interface Acknowledged {
  readonly value: string;
  readonly token: string;
}

export interface WritersOptions {
  /** Of all writers together, half of them tokenize; not set: as many as they can. */
  readonly requestsPerS?: number;
}

const WRITERS = 6;
const VALUES = 5;
/** Acknowledged tokens that are asked for again while writing; all of them are at the end. */
const REMEMBERED = 20_000;
/** One in so many requests tokenizes values again that have tokens already. */
const REPEAT_EVERY = 8;
/** A service that is gone refuses at once: without a pause its clients would only fail, and load the machine. */
const PAUSE_AFTER_FAILURE_MS = 10;
let instances = 0;

/**
 * Concurrent clients that write and read without pause, note every acknowledged token on disk before their next
 * request, and check what the service promises:
 * I1 every acknowledged token gives its value back (`verify`, and a sample while they write);
 * I2 no answer ever carries another value: each value is a canary of its own, each answer is looked at;
 * I3 one value has one token, also when it is sent again because the outcome was not known.
 * They go on over failures: the service may be gone, and come back elsewhere.
 */
export class JournalledWriters {
  readonly #file: string;
  readonly #fd: number;
  readonly #service: () => Service;
  readonly #apiKey: string;
  readonly #pauseMs: number;
  readonly #done: Promise<unknown>;
  readonly #remembered: Acknowledged[] = [];
  #isOver = false;
  acknowledged = 0;
  /** Tokens that were given back while writing. */
  restored = 0;
  /** Connections that ended without an answer. */
  cuts = 0;
  /** Of the slowest answer, as the client sees it. */
  slowestMs = 0;
  /** Answers other than 200, each once. */
  readonly failures = new Set<string>();
  /** What must never be: another value, another token, an acknowledged token that is not known. */
  readonly wrong: string[] = [];

  constructor(place: Place, service: () => Service, apiKey: string, options: WritersOptions = {}) {
    const instance = instances++;
    this.#file = join(place.folder, `journal-${instance}`);
    this.#fd = openSync(this.#file, 'a');
    this.#service = service;
    this.#apiKey = apiKey;
    const { requestsPerS } = options;
    this.#pauseMs = requestsPerS === undefined ? 0 : (2_000 * WRITERS) / requestsPerS;
    this.#done = Promise.all(
      Array.from({ length: WRITERS }, (_, i) => this.#write(`${instance} ${i}`)),
    );
  }

  /** Resolves when `count` more tokens were acknowledged. */
  async progress(count: number): Promise<void> {
    const goal = this.acknowledged + count;
    await until(() => this.acknowledged >= goal, `${count} more acknowledged tokens`, 60_000);
  }

  /** From now on; for the answers to one fault among several. */
  forgetSlowest(): void {
    this.slowestMs = 0;
  }

  async stop(): Promise<void> {
    if (this.#isOver) return;
    this.#isOver = true;
    await this.#done;
    closeSync(this.#fd);
  }

  /** What was acknowledged until now. */
  all(): Acknowledged[] {
    const lines = readFileSync(this.#file, 'utf8').trimEnd().split('\n');
    return lines.map((line) => JSON.parse(line) as Acknowledged);
  }

  /** I1, I2 and I3 of all that was acknowledged. Returns how many tokens that are. */
  async verify(service: Service, apiKey: string): Promise<number> {
    expect(this.wrong).toEqual([]);
    const tokens = new Map<string, string>();
    for (const { value, token } of this.all()) {
      expect(tokens.get(value) ?? token, `the token of ${value}`).toBe(token);
      tokens.set(value, token);
    }
    const pairs = [...tokens];
    for (let i = 0; i < pairs.length; i += 5_000) {
      const part = pairs.slice(i, i + 5_000);
      const asked = { a: part.map(([, token]) => token) };
      const answer = await call(service, 'detokenize', asked, apiKey);
      expect(answer.status, JSON.stringify(answer.body).slice(0, 200)).toBe(200);
      expect(answer.body.data.a).toEqual(part.map(([value]) => value));
    }
    return pairs.length;
  }

  /** I3 in the tables: no value has two rows, and each acknowledged token has one. */
  async verifyRows(place: Place): Promise<void> {
    const [count] = await sql(
      place,
      'select count(*) as n, count(distinct value_fingerprint) as distinct_n from standin.records',
    );
    expect(count!.n).toBe(count!.distinct_n);
    expect(Number(count!.n)).toBeGreaterThanOrEqual(this.acknowledged);
  }

  async #write(name: string): Promise<void> {
    let nextMs = performance.now();
    let values: string[] | undefined;
    for (let n = 0; !this.#isOver; n++) {
      values ??= Array.from({ length: VALUES }, (_, i) => `writer ${name} value ${n}.${i}`);
      const answer = await this.#ask('tokenize', values);
      // The outcome of a request that failed is not known: the caller sends it again.
      if (answer !== undefined) {
        this.#note(values, answer);
        values = undefined;
      }
      await this.#restore();
      if (n % REPEAT_EVERY === 0) await this.#repeat();
      nextMs = Math.max(nextMs + this.#pauseMs, performance.now());
      const pauseMs = answer === undefined ? PAUSE_AFTER_FAILURE_MS : nextMs - performance.now();
      if (pauseMs > 0) await new Promise((resolve) => setTimeout(resolve, pauseMs));
    }
  }

  /** The texts of a 200; undefined after any other end. */
  async #ask(operation: 'tokenize' | 'detokenize', texts: string[]): Promise<string[] | undefined> {
    const startedMs = performance.now();
    let answer: Answer;
    try {
      answer = await call(this.#service(), operation, { texts }, this.#apiKey);
    } catch {
      this.cuts++;
      return undefined;
    }
    this.slowestMs = Math.max(this.slowestMs, performance.now() - startedMs);
    if (answer.status === 200) return answer.body.data.texts;
    const failure = `${answer.status} ${JSON.stringify(answer.body)}`;
    this.failures.add(failure);
    if (answer.status === 400) this.wrong.push(`${operation}: ${failure}`);
    return undefined;
  }

  async #restore(): Promise<void> {
    const asked = this.#sample();
    if (asked.length === 0) return;
    const values = await this.#ask(
      'detokenize',
      asked.map(({ token }) => token),
    );
    asked.forEach(({ value, token }, i) => {
      if (values !== undefined && values[i] !== value)
        this.wrong.push(`${token} gave ${values[i]}, not ${value}`);
    });
    this.restored += values?.length ?? 0;
  }

  async #repeat(): Promise<void> {
    const asked = this.#sample();
    if (asked.length === 0) return;
    const tokens = await this.#ask(
      'tokenize',
      asked.map(({ value }) => value),
    );
    asked.forEach(({ value, token }, i) => {
      if (tokens !== undefined && tokens[i] !== token)
        this.wrong.push(`${value} got ${tokens[i]} after ${token}`);
    });
  }

  #sample(): Acknowledged[] {
    const { length } = this.#remembered;
    const picked = new Set(
      Array.from({ length: Math.min(VALUES, length) }, () => Math.floor(Math.random() * length)),
    );
    return [...picked].map((i) => this.#remembered[i]!);
  }

  #note(values: readonly string[], tokens: readonly string[]): void {
    const pairs = values.map((value, i) => ({ value, token: tokens[i]! }));
    writeSync(this.#fd, pairs.map((pair) => `${JSON.stringify(pair)}\n`).join(''));
    fsyncSync(this.#fd);
    for (const pair of pairs) {
      const isFull = this.#remembered.length === REMEMBERED;
      this.#remembered[isFull ? Math.floor(Math.random() * REMEMBERED) : this.#remembered.length] =
        pair;
    }
    this.acknowledged += values.length;
  }
}
