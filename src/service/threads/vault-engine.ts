import { RecordStore } from '../../store/records.ts';
import type { Token, TokenTerms, Value } from '../../types.ts';
import { Detokenizer } from '../detokenizer.ts';
import { EngineKeys } from '../keys/engine-keys.ts';
import type { KeyNews } from '../keys/key-feed.ts';
import { Tokenizer } from '../tokenizer.ts';
import { openPool, REQUEST_PATIENCE_MS, type VaultOptions } from '../vault.ts';

/** What a vault engine is made of; can be cloned to a thread. */
export interface EngineData {
  readonly vault: VaultOptions;
  readonly keys: KeyNews;
}

/** What an engine tells besides answers. */
export interface EngineObserver {
  batch(statement: 'insert' | 'find', records: number): void;
  damaged(records: number): void;
  /** A record needs a key that the engine lacks, or its keys are old: `renew` is awaited. */
  keysWanted(): void;
}

/** Tokenize on the terms of a client, or detokenize. */
export type Operation = TokenTerms | 'detokenize';

/** Of an answer: undefined for a token that is not known. */
export type Texts = readonly (string | undefined)[];

/** Shape, cryptography and records, with connections of their own. */
export class VaultEngine {
  readonly #keys: EngineKeys;
  readonly #tokenizer: Tokenizer;
  readonly #detokenizer: Detokenizer;

  constructor({ vault, keys }: EngineData, connections: number, observer: EngineObserver) {
    this.#keys = new EngineKeys(keys, observer.keysWanted);
    const records = new RecordStore(openPool(vault, connections), {
      patience_ms: REQUEST_PATIENCE_MS,
      onBatch: observer.batch,
    });
    this.#tokenizer = new Tokenizer(records, this.#keys, vault.token_suffix);
    this.#detokenizer = new Detokenizer(records, this.#keys, observer.damaged);
  }

  renew(news: KeyNews): void {
    this.#keys.take(news);
  }

  /** One text a text, in order. @throws InternalError, or CallerError overloaded */
  call(operation: Operation, texts: readonly string[]): Promise<Texts> {
    return operation === 'detokenize'
      ? this.#detokenizer.detokenize(texts as Token[])
      : this.#tokenizer.tokenize(texts as Value[], operation);
  }
}
