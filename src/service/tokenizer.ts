import type { Draws, Keyring } from '../crypto/keyring.ts';
import type { Scope } from '../crypto/scope.ts';
import { InternalError, Unavailable } from '../errors.ts';
import type { Kind } from '../shape/kind.ts';
import { drawToken } from '../shape/token.ts';
import type { NewRecord, StoredRecord } from '../store/record-sql.ts';
import { outcomeOf, type RecordStore } from '../store/records.ts';
import { REQUEST_PATIENCE_MS, statementDeadline } from '../timeouts.ts';
import type {
  InsertOutcome,
  SealedRecord,
  Token,
  TokenFingerprint,
  TokenTerms,
  Value,
} from '../types.ts';
import { versionsOf } from './detokenizer.ts';
import type { LeasedKeyring } from './keys/leased-keyring.ts';
import { RecentlyOpened, RecentlyStored } from './recently-stored.ts';

/** How tokens are made of values. Without a kind: as without a policy. */
export interface ValueTerms extends TokenTerms {
  readonly kind?: Kind;
  readonly scope?: Scope | undefined;
}

/** A value with the token drawn for it. */
interface Draft {
  readonly value: Value;
  readonly terms: ValueTerms;
  readonly source: Draws;
  readonly draw: number;
  readonly token: Token;
  readonly token_fingerprint: TokenFingerprint;
}

/** The next step for a draft: nothing, draw another token, or store it again. */
type Step = 'done' | 'draw' | 'store';

/** Replaces values with tokens. */
export class Tokenizer {
  readonly #records: RecordStore;
  readonly #keys: LeasedKeyring;
  readonly #keyring: Keyring;
  readonly #suffix: string;
  readonly #onDamaged: (records: number) => void;
  readonly #recent = new RecentlyStored();
  readonly #opened = new RecentlyOpened();

  /** @param onDamaged called with the number of stored records that did not open */
  constructor(
    records: RecordStore,
    keys: LeasedKeyring,
    suffix: string,
    onDamaged: (records: number) => void,
  ) {
    this.#records = records;
    this.#onDamaged = onDamaged;
    this.#keys = keys;
    this.#keyring = keys.keyring;
    this.#suffix = suffix;
  }

