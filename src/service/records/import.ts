import { setTimeout as sleep } from 'node:timers/promises';
import { InternalError } from '../../errors.ts';
import { PolicyRules } from '../../policy/rules.ts';
import type { Drawn } from '../../shape/token.ts';
import { allowedOr } from '../../store/database-error.ts';
import type { PolicyStore } from '../../store/policies.ts';
import type { NewRecord, StoredRecord } from '../../store/record-sql.ts';
import { RecordStore } from '../../store/records.ts';
import { COMMAND_PATIENCE_MS, commandDeadline } from '../../timeouts.ts';
import type { SealedRecord, TokenFingerprint } from '../../types.ts';
import type { KeyringFollower } from '../keys/keyring-follower.ts';
import { POLICY_LEASE_MS, policyOf } from '../policy-follower.ts';
import type { Vault } from '../vault.ts';
import { FilePairs, type Fit } from './file-pairs.ts';
import {
  type Draft,
  draftOf,
  isRefusal,
  type Pair,
  type PairTerms,
  type Refusal,
  refusal,
} from './pairs.ts';
import { persistently } from './record-pass.ts';

export { isRefusal, type Pair, type Refusal };

export interface Imported {
  /** Whether the vault, or an earlier line, had the pair before. */
  readonly isKnown: boolean;
  /** Whether deterministic clients get this token for its value. */
  readonly isGiven: boolean;
}

export interface ImportOptions extends Pick<PairTerms, 'suffix'> {
  /** Whether nothing is written. The pairs are then also compared with each other. */
  readonly isDryRun: boolean;
  readonly stop: AbortSignal;
}

/** The row of the vault; 'stored': there was none, and so it was written. */
type Found = StoredRecord | 'stored';

/** Stores values under the tokens of another vault (docs/decisions/0023). */
export class Importer {
  readonly #records: RecordStore;
  readonly #terms: PairTerms;
  readonly #follower: KeyringFollower;
  readonly #options: ImportOptions;
  readonly #seen = new FilePairs();
  readonly #policies: PolicyStore;
  #isMarked = false;
  readonly #placing = new Turns();
  readonly #leading = new Turns();

  private constructor(
    { pool, keyring, policies }: Vault,
    rules: PolicyRules,
    follower: KeyringFollower,
    options: ImportOptions,
  ) {
    this.#terms = { ...options, keyring, rules };
    this.#policies = policies;
    this.#follower = follower;
    this.#options = options;
    const patienceMs = COMMAND_PATIENCE_MS;
    this.#records = new RecordStore(pool, { patienceMs, onBatch: () => {} });
  }

  /** @param follower started: it finds key versions that other processes add */
  static async open(
    vault: Vault,
    follower: KeyringFollower,
    options: ImportOptions,
  ): Promise<Importer> {
    const newest = await vault.policies.newest(commandDeadline());
    follower.subscribe(({ keys }) => vault.keyring.renew(keys));
    return new Importer(vault, new PolicyRules(newest && policyOf(newest)), follower, options);
  }

