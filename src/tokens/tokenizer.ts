import type { TokenOptions } from '../client-settings.ts';
import type { DrawSource, Keyring, OpenedAlias } from '../crypto/keyring.ts';
import type { Scope } from '../crypto/scope.ts';
import { InternalError, Unavailable } from '../errors.ts';
import { drawToken, type Kind } from '../shape/kind.ts';
import type { NewRecord, StoredRecord } from '../store/record-sql.ts';
import { outcomeOf, type RecordStore } from '../store/records.ts';
import { statementDeadline, VAULT_TIMEOUT_MS } from '../timeouts.ts';
import type {
  FreshRecord,
  InsertOutcome,
  SealedRecord,
  Token,
  TokenFingerprint,
  Value,
} from '../types.ts';
import type { LeasedKeyring } from '../vault/leased-keyring.ts';
import { versionsOf } from './detokenizer.ts';
import { RecentlyOpened, RecentlyStored } from './recently-stored.ts';

/** How tokens are made of values. Without a kind: as without a policy. */
export interface ValueOptions extends TokenOptions {
  readonly kind?: Kind;
  readonly scope?: Scope | undefined;
}

/** A value with the token drawn for it. */
interface Draft {
  readonly value: Value;
  readonly terms: ValueOptions;
  readonly source: DrawSource;
  readonly draw: number;
  readonly token: Token;
  readonly token_fingerprint: TokenFingerprint;
  /** Whether the token came from another vault, with an alias at that draw. */
  readonly isImported?: boolean;
}

/** The content of a stored record: the value of its draft, an imported token, or neither. */
type Held = 'value' | 'damaged' | OpenedAlias;

/**
 * The next step for a draft: nothing, draw another token, store it again, or take the token of an
 * alias.
 */
