import type { Keyring } from '../crypto/keyring.ts';
import { InternalError } from '../errors.ts';
import { drawToken } from '../shape/token.ts';
import type { RecordStore } from '../store/records.ts';
import type { InsertOutcome, Token, TokenFingerprint, TokenMode, Value } from '../types.ts';
import type { EngineKeys } from './engine-keys.ts';
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
   * One token a value, in order; all records are durable when it resolves.
   * @param values distinct ones
   * @throws InternalError database_unavailable or token_space_exhausted, CallerError overloaded
   */
  async tokenize(values: readonly Value[], mode: TokenMode): Promise<readonly Token[]> {
    const drafts = values.map((value) => this.#draft(value, this.#source(value, mode), 0));
    let pending = drafts.map((_, i) => i);
    while (pending.length > 0) {
      const outcomes = await this.#store(pending.map((i) => drafts[i]!));
      pending = pending.filter((_, i) => outcomes[i] === 'collision');
      for (const i of pending) {
        const { value, source, draw } = drafts[i]!;
        drafts[i] = this.#draft(value, source, draw + 1);
      }
    }
    return drafts.map((draft) => draft.token);
  }

  /** Values stored a moment ago are looked up first: that spares the seal and the write. */
  async #store(drafts: readonly Draft[]): Promise<readonly InsertOutcome[]> {
    if (!drafts.every((draft) => this.#recent.has(draft.token_fingerprint))) {
      return this.#insert(drafts);
    }
    const holders = await this.#records.holders(drafts.map((draft) => draft.token_fingerprint));
    // Rare: the row of one was deleted, or another fingerprint looked the same.
    if (holders.includes(undefined)) return this.#insert(drafts);
    return drafts.map(({ source }, i) =>
      holders[i] === source.value_fingerprint ? 'stored' : 'collision',
    );
  }

  async #insert(drafts: readonly Draft[]): Promise<readonly InsertOutcome[]> {
    await this.#keys.readyToSeal();
    const records = drafts.map(({ value, token_fingerprint, source }) =>
      this.#keyring.seal(value, token_fingerprint, source.value_fingerprint),
    );
    const outcomes = await this.#records.insert(records);
    for (const { token_fingerprint } of drafts) this.#recent.add(token_fingerprint);
    return outcomes;
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
    const token_fingerprint = this.#keyring.tokenFingerprint(drawn.token);
    return { value, source, ...drawn, token_fingerprint };
  }
}
