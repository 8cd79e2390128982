import { setTimeout as sleep } from 'node:timers/promises';
import type { Opened, OpenedAlias, OpenedValue } from '../crypto/keyring.ts';
import { allowedOr } from '../store/database-error.ts';
import type { NewRecord, StoredRecord } from '../store/record-sql.ts';
import { databaseTimeMs } from '../store/server.ts';
import { commandDeadline, POLICY_LEASE_MS } from '../timeouts.ts';
import type { EveryKind } from '../tokens/every-kind.ts';
import type { FreshRecord } from '../types.ts';
import type { KeyringFollower } from '../vault/keyring-follower.ts';
import type { Vault } from '../vault/vault.ts';
import { Aliases, isOfValue } from './aliases.ts';
import { type FoundRow, ImportRecords, inTurns } from './import-records.ts';
import {
  draftOf,
  FilePairs,
  type Fit,
  isRefusal,
  type Pair,
  type PairDraft,
  type PairRefusal,
  type PairTerms,
  refusal,
} from './pairs.ts';
import { persistently } from './record-scan.ts';

export interface Imported {
  /** Whether the vault, or an earlier line, had the pair before. */
  readonly isKnown: boolean;
  /** Whether deterministic clients get this token for its value. */
  readonly isGiven: boolean;
}

interface ImportOptions {
  /** Whether nothing is written. The pairs are then also compared with each other. */
  readonly isDryRun: boolean;
  readonly stop: AbortSignal;
}

/** A draft, and what the vault has at its token. */
interface Placed {
  readonly draft: PairDraft;
  readonly found: FoundRow;
  /** undefined: the row has no value. */
  readonly content: Opened | undefined;
}

/** Stores values under the tokens of another vault (docs/decisions/0023). */
export class Importer {
  readonly #vault: Vault;
  readonly #records: ImportRecords;
  readonly #aliases: Aliases;
  readonly #kinds: EveryKind;
  readonly #terms: PairTerms;
  readonly #options: ImportOptions;
  readonly #seen = new FilePairs();
  #isMarked = false;
  readonly #placing = inTurns();
  readonly #leading = inTurns();

  /** @param follower started: it finds key versions that other processes add */
  constructor(vault: Vault, kinds: EveryKind, follower: KeyringFollower, options: ImportOptions) {
    this.#vault = vault;
    this.#kinds = kinds;
    this.#terms = { keyring: vault.keyring, rules: kinds.newest, suffix: kinds.suffix };
    this.#options = options;
    this.#records = new ImportRecords(vault, follower, options.stop);
    this.#aliases = new Aliases(this.#records, this.#terms, kinds, options.isDryRun);
  }

