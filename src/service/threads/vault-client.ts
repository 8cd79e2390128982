import { CallerError } from '../../errors.ts';
import { monotonicMs, REQUEST_PATIENCE_MS } from '../../timeouts.ts';
import type { Token, TokenTerms, Value } from '../../types.ts';
import type { KeySnapshot } from '../keys/keyring-follower.ts';
import { CONTROL_CONNECTIONS } from '../pools.ts';
import { mostValueBytes } from '../value-bytes.ts';
import { QueueDelay } from './queue-delay.ts';
import { ThreadClient } from './thread-client.ts';
import { type Call, isPiece } from './thread-messages.ts';
import type { EngineData, EngineObserver, Operation, Results } from './vault-engine.ts';

/** Cryptography takes about 10 us a text, so a small call waits at most 2.5 ms for a piece. */
const PIECE_TEXTS = 250;
/** Each thread works on eight pieces at once, each in memory as bytes, text and message. */
const PIECE_BYTES = 1_048_576;
/**
 * Beyond either bound, calls get 503. The bounds are about 0.5 s of small requests, or 2 s of large
 * ones.
 */
const MAX_PENDING_CALLS = 5_000;
const MAX_PENDING_TEXTS = 100_000;

/** Decides whether tokenize may write now, and learns of failed writes. */
export interface Writes {
  /** @throws InternalError */
  check(): void;
  failed(error: unknown): void;
}
/** The most bytes that the value of a text can have. */
type Weigh = (text: string) => number;

type Piece = Pick<Call, 'texts' | 'bytes'>;

/** The deadline of a request that starts now: a time of monotonicMs. */
export function requestDeadline(): number {
  return monotonicMs() + REQUEST_PATIENCE_MS;
}

/**
 * Runs tokenize and detokenize in two vault threads, off the event loop that serves HTTP
 * (docs/decisions/0008). Small calls share the first thread, so that they fill its statements
 * together. Large calls are cut into pieces, and each piece goes to the less busy thread.
 */
export class VaultClient {
  readonly #first: ThreadClient;
  readonly #second: ThreadClient;
  readonly #writes: Writes;
  /** Measures small calls only. Large calls run beside them. */
  readonly #delay = new QueueDelay(performance.now());
  #pendingCalls = 0;
  #pendingTexts = 0;

  constructor(engine: EngineData, writes: Writes, observer: EngineObserver) {
    const connections = engine.vault.databaseConnections - CONTROL_CONNECTIONS;
    const ofSecond = Math.floor(connections / 2);
    this.#first = new ThreadClient({ engine, connections: connections - ofSecond }, observer);
    this.#second = new ThreadClient({ engine, connections: ofSecond }, observer);
    this.#writes = writes;
  }