  /**
   * Stores the pairs, in order with those of earlier calls: of pairs that exclude each other, the
   * first one counts. When it resolves, all pairs without a Refusal are durable.
   * @throws InternalError when the database is away for long, or the keys cannot be read
   */
  async take(pairs: readonly Pair[]): Promise<(Imported | Refusal)[]> {
    const checked = pairs.map((pair) => draftOf(pair, this.#terms));
    const drafts = checked.filter((one): one is Draft => !isRefusal(one));
    const fits = drafts.map((draft) => this.#fitOf(draft));
    const found = await this.#placing.run(() => this.#place(drafts));
    await this.#knowKeysOf(found);
    const verdicts = drafts.map((draft, i) => this.#verdict(draft, found[i]!, fits[i]));
    const leading = drafts.filter((draft, i) => {
      const mayLead = !isRefusal(verdicts[i]!) && fits[i]?.isFirst !== false;
      return mayLead && isLeading(draft, found[i]!);
    });
    const given = await this.#leading.run(() => this.#lead(leading));
    const results = drafts.map((draft, i): Imported | Refusal => {
      const verdict = verdicts[i]!;
      if (isRefusal(verdict)) return verdict;
      return { isKnown: verdict.isKnown, isGiven: given.has(draft) };
    });
    return checked.map((one) => (isRefusal(one) ? one : results.shift()!));
  }

  /** undefined: the vault itself tells, because earlier pairs are in it. */
  #fitOf({ token_fingerprint: fingerprint, source, value, scope, line, drawn }: Draft) {
    if (!this.#options.isDryRun) return undefined;
    const { keyring } = this.#terms;
    const own = drawn === undefined ? keyring.deterministicDraws(value, scope) : source;
    return this.#seen.add(fingerprint, own.value_fingerprint, line);
  }

  /** Writes the pairs whose tokens have no row yet, or a removed one of the same value. */
  async #place(drafts: readonly Draft[]): Promise<Found[]> {
    const { isDryRun, suffix } = this.#options;
    if (isDryRun) return this.#rowsAt(drafts.map((draft) => draft.token_fingerprint));
    const hasBare = !this.#isMarked && drafts.some(({ token }) => !token.endsWith(`_${suffix}`));
    if (hasBare) await this.#markBareTokens();
    const outcomes = await this.#written(drafts, this.#sealed, (records, deadlineMs) =>
      this.#records.insert(records, null, deadlineMs),
    );
    const rivals = drafts.filter((_, i) => outcomes[i] === 'collision');
    const rows = await this.#rowsAt(rivals.map((draft) => draft.token_fingerprint));
    return outcomes.map((outcome) => {
      if (outcome === 'collision') return rows.shift()!;
      return outcome === 'stored' ? outcome : { record: outcome as SealedRecord, leftS: null };
    });
  }

  /** Before the first token without the suffix, each node must count guesses at such tokens. */
  async #markBareTokens(): Promise<void> {
    const { stop } = this.#options;
    const isNew = await allowedOr(
      "The user of DATABASE_URL may not import tokens without the suffix of this vault. Run the command as the owner of the vault's tables.",
      persistently(stop, () => this.#policies.addBareTokens(commandDeadline())),
    );
    this.#isMarked = true;
    if (isNew) await sleep(POLICY_LEASE_MS, undefined, { signal: stop });
  }

  readonly #sealed = (draft: Draft): NewRecord => {
    const { value, token, token_fingerprint: fingerprint, source, scope, drawn } = draft;
    // What this vault draws itself needs no token beside it.
    const imported = drawn?.token === token ? undefined : token;
    const { keyring } = this.#terms;
    const record = keyring.seal(value, fingerprint, source.value_fingerprint, scope, imported);
    const { time_to_live_s: timeToLiveS } = draft;
    return timeToLiveS === null ? record : { ...record, time_to_live_s: timeToLiveS };
  };

  /** Seals again with a newer primary when the key version was retired meanwhile. */
  async #written<Item, Outcome>(
    items: readonly Item[],
    seal: (item: Item) => NewRecord,
    write: (records: readonly NewRecord[], deadlineMs: number) => Promise<readonly Outcome[]>,
  ): Promise<readonly Exclude<Outcome, 'key_retired'>[]> {
    const { keyring } = this.#terms;
    if (items.length === 0) return [];
    for (;;) {
      const { primaryVersion } = keyring;
      const records = items.map(seal);
      const attempt = () => write(records, commandDeadline());
      const outcomes = await persistently(this.#options.stop, attempt);
      if (!outcomes.includes('key_retired' as Outcome))
        return outcomes as Exclude<Outcome, 'key_retired'>[];
      await this.#follower.look();
      if (keyring.primaryVersion === primaryVersion) throw new InternalError('key_missing');
    }
  }

  async #rowsAt(fingerprints: readonly TokenFingerprint[]): Promise<Found[]> {
    const rows = await persistently(this.#options.stop, () =>
      this.#records.findDurable(fingerprints, commandDeadline()),
    );
    const found = rows.map((row) => row ?? 'stored');
    await this.#knowKeysOf(found);
    return found;
  }

