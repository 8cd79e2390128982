import { CallerError } from '../../errors.ts';
import { REQUEST_PATIENCE_MS } from '../../timeouts.ts';
import type { Token, TokenTerms, Value } from '../../types.ts';
import { type KeyNews, monotonicMs } from '../keys/key-news.ts';
import { CONTROL_CONNECTIONS } from '../pools.ts';
import { mostValueBytes } from '../value-bytes.ts';
import { QueueDelay } from './queue-delay.ts';
import { ThreadClient } from './thread-client.ts';
import { type Call, isPiece } from './thread-messages.ts';
import type { EngineData, EngineObserver, Operation, Results } from './vault-engine.ts';

/** At about 10 us of cryptography a text, a small call waits for 2.5 ms at most. */
const PIECE_TEXTS = 250;
/** Eight pieces a thread are under way at once, each in memory as bytes, text and message. */
const PIECE_BYTES = 1_048_576;
/** Beyond either, 503: about half a second of small requests, two seconds of large ones. */
const MAX_PENDING_CALLS = 5_000;
const MAX_PENDING_TEXTS = 100_000;

/** What decides whether values are taken now, and learns how it went. */
export interface Writes {
  /** @throws InternalError */
  check(): void;
  failed(error: unknown): void;
}
/** How many bytes the value of a text has, at most. */
type Weigh = (text: string) => number;

type Piece = Pick<Call, 'texts' | 'bytes'>;

/** By when a request is to be answered that begins now: a time of monotonicMs. */
export function requestDeadline(): number {
  return monotonicMs() + REQUEST_PATIENCE_MS;
}

/**
 * Tokenize and detokenize for the HTTP side, done in two vault threads, so that they do not hold up
 * its event loop (docs/decisions/0008). Small calls share one, whose statements they fill together;
 * large ones are cut in pieces that go to whichever has less to do.
 */
export class VaultClient {
  readonly #first: ThreadClient;
  readonly #second: ThreadClient;
  readonly #writes: Writes;
  /** Of small calls: large ones are begun beside them. */
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
   * One token a value, in order; all records are durable when it resolves. Equal values of a call
   * share a token.
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
   * As Detokenizer.detokenize.
   * @param sizes of the values, where they are known
   * @param deadlineMs of requestDeadline, where the request has asked before
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
   * As Detokenizer.sizes.
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

  /** Gives the threads newer keys. */
  renew(news: KeyNews): void {
    this.#first.renew(news);
    this.#second.renew(news);
  }

  /** The database was unsafe, and its sessions keep what was so when they began. */
  reconnect(): void {
    this.#first.reconnect();
    this.#second.reconnect();
  }

  /** Whether what comes now would wait so long that it is better refused at once. */
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
      // A failure is thrown below; until then it must not count as unhandled.
      result.catch(() => {});
      return result;
    });
    return (await Promise.all(results)).flat();
  }

  /** One call alone is always taken, however large: its size has a limit of its own. */
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
