import { CallerError } from '../../errors.ts';
import type { Token, TokenTerms, Value } from '../../types.ts';
import type { KeyNews } from '../keys/key-feed.ts';
import type { License } from '../license.ts';
import { CONTROL_CONNECTIONS } from '../vault.ts';
import { QueueDelay } from './queue-delay.ts';
import { ThreadClient } from './thread-client.ts';
import { MAX_SMALL_TEXTS } from './thread-messages.ts';
import type { EngineData, EngineObserver, Operation, Texts } from './vault-engine.ts';

/** At about 10 us of cryptography a text, a small call waits for 2.5 ms at most. */
const PIECE_TEXTS = 250;
/** Beyond either, 503: about half a second of small requests, two seconds of large ones. */
const MAX_PENDING_CALLS = 5_000;
const MAX_PENDING_TEXTS = 100_000;

/**
 * Tokenize and detokenize for the HTTP side, done in two vault threads, so that they do not hold up
 * its event loop (docs/decisions/0008). Small calls share one, whose statements they fill together;
 * large ones are cut in pieces that go to whichever has less to do.
 */
export class VaultClient {
  readonly #first: ThreadClient;
  readonly #second: ThreadClient;
  readonly #license: License;
  /** Of small calls: large ones are begun beside them. */
  readonly #delay = new QueueDelay(performance.now());
  #pending_calls = 0;
  #pending_texts = 0;

  constructor(engine: EngineData, license: License, observer: EngineObserver) {
    const connections = engine.vault.database_connections - CONTROL_CONNECTIONS;
    const of_second = Math.floor(connections / 2);
    this.#first = new ThreadClient({ engine, connections: connections - of_second }, observer);
    this.#second = new ThreadClient({ engine, connections: of_second }, observer);
    this.#license = license;
  }

  /**
   * One token a value, in order; all records are durable when it resolves. Equal values of a call
   * share a token.
   * @param terms those of the caller; what else it has does not cross threads
   * @throws InternalError, or CallerError overloaded
   */
  async tokenize(values: readonly Value[], terms: TokenTerms): Promise<readonly Token[]> {
    this.#license.check();
    const { token_mode, time_to_live_s } = terms;
    return (await this.#call({ token_mode, time_to_live_s }, values)) as readonly Token[];
  }

  /** As Detokenizer.detokenize. @throws as tokenize */
  async detokenize(tokens: readonly Token[]): Promise<readonly (Value | null | undefined)[]> {
    return (await this.#call('detokenize', tokens)) as readonly (Value | null | undefined)[];
  }

  /** Gives the threads newer keys. */
  renew(news: KeyNews): void {
    this.#first.renew(news);
    this.#second.renew(news);
  }

  /** Whether what comes now would wait so long that it is better refused at once. */
  isOverloaded(now_ms: number): boolean {
    return this.#delay.isTooLong(now_ms);
  }

  async close(): Promise<void> {
    await Promise.all([this.#first.close(), this.#second.close()]);
  }

  async #call(operation: Operation, texts: readonly string[]): Promise<Texts> {
    if (this.#isFull(texts.length)) throw new CallerError('overloaded', '', 1);
    this.#pending_calls++;
    this.#pending_texts += texts.length;
    try {
      const distinct = [...new Set(texts)];
      const answers = await this.#ask(operation, distinct);
      if (distinct.length === texts.length) return answers;
      const by_text = new Map(distinct.map((text, i) => [text, answers[i]]));
      return texts.map((text) => by_text.get(text));
    } finally {
      this.#pending_calls--;
      this.#pending_texts -= texts.length;
    }
  }

  #ask(operation: Operation, texts: readonly string[]): Promise<Texts> {
    return texts.length <= MAX_SMALL_TEXTS
      ? this.#askAtOnce(operation, texts)
      : this.#askInPieces(operation, texts);
  }

  async #askAtOnce(operation: Operation, texts: readonly string[]): Promise<Texts> {
    this.#delay.begin(performance.now());
    try {
      return await this.#first.call(operation, texts);
    } finally {
      this.#delay.end(performance.now());
    }
  }

  async #askInPieces(operation: Operation, texts: readonly string[]): Promise<Texts> {
    const pieces: Promise<Texts>[] = [];
    for (let from = 0; from < texts.length; from += PIECE_TEXTS) {
      const is_first_idler = this.#first.pending_texts < this.#second.pending_texts;
      const thread = is_first_idler ? this.#first : this.#second;
      const piece = thread.call(operation, texts.slice(from, from + PIECE_TEXTS));
      // A failure is thrown below; until then it must not count as unhandled.
      piece.catch(() => {});
      pieces.push(piece);
    }
    return (await Promise.all(pieces)).flat();
  }

  /** One call alone is always taken, however large: its size has a limit of its own. */
  #isFull(texts: number): boolean {
    if (this.#pending_calls === 0) return false;
    const too_many_texts = this.#pending_texts + texts > MAX_PENDING_TEXTS;
    return too_many_texts || this.#pending_calls >= MAX_PENDING_CALLS;
  }
}
