import { Keyring, type PlainKey } from '../crypto/keyring.ts';
import { RecordStore } from '../store/records.ts';
import type { Token, TokenTerms, Value } from '../types.ts';
import { Detokenizer } from './detokenizer.ts';
import { Tokenizer } from './tokenizer.ts';
import { openPool, REQUEST_PATIENCE_MS, type VaultOptions } from './vault.ts';

/** What a vault engine is made of; can be cloned to a thread. */
export interface EngineData {
  readonly vault: VaultOptions;
  readonly keys: readonly PlainKey[];
}

/** What an engine tells besides answers. */
export interface EngineObserver {
  batch(statement: 'insert' | 'find', records: number): void;
  damaged(records: number): void;
}

/** Tokenize on the terms of a client, or detokenize. */
export type Operation = TokenTerms | 'detokenize';

/** Of an answer: undefined for a token that is not known. */
export type Texts = readonly (string | undefined)[];

/** Shape, cryptography and records, with connections of their own. */
export class VaultEngine {
  readonly #tokenizer: Tokenizer;
  readonly #detokenizer: Detokenizer;

  constructor({ vault, keys }: EngineData, connections: number, observer: EngineObserver) {
    const keyring = new Keyring(keys);
    const records = new RecordStore(openPool(vault, connections), {
      patience_ms: REQUEST_PATIENCE_MS,
      onBatch: observer.batch,
    });
    this.#tokenizer = new Tokenizer(records, keyring, vault.token_suffix);
    this.#detokenizer = new Detokenizer(records, keyring, observer.damaged);
  }

  /** One text a text, in order. @throws InternalError, or CallerError overloaded */
  call(operation: Operation, texts: readonly string[]): Promise<Texts> {
    return operation === 'detokenize'
      ? this.#detokenizer.detokenize(texts as Token[])
      : this.#tokenizer.tokenize(texts as Value[], operation);
  }
}
