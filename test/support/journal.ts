import { expect, onTestFinished } from 'vitest';
import { Random } from './random.ts';
import { call, type Place, type Service, until } from './service.ts';
import { detokenizeAll, sql } from './vault.ts';

/** A tokenized value whose 200 the caller has received. */
export interface Acknowledged {
  readonly value: string;
  readonly token: string;
}

/** Nodes on a vault. A test may replace a node while there is a load. */
export interface Nodes {
  readonly place: Place;
  readonly nodes: readonly Service[];
  readonly api_key: string;
}

const WRITERS = 6;
const VALUES = 5;
/** Values in requests that have no response yet. */
export const UNDER_WAY = WRITERS * VALUES;
/** One request in this many tokenizes values again that already have tokens. */
const REPEAT_EVERY = 8;
/** A dead service refuses at once. Without a pause, failing clients would load the machine. */
const PAUSE_AFTER_FAILURE_MS = 10;
let instances = 0;

/**
 * Concurrent clients that write and read without pause. They note every acknowledged token before
 * their next request, and check the promises of the service:
 * I1 every acknowledged token gives its value back (`verify`, and a sample during the load);
 * I2 no answer contains another value: each value is unique, and the clients check every answer;
 * I3 one value has one token, even if a client repeats a request whose outcome is unknown.
 * The clients use all nodes in turn, until the test ends. They continue after failures: a node may
 * end, and start again at another address.
 */
export class JournalledWriters {
  readonly #at: Nodes;
  readonly #random = new Random();
  readonly #pauseMs: number;
  readonly #done: Promise<unknown>;
  readonly #all: Acknowledged[] = [];
  #isOver = false;
  #turn = 0;
  /** Detokenized tokens during the load. */
  restored = 0;
  /** Connections that ended without an answer. */
  cuts = 0;
  /** Time of the slowest answer, measured by the client. */
  slowestMs = 0;
  /** Distinct answers other than 200. */
  readonly failures = new Set<string>();
  /** Broken promises: a wrong value, a second token, or an unknown acknowledged token. */
  readonly wrong: string[] = [];

  /** @param requestsPerS rate of all writers together, half of it tokenize */
  constructor(at: Nodes, requestsPerS = Infinity) {
    const instance = instances++;
    this.#at = at;
    this.#pauseMs = (2_000 * WRITERS) / requestsPerS;
    this.#done = Promise.all(
      Array.from({ length: WRITERS }, (_, i) => this.#write(`${instance} ${i}`)),
    );
    onTestFinished(() => this.stop());
  }

  /** Resolves after `count` more acknowledged tokens. */
  async progress(count: number): Promise<void> {
    const goal = this.acknowledged + count;
    await until(() => this.acknowledged >= goal, `${count} more acknowledged tokens`, 60_000);
  }

  async stop(): Promise<void> {
    this.#isOver = true;
    await this.#done;
  }

  /** All acknowledged tokens so far. */
  all(): Acknowledged[] {
    return [...this.#all];
  }

  get acknowledged(): number {
    return this.#all.length;
  }

  /** Ends after `count` more acknowledged tokens, and checks all of them, also in the tables. */
  async finish(count = 0, service?: Service): Promise<number> {
    await this.progress(count);
    await this.stop();
    await this.verifyRows();
    return this.verify(service);
  }

  /** Checks I1, I2 and I3 for all acknowledged tokens. Returns the number of tokens. */
  async verify(service = this.#at.nodes[0]!, apiKey = this.#at.api_key): Promise<number> {
    expect(this.wrong).toEqual([]);
    const tokens = new Map<string, string>();
    for (const { value, token } of this.#all) {
      expect(tokens.get(value) ?? token, `the token of ${value}`).toBe(token);
      tokens.set(value, token);
    }
    const restored = await detokenizeAll(service, [...tokens.values()], apiKey);
    expect(restored).toEqual([...tokens.keys()]);
    return tokens.size;
  }

  /** Checks I3 in the tables: no value has two rows, and each acknowledged token has one. */
  async verifyRows(): Promise<void> {
    const [count] = await sql(
      this.#at.place,
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
      // The outcome of a failed request is unknown, so the client repeats the request.
      if (answer !== undefined) {
        for (const [i, value] of values.entries()) this.#all.push({ value, token: answer[i]! });
        values = undefined;
      }
      await this.#compare('detokenize');
      if (n % REPEAT_EVERY === 0) await this.#compare('tokenize');
      nextMs = Math.max(nextMs + this.#pauseMs, performance.now());
      const pauseMs = answer === undefined ? PAUSE_AFTER_FAILURE_MS : nextMs - performance.now();
      if (pauseMs > 0) await new Promise((resolve) => setTimeout(resolve, pauseMs));
    }
  }

  /** The strings of a 200; undefined: any other outcome. */
  async #ask(operation: 'tokenize' | 'detokenize', texts: string[]): Promise<string[] | undefined> {
    const startedMs = performance.now();
    const { nodes, api_key } = this.#at;
    const node = nodes[this.#turn++ % nodes.length]!;
    const answer = await call(node, operation, { texts }, api_key).catch(() => undefined);
    if (answer === undefined) {
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

  /** Sends known tokens or values again, and compares what comes back. */
  async #compare(operation: 'tokenize' | 'detokenize'): Promise<void> {
    const known = this.#sample();
    if (known.length === 0) return;
    const [sent, wanted] =
      operation === 'tokenize' ? (['value', 'token'] as const) : (['token', 'value'] as const);
    const got = await this.#ask(
      operation,
      known.map((one) => one[sent]),
    );
    if (got === undefined) return;
    for (const [i, one] of known.entries())
      if (got[i] !== one[wanted])
        this.wrong.push(`${operation} of ${one[sent]} gave ${got[i]}, not ${one[wanted]}`);
    if (operation === 'detokenize') this.restored += got.length;
  }

  /** The newest, which another node may have just sealed, and some old ones. */
  #sample(): Acknowledged[] {
    const { length } = this.#all;
    const picked = Array.from({ length: VALUES }, () => this.#random.below(length));
    return length === 0 ? [] : [...new Set([length - 1, ...picked])].map((i) => this.#all[i]!);
  }
}
