import { CallerError } from '../errors.ts';
import type { Token, TokenMode, Value } from '../types.ts';
import type { License } from './license.ts';
import { ThreadClient } from './thread-client.ts';
import { CONTROL_CONNECTIONS } from './vault.ts';
import type { EngineData, EngineObserver, Operation, Texts } from './vault-engine.ts';

/** A larger call goes to the thread for large ones: it takes 0.5 ms and more. */
const MAX_SMALL_TEXTS = 64;
/** Beyond either, 503: about half a second of small requests, two seconds of large ones. */
const MAX_PENDING_CALLS = 5_000;
const MAX_PENDING_TEXTS = 100_000;

/**
 * Tokenize and detokenize for the HTTP side, done in two vault threads: one for small calls, one
 * for large ones, so that they hold up neither the event loop nor a small call
 * (docs/decisions/0008).
 */
export class VaultClient {
  readonly #small: ThreadClient;
  readonly #large: ThreadClient;
  readonly #license: License;
  #pending_calls = 0;
  #pending_texts = 0;

  constructor(data: EngineData, license: License, observer: EngineObserver) {
    const connections = data.vault.database_connections - CONTROL_CONNECTIONS;
    const for_large = Math.floor(connections / 2);
    const for_small = connections - for_large;
    this.#small = new ThreadClient({ engine: data, connections: for_small }, observer);
    this.#large = new ThreadClient({ engine: data, connections: for_large }, observer);
    this.#license = license;
  }

  /**
   * One token a value, in order; all records are durable when it resolves.
   * @throws InternalError, or CallerError overloaded
   */
  async tokenize(values: readonly Value[], mode: TokenMode): Promise<readonly Token[]> {
    this.#license.check();
    return (await this.#call(mode, values)) as readonly Token[];
  }

  /** One value a token, in order; undefined for a token that is not known. @throws as tokenize */
  async detokenize(tokens: readonly Token[]): Promise<readonly (Value | undefined)[]> {
    return (await this.#call('detokenize', tokens)) as readonly (Value | undefined)[];
  }

  async close(): Promise<void> {
    await Promise.all([this.#small.close(), this.#large.close()]);
  }

  async #call(operation: Operation, texts: readonly string[]): Promise<Texts> {
    if (this.#isFull(texts.length)) throw new CallerError('overloaded', '', 1);
    this.#pending_calls++;
    this.#pending_texts += texts.length;
    try {
      const thread = texts.length <= MAX_SMALL_TEXTS ? this.#small : this.#large;
      return await thread.call(operation, texts);
    } finally {
      this.#pending_calls--;
      this.#pending_texts -= texts.length;
    }
  }

  /** One call alone is always taken, however large: its size has a limit of its own. */
  #isFull(texts: number): boolean {
    if (this.#pending_calls === 0) return false;
    const too_many_texts = this.#pending_texts + texts > MAX_PENDING_TEXTS;
    return too_many_texts || this.#pending_calls >= MAX_PENDING_CALLS;
  }
}
