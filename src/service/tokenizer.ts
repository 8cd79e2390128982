import type { Keyring } from '../crypto/keyring.ts';
import { InternalError } from '../errors.ts';
import { drawToken } from '../shape/token.ts';
import type { RecordStore } from '../store/records.ts';
import type { SealedRecord, Token, TokenMode, Value } from '../types.ts';
import { inSlices } from './slices.ts';

/** A distinct value on its way to a token that is its own. */
interface Draft {
  readonly value: Value;
  readonly source: ReturnType<Keyring['randomDraws']>;
  draw: number;
  token: Token;
  record: SealedRecord;
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

  /** One token a value, in order; all records are durable when it resolves. Equal values of a call share a token. */
  async tokenize(values: readonly Value[], mode: TokenMode): Promise<Token[]> {
    const drafts = new Map<Value, Draft>();
    await inSlices([...new Set(values)], (value) => {
      drafts.set(value, this.#draft(value, mode));
    });
    let pending = [...drafts.values()];
    while (pending.length > 0) {
      const outcomes = await this.#records.insert(pending.map((draft) => draft.record));
      pending = pending.filter((_, i) => outcomes[i] === 'collision');
      for (const draft of pending) this.#redraw(draft);
    }
    return values.map((value) => drafts.get(value)!.token);
  }

  #draft(value: Value, mode: TokenMode): Draft {
    const source =
      mode === 'random' ? this.#keyring.randomDraws() : this.#keyring.deterministicDraws(value);
    return { value, source, ...this.#drawn(value, source, 0) };
  }

  /** The token already stands for another value: the next draw. */
  #redraw(draft: Draft): void {
    Object.assign(draft, this.#drawn(draft.value, draft.source, draft.draw + 1));
  }

  #drawn(
    value: Value,
    source: Draft['source'],
    from: number,
  ): Pick<Draft, 'draw' | 'token' | 'record'> {
    const drawn = drawToken(value, this.#suffix, source.draws, from);
    if (drawn === undefined) throw new InternalError('token_space_exhausted');
    const record = this.#keyring.seal(value, drawn.token, source.value_fingerprint);
    return { ...drawn, record };
  }
}
