import type { Keyring } from '../crypto/keyring.ts';
import { InternalError } from '../errors.ts';
import { drawToken } from '../shape/token.ts';
import { outcomeOf } from '../store/holder.ts';
import type { RecordStore } from '../store/records.ts';
import type { InsertOutcome, Token, TokenFingerprint, TokenTerms, Value } from '../types.ts';
import type { EngineKeys } from './keys/engine-keys.ts';
import { RecentlyStored } from './recently-stored.ts';

/** A value on its way to a token that is its own. */
interface Draft {
  readonly value: Value;
  readonly source: ReturnType<Keyring['randomDraws']>;
  readonly draw: number;
  readonly token: Token;
  readonly token_fingerprint: TokenFingerprint;
}

/** Replaces values by tokens. */
export class Tokenizer {
  readonly #records: RecordStore;
  readonly #keys: EngineKeys;
  readonly #keyring: Keyring;
  readonly #suffix: string;
  readonly #recent = new RecentlyStored();

  constructor(records: RecordStore, keys: EngineKeys, suffix: string) {
    this.#records = records;
    this.#keys = keys;
    this.#keyring = keys.keyring;
    this.#suffix = suffix;
  }

  /**
   * One token a value, in order; all records are durable when it resolves, and known for their
   * time to live from this call on.
   * @param values distinct ones
   * @throws InternalError database_unavailable or token_space_exhausted, CallerError overloaded
   */
  async tokenize(values: readonly Value[], terms: TokenTerms): Promise<readonly Token[]> {
    const drafts = values.map((value) => this.#draft(value, this.#source(value, terms), 0));
    let pending = drafts.map((_, i) => i);
    while (pending.length > 0) {
      const outcomes = await this.#store(
        pending.map((i) => drafts[i]!),
        terms,
      );
      pending = pending.filter((_, i) => outcomes[i] === 'collision');
      for (const i of pending) {
        const { value, source, draw } = drafts[i]!;
        drafts[i] = this.#draft(value, source, draw + 1);
      }
    }
    return drafts.map((draft) => draft.token);
  }

  /** Values stored a moment ago are looked up first: that spares the seal and the write. */
  async #store(drafts: readonly Draft[], terms: TokenTerms): Promise<readonly InsertOutcome[]> {
    if (!drafts.every((draft) => this.#recent.has(draft.token_fingerprint))) {
      return this.#insert(drafts, terms);
    }
    const holders = await this.#records.holders(drafts.map((draft) => draft.token_fingerprint));
    const outcomes = drafts.map(({ source }, i) =>
      outcomeOf(holders[i], source.value_fingerprint, terms.time_to_live_s),
    );
    const is_stored = (outcome: InsertOutcome | undefined) => outcome !== undefined;
    // Else rare: one was removed, ends too early, or another fingerprint looked the same.
    return outcomes.every(is_stored) ? outcomes : this.#insert(drafts, terms);
  }

  async #insert(drafts: readonly Draft[], terms: TokenTerms): Promise<readonly InsertOutcome[]> {
    await this.#keys.readyToSeal();
    const records = drafts.map(({ value, token_fingerprint, source }) =>
      this.#keyring.seal(value, token_fingerprint, source.value_fingerprint),
    );
    const outcomes = await this.#records.insert(records, terms.time_to_live_s);
    for (const { token_fingerprint } of drafts) this.#recent.add(token_fingerprint);
    return outcomes;
  }

  #source(value: Value, { token_mode }: TokenTerms): Draft['source'] {
    return token_mode === 'random'
      ? this.#keyring.randomDraws()
      : this.#keyring.deterministicDraws(value);
  }

  /** @param from the first draw to try: those before it stand for other values */
  #draft(value: Value, source: Draft['source'], from: number): Draft {
    const drawn = drawToken(value, this.#suffix, source.draws, from);
    if (drawn === undefined) throw new InternalError('token_space_exhausted');
    const token_fingerprint = this.#keyring.tokenFingerprint(drawn.token);
    return { value, source, ...drawn, token_fingerprint };
  }
}