  /**
   * Stores the pairs, in order with those of earlier calls: of pairs that exclude each other, the
   * first one counts. When it resolves, all pairs without a Refusal are durable.
   * @throws InternalError when the database is away for long, or the keys cannot be read
   */
  async take(pairs: readonly Pair[]): Promise<(Imported | PairRefusal)[]> {
    const { pool } = this.#vault;
    const readTime = () => databaseTimeMs(pool, commandDeadline());
    const isTimed = pairs.some((pair) => pair.expires_at !== null);
    const nowMs = isTimed ? await persistently(this.#options.stop, readTime) : 0;
    const checked = pairs.map((pair) => draftOf(pair, this.#terms, nowMs));
    const drafts = checked.filter((one): one is PairDraft => !isRefusal(one));
    const fits = drafts.map((draft) => this.#fitOf(draft));
    const placed = await this.#placing(() => this.#place(drafts));
    const verdicts = placed.map((one, i) => this.#verdict(one, fits[i]));
    const leading = placed.filter((one, i) => {
      const mayLead = !isRefusal(verdicts[i]!) && fits[i]?.isFirst !== false;
      return mayLead && isLeading(one);
    });
    const given = await this.#leading(() => this.#aliases.lead(leading.map(({ draft }) => draft)));
    const results = placed.map(({ draft }, i): Imported | PairRefusal => {
      const verdict = verdicts[i]!;
      return isRefusal(verdict) ? verdict : { ...verdict, isGiven: given.has(draft) };
    });
    return checked.map((one) => (isRefusal(one) ? one : results.shift()!));
  }

  /** undefined: the vault itself tells, because earlier pairs are in it. */
  #fitOf({ token_fingerprint: fingerprint, source, value, scope, line, drawn }: PairDraft) {
    if (!this.#options.isDryRun) return undefined;
    const { keyring } = this.#terms;
    const own = drawn === undefined ? keyring.deterministicDraws(value, scope) : source;
    return this.#seen.add(fingerprint, own.value_fingerprint, line);
  }

  /** Writes the pairs whose tokens have no row yet, an alias, or a row that ends too early. */
  async #place(drafts: readonly PairDraft[]): Promise<Placed[]> {
    const { isDryRun } = this.#options;
    const found = isDryRun ? await this.#rowsAt(drafts) : await this.#insert(drafts);
    await this.#records.knowKeysOf(found);
    const placed = drafts.map((draft, i) => this.#opened(draft, found[i]!));
    await this.#takePlaces(placed);
    if (!isDryRun) await this.#extend(placed.filter(isTooShort));
    return placed;
  }

  async #insert(drafts: readonly PairDraft[]): Promise<FoundRow[]> {
    await this.#markBareTokens(drafts);
    const outcomes = await this.#records.write(drafts, this.#sealed, (store, records, deadlineMs) =>
      store.insert(records, deadlineMs),
    );
    const rows = await this.#rowsAt(drafts.filter((_, i) => outcomes[i] === 'collision'));
    return outcomes.map((outcome) => {
      if (outcome === 'collision') return rows.shift()!;
      return outcome === 'stored' ? outcome : { record: outcome, leftS: null };
    });
  }

  #rowsAt(drafts: readonly PairDraft[]): Promise<FoundRow[]> {
    return this.#records.rowsAt(drafts.map((draft) => draft.token_fingerprint));
  }

  #opened(draft: PairDraft, found: FoundRow): Placed {
    const hasValue = found !== 'stored' && found.record.sealed.length > 0;
    const content = hasValue ? this.#terms.keyring.open(found.record) : undefined;
    return { draft, found, content };
  }

  /** Imported tokens take the places of aliases, which move to later draws. */
  async #takePlaces(placed: Placed[]): Promise<void> {
    for (let at = placesInWay(placed); at.length > 0; ) {
      const inWay = at.map((i) => placed[i] as InWay);
      const isFree = await this.#aliases.leave(
        inWay.map(({ draft, found, content }) => ({
          ...{ token: draft.token, record: found.record, content },
        })),
      );
      at = at.filter((_, i) => isFree[i]);
      const taking = inWay.filter((_, i) => isFree[i]);
      const drafts = taking.map(({ draft }) => this.#besideDraws(draft));
      const found = await this.#supersede(taking, drafts);
      await this.#records.knowKeysOf(found);
      for (const [n, i] of at.entries()) placed[i] = this.#opened(drafts[n]!, found[n]!);
      // An alias that was resealed meanwhile is still in the way.
      at = at.filter((i) => placesInWay([placed[i]!]).length > 0);
    }
  }