  /**
   * Returns one token for each value, in order. When it resolves, all records are durable and open
   * with the keyring, and none expires before its time to live from this call.
   * @param values distinct values
   * @param terms of all values, or of each
   * @param deadlineMs a performance.now() time for all statements together
   * @throws InternalError database_unavailable, key_missing, record_damaged or
   * token_space_exhausted; CallerError overloaded
   */
  async tokenize(
    values: readonly Value[],
    terms: ValueTerms | readonly ValueTerms[],
    deadlineMs = performance.now() + REQUEST_PATIENCE_MS,
  ): Promise<readonly Token[]> {
    const drafts = values.map((value, i) => this.#first(value, isEach(terms) ? terms[i]! : terms));
    let pending = drafts.map((_, i) => i);
    while (pending.length > 0) {
      const asked = pending.map((i) => drafts[i]!);
      const outcomes = await this.#store(asked, deadlineMs);
      const steps = await this.#checked(asked, outcomes, deadlineMs);
      for (const [at, i] of pending.entries()) {
        if (steps[at] === 'draw') drafts[i] = this.#redraw(drafts[i]!);
      }
      pending = pending.filter((_, at) => steps[at] !== 'done');
      if (pending.length > 0 && performance.now() >= deadlineMs)
        throw new Unavailable(new Error('no time to draw or store again'));
    }
    return drafts.map((draft) => draft.token);
  }

  /**
   * Returns the token that each value has, in order; null without one. Stores nothing.
   * @param values distinct values, with deterministic terms
   * @throws InternalError as tokenize
   */
  async lookup(
    values: readonly Value[],
    terms: ValueTerms | readonly ValueTerms[],
    deadlineMs: number,
  ): Promise<readonly (Token | null)[]> {
    const found: (Token | null)[] = values.map(() => null);
    const drafts = values.map((value, i) => this.#first(value, isEach(terms) ? terms[i]! : terms));
    for (let pending = drafts.map((_, i) => i); pending.length > 0; ) {
      const stored = await this.#records.findDurable(
        pending.map((i) => drafts[i]!.token_fingerprint),
        statementDeadline(deadlineMs),
      );
      const others: number[] = [];
      for (const [at, i] of pending.entries()) {
        const draft = drafts[i]!;
        const row = stored[at];
        // The token of another value: this value may have a later draw.
        if (row && row.record.value_fingerprint !== draft.source.value_fingerprint) others.push(i);
        else if (row && (row.leftS ?? 1) > 0) found[i] = await this.#proved(draft, row, deadlineMs);
      }
      for (const i of others) drafts[i] = this.#redraw(drafts[i]!);
      pending = others;
    }
    return found;
  }

  /** The token of a record that opens. */
  async #proved(draft: Draft, { record }: StoredRecord, deadlineMs: number): Promise<Token> {
    const isKeyringKnown = await this.#keys.readyToOpen([record.key_version], deadlineMs);
    if (this.#has(record, draft)) return draft.token;
    this.#onDamaged(1);
    throw new InternalError(isKeyringKnown ? 'record_damaged' : 'key_missing');
  }

  /** Looks recently stored values up first, which saves the seal and the write. */
  async #store(drafts: readonly Draft[], deadlineMs: number): Promise<readonly InsertOutcome[]> {
    const fingerprints = drafts.map((draft) => draft.token_fingerprint);
    if (!fingerprints.every((fingerprint) => this.#recent.has(fingerprint)))
      return this.#insert(drafts, deadlineMs);
    const stored = await this.#records.findDurable(fingerprints, statementDeadline(deadlineMs));
    const outcomes = drafts.map(({ source, terms }, i) =>
      outcomeOf(stored[i], source.value_fingerprint, terms.time_to_live_s),
    );
    // Rarely some are not there: removed, about to expire, or another fingerprint looked the same.
    const areThere = outcomes.every((one) => one !== undefined);
    return areThere ? outcomes : this.#insert(drafts, deadlineMs);
  }

  async #insert(drafts: readonly Draft[], deadlineMs: number): Promise<readonly InsertOutcome[]> {
    if (!this.#keys.isLeased()) await this.#keys.readyToSeal(deadlineMs);
    const records = drafts.map((draft) => leased(this.#seal(draft), draft.terms));
    const outcomes = await this.#records.insert(records, null, statementDeadline(deadlineMs));
    if (outcomes.includes('key_retired'))
      await this.#keys.readyToSealAfter(records[0]!.key_version, deadlineMs);
    for (const { token_fingerprint: tokenFingerprint } of drafts)
      this.#recent.add(tokenFingerprint);
    return outcomes;
  }

  /** Opens each record that was already stored. Replaces a record that does not open. */
  async #checked(
    drafts: readonly Draft[],
    outcomes: readonly InsertOutcome[],
    deadlineMs: number,
  ): Promise<readonly Step[]> {
    const unproved = outcomes.filter((one) => typeof one === 'object' && !this.#opensStill(one));
    if (unproved.length === 0) return outcomes.map((outcome) => stepOf(outcome, true));
    const versions = versionsOf(unproved as SealedRecord[]);
    const isKeyringKnown = await this.#keys.readyToOpen(versions, deadlineMs);
    const opened = outcomes.map((one, i) => typeof one !== 'object' || this.#has(one, drafts[i]!));
    const dead = outcomes.flatMap((old, i) =>
      typeof old !== 'object' || opened[i] ? [] : [{ old, ...drafts[i]! }],
    );
    if (dead.length > 0) await this.#mend(dead, isKeyringKnown, deadlineMs);
    return outcomes.map((outcome, i) => stepOf(outcome, opened[i]!));
  }

  /** Whether the same bytes opened before, with a key that the keyring still has. */
  #opensStill(record: SealedRecord): boolean {
    return this.#keyring.hasVersion(record.key_version) && this.#opened.has(record);
  }

  #has(record: SealedRecord, { value, terms }: Draft): boolean {
    if (this.#opensStill(record)) return true;
    const opened = this.#keyring.open(record, terms.scope !== undefined);
    const isSame = 'value' in opened && opened.value === value && opened.scope === terms.scope;
    if (isSame) this.#opened.add(record);
    return isSame;
  }

  /** Seals the values again and replaces the damaged rows. */
  async #mend(
    dead: readonly (Draft & { readonly old: SealedRecord })[],
    isKeyringKnown: boolean,
    deadlineMs: number,
  ): Promise<void> {
    // The key may be new: another process may still open this record.
    if (!isKeyringKnown) throw new InternalError('key_missing');
    if (performance.now() >= deadlineMs) throw new InternalError('record_damaged');
    await this.#keys.readyToSeal(deadlineMs);
    const replacements = dead.map((draft) => ({ old: draft.old, fresh: this.#seal(draft) }));
    const mended = await this.#records.mend(replacements, statementDeadline(deadlineMs));
    this.#onDamaged(mended);
    // Another process replaced it first, or the key version was retired and there is a newer one.
    if (mended < dead.length) await this.#keys.lookAgain(deadlineMs);
  }

  #seal({ value, token_fingerprint: tokenFingerprint, source, terms }: Draft): SealedRecord {
    return this.#keyring.seal(value, tokenFingerprint, source.value_fingerprint, terms.scope);
  }

  #first(value: Value, terms: ValueTerms): Draft {
    const isRandom = terms.token_mode === 'random';
    const source = isRandom
      ? this.#keyring.randomDraws()
      : this.#keyring.deterministicDraws(value, terms.scope);
    return this.#draft(value, terms, source, 0);
  }

  #redraw({ value, terms, source, draw }: Draft): Draft {
    return this.#draft(value, terms, source, draw + 1);
  }

  /** @param from the first draw to try; earlier draws belong to other values */
  #draft(value: Value, terms: ValueTerms, source: Draws, from: number): Draft {
    const { kind, scope } = terms;
    const drawn = kind
      ? kind.drawToken(value, this.#suffix, source.draws, from)
      : drawToken(value, this.#suffix, source.draws, from);
    if (drawn === undefined) throw new InternalError('token_space_exhausted');
    const tokenFingerprint = this.#keyring.tokenFingerprint(drawn.token, scope?.spaceBytes);
    return { value, terms, source, ...drawn, token_fingerprint: tokenFingerprint };
  }
}

function leased(record: SealedRecord, { time_to_live_s: timeToLiveS }: ValueTerms): NewRecord {
  return timeToLiveS === null ? record : { ...record, time_to_live_s: timeToLiveS };
}

function isEach(terms: ValueTerms | readonly ValueTerms[]): terms is readonly ValueTerms[] {
  return Array.isArray(terms);
}

/**
 * @param opens whether a stored record opens; a replaced record is stored, and so checked, again
 */
function stepOf(outcome: InsertOutcome, opens: boolean): Step {
  if (outcome === 'collision') return 'draw';
  return outcome === 'key_retired' || !opens ? 'store' : 'done';
}
