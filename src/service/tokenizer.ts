import type { Keyring } from '../crypto/keyring.ts';
import { InternalError } from '../errors.ts';
import { drawToken } from '../shape/token.ts';
import type { RecordStore } from '../store/records.ts';
import type { SealedRecord, Token, TokenMode, Value } from '../types.ts';
import { inPieces } from './pieces.ts';

/** A value on its way to a token that is its own. */
interface Draft {
  readonly value: Value;
  readonly source: ReturnType<Keyring['randomDraws']>;
  readonly draw: number;
  readonly token: Token;
  readonly record: SealedRecord;
}

/** Replaces values by tokens. */
export class Tokenizer {
  readonly #records: RecordStore;
  readonly #keyring: Keyring;
  readonly #suffix: string;

  constructor(records: RecordStore, keyring: Keyring, suffix: string) {
    this.#records = records;
    this.#keyring = keyring;
    this.#suffix = suffix;
  }

  /**
   * One token a value, in order; all records are durable when it resolves. Equal values of a call
   * share a token.
   * @throws InternalError database_unavailable or token_space_exhausted, CallerError overloaded
   */
  async tokenize(values: readonly Value[], mode: TokenMode): Promise<readonly Token[]> {
    const distinct = [...new Set(values)];
    const tokens = await inPieces(distinct, (piece) => this.#tokenizeDistinct(piece, mode));
    if (distinct.length === values.length) return tokens;
    const by_value = new Map(distinct.map((value, i) => [value, tokens[i]!]));
    return values.map((value) => by_value.get(value)!);
  }

  async #tokenizeDistinct(values: readonly Value[], mode: TokenMode): Promise<Token[]> {
    const drafts = values.map((value) => this.#draft(value, this.#source(value, mode), 0));
    let pending = drafts.map((_, i) => i);
    while (pending.length > 0) {
      const outcomes = await this.#records.insert(pending.map((i) => drafts[i]!.record));
      pending = pending.filter((_, i) => outcomes[i] === 'collision');
      for (const i of pending) {
        const { value, source, draw } = drafts[i]!;
        drafts[i] = this.#draft(value, source, draw + 1);
      }
    }
    return drafts.map((draft) => draft.token);
  }

  #source(value: Value, mode: TokenMode): Draft['source'] {
    return mode === 'random'
      ? this.#keyring.randomDraws()
      : this.#keyring.deterministicDraws(value);
  }

  /** @param from the first draw to try: those before it stand for other values */
  #draft(value: Value, source: Draft['source'], from: number): Draft {
    const drawn = drawToken(value, this.#suffix, source.draws, from);
    if (drawn === undefined) throw new InternalError('token_space_exhausted');
    const record = this.#keyring.seal(value, drawn.token, source.value_fingerprint);
    return { value, source, ...drawn, record };
  }
}