  async #supersede(
    taking: readonly InWay[],
    drafts: readonly PairDraft[],
  ): Promise<readonly FoundRow[]> {
    if (this.#options.isDryRun) return drafts.map(() => 'stored');
    const old = taking.map(({ found }) => found.record);
    const writing = this.#records.write(drafts, this.#sealed, (store, records, deadlineMs) =>
      store.supersede(old, records, deadlineMs),
    );
    return allowedOr(
      `The user of DATABASE_URL may not move aliases of imported tokens. ${AS_OWNER}`,
      writing,
    );
  }

  /**
   * The draft, so that its value keeps the token that it has. If this vault would draw the imported
   * token for that very value, the alias was a collision, and the value may have a later draw.
   */
  #besideDraws(draft: PairDraft): PairDraft {
    const { value, scope, kind, token } = draft;
    const { keyring } = this.#terms;
    const { draws } = keyring.deterministicDraws(value, scope);
    const [drawn] = this.#kinds.draws(kind, value, draws, (one) => one === token);
    return drawn ? { ...draft, source: keyring.randomDraws(), drawn: undefined } : draft;
  }

  /** Writes pairs again that the vault has, but not for long enough. */
  async #extend(placed: readonly Placed[]): Promise<void> {
    const { keyring } = this.#terms;
    const seal = ({ draft, found, content }: Placed) => {
      const { record } = found as StoredRecord;
      const { value, scope, imported } = content as OpenedValue;
      const { token_fingerprint: token, value_fingerprint: fingerprint } = record;
      return leased(keyring.seal(value, token, fingerprint, scope, imported), draft);
    };
    await this.#records.write(placed, seal, (store, records, deadlineMs) =>
      store.insert(records, deadlineMs),
    );
  }

  /** Before the first token without the suffix, each node must count guesses at such tokens. */
  async #markBareTokens(drafts: readonly PairDraft[]): Promise<void> {
    const { stop } = this.#options;
    const ending = `_${this.#kinds.suffix}`;
    if (this.#isMarked || drafts.every(({ token }) => token.endsWith(ending))) return;
    const { policies } = this.#vault;
    await allowedOr(
      `The user of DATABASE_URL may not import tokens without the suffix of this vault. ${AS_OWNER}`,
      persistently(stop, async () => {
        if (await policies.announceBareTokens(commandDeadline())) return;
        await sleep(POLICY_LEASE_MS, undefined, { signal: stop });
        await policies.addBareTokens(commandDeadline());
      }),
    );
    this.#isMarked = true;
  }

  readonly #sealed = (draft: PairDraft): NewRecord => {
    const { value, token, token_fingerprint: fingerprint, source, scope, drawn } = draft;
    // What this vault draws itself needs no token beside it.
    const imported = drawn?.token === token ? undefined : token;
    const { keyring } = this.#terms;
    const record = keyring.seal(value, fingerprint, source.value_fingerprint, scope, imported);
    return leased(record, draft);
  };

  #verdict(placed: Placed, fit: Fit | undefined): Verdict {
    const { draft, found, content } = placed;
    const refuse = (reason: string) => refusal('token', reason);
    if (fit?.conflictLine !== undefined)
      return refuse(`stands for another value on line ${fit.conflictLine}: ${KEEP_ONE}`);
    const isKnown = fit?.isKnown ?? false;
    if (found === 'stored') return { isKnown };
    if (content === undefined)
      return isOfValue(draft, found.record) ? { isKnown } : refuse(`${FORGOTTEN}: ${RENEW}`);
    if ('failure' in content)
      return refuse('has a record in this vault that does not open: run standin verify');
    if ('alias' in content)
      return refuse(`would be drawn by this vault for a value that it cannot read: ${RENEW}`);
    if (isSame(placed)) return { isKnown: isKnown || !isTooShort(placed) };
    if (content.value === draft.value) return refuse('stands for this value with another kind');
    if (content.imported !== undefined) return refuse(`stands for another value: ${KEEP_ONE}`);
    return refuse(`was drawn by this vault for another value: ${RENEW}`);
  }
}

type Verdict = Omit<Imported, 'isGiven'> | PairRefusal;

const AS_OWNER = "Run the command as the owner of the vault's tables.";
const KEEP_ONE =
  'keep one of the two; tokenize the other here, and replace its token where it is stored';
const RENEW = 'give this value a new token in your data';
const FORGOTTEN =
  'stood for a value that was forgotten or has expired, and nobody can tell whether it was this one';

/** An alias is at the token. */
type InWay = Placed & { readonly found: StoredRecord; readonly content: OpenedAlias };

function placesInWay(placed: readonly Placed[]): number[] {
  return placed.flatMap(({ content }, i) => (content && 'alias' in content ? [i] : []));
}

function isSame({ draft, content }: Placed): boolean {
  const isValue = content !== undefined && 'value' in content;
  return isValue && content.value === draft.value && content.scope === draft.scope;
}

/** Whether the vault has the pair, but has expired it, or will too early. */
function isTooShort(placed: Placed): boolean {
  const { draft, found } = placed;
  if (found === 'stored' || found.leftS === null || !isSame(placed)) return false;
  return draft.time_to_live_s === null || found.leftS < draft.time_to_live_s;
}

/** Whether tokenize would find the record of the token by the fingerprint of its value. */
function isLeading({ draft, found }: Placed): boolean {
  return found === 'stored' || isOfValue(draft, found.record);
}

function leased(record: FreshRecord, { time_to_live_s: timeToLiveS }: PairDraft): NewRecord {
  return timeToLiveS === null ? record : { ...record, time_to_live_s: timeToLiveS };
}