  /** Another process may seal with a key version that was added since. */
  async #knowKeysOf(found: readonly Found[]): Promise<void> {
    const { keyring } = this.#terms;
    const isNew = (one: Found) => one !== 'stored' && !keyring.hasVersion(one.record.key_version);
    if (found.some(isNew)) await this.#follower.look();
  }

  /**
   * Leads tokenize from the tokens that would be drawn to those of the drafts. Never changes a row.
   * Returns the drafts whose tokens their values get from now on.
   */
  async #lead(drafts: readonly Draft[]): Promise<ReadonlySet<Draft>> {
    const given = new Set<Draft>();
    const { suffix } = this.#terms;
    for (let pending = drafts.map((draft) => stepTo(draft, draft.drawn)); ; ) {
      for (const { draft, drawn } of pending) if (drawn?.token === draft.token) given.add(draft);
      const steps = pending.filter((one): one is Step => isOpenStep(one));
      if (steps.length === 0) return given;
      const rows = await this.#aliases(steps);
      pending = steps.flatMap(({ draft, drawn }, i) => {
        const found = rows[i]!;
        if (found === 'stored' || this.#isAlias(found.record, draft)) given.add(draft);
        if (found === 'stored' || isOfValue(draft, found.record)) return [];
        const { rule, value, source } = draft;
        return [stepTo(draft, rule.drawToken(value, suffix, source.draws, drawn.draw + 1))];
      });
    }
  }

  #aliases(steps: readonly Step[]): Promise<readonly Found[]> {
    const { keyring } = this.#terms;
    const placeOf = ({ draft, drawn }: Step) =>
      keyring.tokenFingerprint(drawn.token, draft.scope?.spaceBytes);
    if (this.#options.isDryRun) return this.#rowsAt(steps.map(placeOf));
    const seal = (step: Step) => {
      const { token: alias, space, source } = step.draft;
      return keyring.sealAlias({ alias, space }, placeOf(step), source.value_fingerprint);
    };
    return this.#written(steps, seal, (records, deadlineMs) =>
      this.#records.insertMissing(records, deadlineMs),
    );
  }

  #isAlias(record: SealedRecord, draft: Draft): boolean {
    const opened = this.#terms.keyring.open(record);
    return isOfValue(draft, record) && 'alias' in opened && opened.alias === draft.token;
  }

  #verdict(draft: Draft, found: Found, fit: Fit | undefined): Verdict {
    const refuse = (reason: string) => refusal('token', reason);
    if (fit?.conflictLine !== undefined)
      return refuse(`stands for another value on line ${fit.conflictLine}: ${KEEP_ONE}`);
    if (found === 'stored') return { isKnown: fit?.isKnown ?? false };
    const { record } = found;
    if (record.sealed.length === 0)
      return isOfValue(draft, record)
        ? { isKnown: false }
        : refuse(`stands for another value, which was forgotten: ${RENEW}`);
    const opened = this.#terms.keyring.open(record);
    if ('failure' in opened)
      return refuse('has a record in this vault that does not open: run standin verify');
    if ('alias' in opened) return refuse(`would be drawn by this vault for a value: ${RENEW}`);
    if (opened.value === draft.value && opened.scope === draft.scope) return { isKnown: true };
    if (opened.value === draft.value) return refuse('stands for this value with another kind');
    if (opened.imported !== undefined) return refuse(`stands for another value: ${KEEP_ONE}`);
    return refuse(`was drawn by this vault for another value: ${RENEW}`);
  }
}

type Verdict = Omit<Imported, 'isGiven'> | Refusal;

const KEEP_ONE = 'keep one of the two, and give the other a new token';
const RENEW = 'give this value a new token in your data';

/** A draft, and the drawn token where its alias may be. */
interface Step {
  readonly draft: Draft;
  readonly drawn: Drawn;
}

function stepTo(draft: Draft, drawn: Drawn | undefined) {
  return { draft, drawn };
}

/** A token that equals the drawn one needs no alias. Without further draws there is no place. */
function isOpenStep({ draft, drawn }: ReturnType<typeof stepTo>): boolean {
  return drawn !== undefined && drawn.token !== draft.token;
}

function isOfValue({ source }: Draft, record: SealedRecord): boolean {
  return record.value_fingerprint === source.value_fingerprint;
}

/** Whether tokenize would find the record of the token by the fingerprint of its value. */
function isLeading(draft: Draft, found: Found): boolean {
  return draft.drawn !== undefined && (found === 'stored' || isOfValue(draft, found.record));
}

/** Runs work one after the other, in the order of the calls. */
class Turns {
  #last: Promise<unknown> = Promise.resolve();

  run<T>(work: () => Promise<T>): Promise<T> {
    const next = this.#last.then(work);
    this.#last = next.catch(() => {});
    return next;
  }
}