  /**
   * Returns one token for each value, in order. All records are durable when the promise resolves.
   * Equal values in a call share a token.
   * @throws InternalError, or CallerError overloaded
   */
  async tokenize(values: readonly Value[], terms: TokenTerms): Promise<readonly Token[]> {
    this.#writes.check();
    try {
      return (await this.#call(terms, values, lengthOf)) as readonly Token[];
    } catch (error) {
      this.#writes.failed(error);
      throw error;
    }
  }

  /**
   * See Detokenizer.detokenize.
   * @param sizes byte lengths of the values, if known
   * @param deadlineMs from requestDeadline, if the request has already made a call
   * @throws as tokenize
   */
  detokenize(
    tokens: readonly Token[],
    sizes?: readonly number[],
    deadlineMs?: number,
  ): Promise<readonly (Value | null | undefined)[]> {
    const byToken = sizes && new Map<string, number>(tokens.map((token, i) => [token, sizes[i]!]));
    const weigh: Weigh = byToken ? (token) => byToken.get(token)! : mostValueBytes;
    return this.#call('detokenize', tokens, weigh, deadlineMs) as Promise<
      (Value | null | undefined)[]
    >;
  }

  /**
   * See Detokenizer.sizes.
   * @throws as tokenize
   */
  sizes(
    tokens: readonly Token[],
    deadlineMs?: number,
  ): Promise<readonly (number | null | undefined)[]> {
    return this.#call('sizes', tokens, () => 0, deadlineMs) as Promise<
      (number | null | undefined)[]
    >;
  }

  /** Passes newer keys to the threads. */
  renew(news: KeySnapshot): void {
    this.#first.renew(news);
    this.#second.renew(news);
  }

  /**
   * Replaces the connections of the threads. After the database was unsafe, sessions keep the
   * unsafe settings that they began with.
   */
  reconnect(): void {
    this.#first.reconnect();
    this.#second.reconnect();
  }

  /** Whether a call that arrives now would wait so long that refusing it is better. */
  isOverloaded(nowMs: number): boolean {
    return this.#delay.isTooLong(nowMs);
  }

  async close(): Promise<void> {
    await Promise.all([this.#first.close(), this.#second.close()]);
  }

  async #call(
    operation: Operation,
    texts: readonly string[],
    weigh: Weigh,
    deadlineMs = requestDeadline(),
  ): Promise<Results> {
    if (this.#isFull(texts.length)) throw new CallerError('overloaded', '', 1);
    this.#pendingCalls++;
    this.#pendingTexts += texts.length;
    try {
      const distinct = [...new Set(texts)];
      const results = await this.#ask(operation, distinct, weigh, deadlineMs);
      if (distinct.length === texts.length) return results;
      const byText = new Map(distinct.map((text, i) => [text, results[i]]));
      return texts.map((text) => byText.get(text));
    } finally {
      this.#pendingCalls--;
      this.#pendingTexts -= texts.length;
    }
  }

  async #ask(
    operation: Operation,
    texts: readonly string[],
    weigh: Weigh,
    deadlineMs: number,
  ): Promise<Results> {
    let bytes = 0;
    for (const text of texts) bytes += weigh(text);
    if (isPiece({ texts, bytes }))
      return this.#askInPieces(operation, cut(texts, weigh), deadlineMs);
    this.#delay.begin(performance.now());
    try {
      return await this.#first.call({ operation, texts, bytes, deadlineMs });
    } finally {
      this.#delay.end(performance.now());
    }
  }

  async #askInPieces(
    operation: Operation,
    pieces: readonly Piece[],
    deadlineMs: number,
  ): Promise<Results> {
    const results = pieces.map((piece) => {
      const isFirstIdler = this.#first.pendingTexts < this.#second.pendingTexts;
      const thread = isFirstIdler ? this.#first : this.#second;
      const result = thread.call({ operation, ...piece, deadlineMs });
      // The failure is thrown below. Until then Node must not report it as unhandled.
      result.catch(() => {});
      return result;
    });
    return (await Promise.all(results)).flat();
  }

  /**
   * A call is always accepted when no other is pending, however large: its size has its own limit.
   */
  #isFull(texts: number): boolean {
    if (this.#pendingCalls === 0) return false;
    const tooManyTexts = this.#pendingTexts + texts > MAX_PENDING_TEXTS;
    return tooManyTexts || this.#pendingCalls >= MAX_PENDING_CALLS;
  }
}

function cut(texts: readonly string[], weigh: Weigh): Piece[] {
  const pieces: Piece[] = [];
  let from = 0;
  let bytes = 0;
  texts.forEach((text, i) => {
    const weight = weigh(text);
    if (i - from === PIECE_TEXTS || (i > from && bytes + weight > PIECE_BYTES)) {
      pieces.push({ texts: texts.slice(from, i), bytes });
      from = i;
      bytes = 0;
    }
    bytes += weight;
  });
  pieces.push({ texts: texts.slice(from), bytes });
  return pieces;
}

function lengthOf(text: string): number {
  return text.length;
}