type DraftStep = 'done' | 'draw' | 'store' | OpenedAlias;

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
    terms: ValueOptions | readonly ValueOptions[],
    deadlineMs = performance.now() + VAULT_TIMEOUT_MS,
  ): Promise<readonly Token[]> {
    const drafts = this.#drafts(values, terms);
    let pending = drafts.map((_, i) => i);
    while (pending.length > 0) {
      const asked = pending.map((i) => drafts[i]!);
      const outcomes = await this.#store(asked, deadlineMs);
      if (outcomes.every((one) => one === 'stored')) break;
      const steps = await this.#checked(asked, outcomes, deadlineMs);
      for (const [at, i] of pending.entries()) {
        drafts[i] = this.#next(drafts[i]!, steps[at]!);
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
    terms: ValueOptions | readonly ValueOptions[],
    deadlineMs: number,
  ): Promise<readonly (Token | null)[]> {
    const found: (Token | null)[] = values.map(() => null);
    const drafts = this.#drafts(values, terms);
    for (let pending = drafts.map((_, i) => i); pending.length > 0; ) {
      const stored = await this.#records.findDurable(
        pending.map((i) => drafts[i]!.token_fingerprint),
        statementDeadline(deadlineMs),
      );
      const others: number[] = [];
      for (const [at, i] of pending.entries()) {
        const row = stored[at];
        const step = row && (await this.#stepAt(drafts[i]!, row, deadlineMs));
        if (step === 'done') found[i] = drafts[i]!.token;
        else if (step !== undefined) {
          drafts[i] = this.#next(drafts[i]!, step);
          others.push(i);
        }
      }
      pending = others;
    }
    return found;
  }

  /** The next step of a look-up at a stored record. undefined: the value was removed. */
  async #stepAt(
    draft: Draft,
    { record, leftS }: StoredRecord,
    deadlineMs: number,
  ): Promise<DraftStep | undefined> {
    // The token of another value: this value may have a later draw.
    if (record.value_fingerprint !== draft.source.value_fingerprint) return 'draw';
    if (!((leftS ?? 1) > 0)) return undefined;
    const isKeyringKnown = await this.#keys.readyToOpen([record.key_version], deadlineMs);
    const held = this.#held(record, draft);
    if (held !== 'damaged') return stepOf(record, held);
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
    const outcomes = await this.#records.insert(records, statementDeadline(deadlineMs));
    if (outcomes.includes('key_retired'))
      await this.#keys.readyToSealAfter(records[0]!.key_id, deadlineMs);
    for (const { token_fingerprint: tokenFingerprint } of drafts)
      this.#recent.add(tokenFingerprint);
    return outcomes;
  }

  /** Opens each record that was already stored. Replaces a record that does not open. */
  async #checked(
    drafts: readonly Draft[],
    outcomes: readonly InsertOutcome[],
    deadlineMs: number,
  ): Promise<readonly DraftStep[]> {
    const versions = versionsOf(outcomes.filter((one) => typeof one === 'object'));
    const isKeyringKnown = await this.#keys.readyToOpen(versions, deadlineMs);
    const held = outcomes.map((one, i) =>
      typeof one === 'object' ? this.#held(one, drafts[i]!) : 'value',
    );
    const dead = outcomes.flatMap((old, i) =>
      typeof old === 'object' && held[i] === 'damaged' ? [{ old, ...drafts[i]! }] : [],
    );
    if (dead.length > 0) await this.#mend(dead, isKeyringKnown, deadlineMs);
    return outcomes.map((outcome, i) => stepOf(outcome, held[i]!));
  }

  /** Whether the same bytes opened before, with a key that the keyring still has. */
  #opensStill(record: SealedRecord): boolean {
    return this.#keyring.hasVersion(record.key_version) && this.#opened.has(record);
  }

  #held(record: SealedRecord, { value, terms, isImported }: Draft): Held {
    if (this.#opensStill(record)) return 'value';
    const opened = this.#keyring.open(record, terms.scope !== undefined);
    // No alias leads to an alias.
    if ('alias' in opened) return isImported ? 'damaged' : opened;
    const isSame = 'value' in opened && opened.value === value && opened.scope === terms.scope;
    if (isSame) this.#opened.add(record);
    return isSame ? 'value' : 'damaged';
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
    if (mended < dead.length) await this.#keys.refresh(deadlineMs);
  }

  #seal(draft: Draft): FreshRecord {
    const { value, token_fingerprint: tokenFingerprint, source, terms, token, isImported } = draft;
    const { value_fingerprint: valueFingerprint } = source;
    const imported = isImported ? token : undefined;
    return this.#keyring.seal(value, tokenFingerprint, valueFingerprint, terms.scope, imported);
  }

  #drafts(values: readonly Value[], asked: ValueOptions | readonly ValueOptions[]): Draft[] {
    return values.map((value, i) => {
      const terms = 'token_mode' in asked ? asked : asked[i]!;
      const isRandom = terms.token_mode === 'random';
      const source = isRandom
        ? this.#keyring.randomDraws()
        : this.#keyring.deterministicDraws(value, terms.scope);
      return this.#draft(value, terms, source, 0);
    });
  }

  #next(draft: Draft, step: DraftStep): Draft {
    const { value, terms, source, draw } = draft;
    if (step === 'draw') return this.#draft(value, terms, source, draw + 1);
    return typeof step === 'object' ? this.#imported(draft, step.alias) : draft;
  }

  /** The draft with the token that its value came with. If that is taken, the next draw follows. */
  #imported(draft: Draft, token: Token): Draft {
    const { spaceBytes } = draft.terms.scope ?? {};
    const tokenFingerprint = this.#keyring.tokenFingerprint(token, spaceBytes);
    return { ...draft, token, token_fingerprint: tokenFingerprint, isImported: true };
  }

  /** @param from the first draw to try; earlier draws belong to other values */
  #draft(value: Value, terms: ValueOptions, source: DrawSource, from: number): Draft {
    const { kind, scope } = terms;
    const draw = kind?.drawToken ?? drawToken;
    const drawn = draw(value, this.#suffix, source.draws, from);
    if (drawn === undefined) throw new InternalError('token_space_exhausted');
    const { token, draw: number } = drawn;
    const tokenFingerprint = this.#keyring.tokenFingerprint(token, scope?.spaceBytes);
    // A spread would cost 0.3 us.
    return { value, terms, source, draw: number, token, token_fingerprint: tokenFingerprint };
  }
}

function leased(record: FreshRecord, { time_to_live_s: timeToLiveS }: ValueOptions): NewRecord {
  return timeToLiveS === null ? record : { ...record, time_to_live_s: timeToLiveS };
}

/** @param held in a stored record; a replaced record is stored, and so checked, again */
function stepOf(outcome: InsertOutcome, held: Held): DraftStep {
  if (outcome === 'collision') return 'draw';
  if (outcome === 'key_retired' || held === 'damaged') return 'store';
  return held === 'value' ? 'done' : held;
}
