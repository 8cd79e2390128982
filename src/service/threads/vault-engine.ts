import type { VaultOptions } from '../../options.ts';
import type { Pool } from '../../store/pool.ts';
import { RecordStore } from '../../store/records.ts';
import { Timeline } from '../../store/timeline.ts';
import { REQUEST_PATIENCE_MS } from '../../timeouts.ts';
import type { Token, TokenTerms, Value } from '../../types.ts';
import { Detokenizer } from '../detokenizer.ts';
import { EngineKeys } from '../keys/engine-keys.ts';
import { type KeyNews, monotonicMs } from '../keys/key-news.ts';
import { openPool } from '../pools.ts';
import { Tokenizer } from '../tokenizer.ts';
import type { Call } from './thread-messages.ts';

/** What a vault engine is made of; can be cloned to a thread. */
export interface EngineData {
  readonly vault: VaultOptions;
  readonly keys: KeyNews;
  /** Of a Timeline. */
  readonly timeline: SharedArrayBuffer;
}

/** What an engine tells besides answers. */
export interface EngineObserver {
  batch(statement: 'insert' | 'find', records: number): void;
  damaged(records: number): void;
  /** A record needs a key that the engine lacks, or its keys are old: `renew` is awaited. */
  keysWanted(): void;
}

/** Tokenize on the terms of a client, detokenize, or the sizes of the values of tokens. */
export type Operation = TokenTerms | 'detokenize' | 'sizes';

/** Of an answer: undefined for a token that is not known, null for one that was forgotten. */
export type Results = readonly (string | number | null | undefined)[];

/** For a call that is late because its process stood still. */
const LEAST_PATIENCE_MS = 500;

/** Shape, cryptography and records, with connections of their own. */
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

  /** One result a text, in order. @throws InternalError, or CallerError overloaded */
  call({ operation, texts, bytes, deadlineMs }: Omit<Call, 'id'>): Promise<Results> {
    // On the clock of this thread.
    const byMs = performance.now() + Math.max(deadlineMs - monotonicMs(), LEAST_PATIENCE_MS);
    if (operation === 'detokenize')
      return this.#detokenizer.detokenize(texts as Token[], bytes, byMs);
    if (operation === 'sizes') return this.#detokenizer.sizes(texts as Token[], byMs);
    return this.#tokenizer.tokenize(texts as Value[], operation, byMs);
  }
}
