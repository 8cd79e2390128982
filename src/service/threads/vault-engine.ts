import type { VaultOptions } from '../../options.ts';
import type { Pool } from '../../store/pool.ts';
import { Timeline } from '../../store/primary.ts';
import { RecordStore } from '../../store/records.ts';
import { REQUEST_PATIENCE_MS, statementDeadline } from '../../timeouts.ts';
import type { Token, TokenTerms, Value } from '../../types.ts';
import { Detokenizer } from '../detokenizer.ts';
import { EngineKeys } from '../keys/engine-keys.ts';
import { type KeyNews, monotonicMs } from '../keys/key-news.ts';
import { openPool } from '../pools.ts';
import { Tokenizer } from '../tokenizer.ts';
import type { Call } from './thread-messages.ts';

/** The data to build a vault engine from. A thread can receive it as a message. */
export interface EngineData {
  readonly vault: VaultOptions;
  readonly keys: KeyNews;
  /** The shared memory of a Timeline. */
  readonly timeline: SharedArrayBuffer;
}

/** Events of an engine besides its answers. */
export interface EngineObserver {
  batch(statement: 'insert' | 'find', records: number): void;
  damaged(records: number): void;
  /** The engine lacks a key, or its keys are old. It waits for `renew`. */
  keysWanted(): void;
}

/** Tokenize on a client's terms, detokenize, or find the sizes of values. */
export type Operation = TokenTerms | 'detokenize' | 'sizes';

/** Results in the order of the texts: undefined for an unknown token, null for a forgotten one. */
export type Results = readonly (string | number | null | undefined)[];

/** Runs tokenize and detokenize on its own database connections. */
export class VaultEngine {
  readonly #pool: Pool;
  readonly #keys: EngineKeys;
  readonly #tokenizer: Tokenizer;
  readonly #detokenizer: Detokenizer;

  constructor(data: EngineData, connections: number, observer: EngineObserver) {
    const { vault, keys, timeline } = data;
    this.#keys = new EngineKeys(keys, observer.keysWanted);
    this.#pool = openPool(vault, connections, new Timeline(timeline));
    const records = new RecordStore(this.#pool, {
      patienceMs: REQUEST_PATIENCE_MS,
      onBatch: observer.batch,
    });
    this.#tokenizer = new Tokenizer(records, this.#keys, vault.token_suffix, observer.damaged);
    this.#detokenizer = new Detokenizer(records, this.#keys, observer.damaged);
  }

  renew(news: KeyNews): void {
    this.#keys.take(news);
  }

  reconnect(): void {
    this.#pool.reconnect();
  }

  /**
   * Returns one result for each text, in order.
   * @throws InternalError, or CallerError overloaded
   */
  call({ operation, texts, bytes, deadlineMs }: Omit<Call, 'id'>): Promise<Results> {
    // performance.now() of this thread differs from that of the caller's thread.
    const byMs = statementDeadline(performance.now() + deadlineMs - monotonicMs());
    if (operation === 'detokenize')
      return this.#detokenizer.detokenize(texts as Token[], bytes, byMs);
    if (operation === 'sizes') return this.#detokenizer.sizes(texts as Token[], byMs);
    return this.#tokenizer.tokenize(texts as Value[], operation, byMs);
  }
}
