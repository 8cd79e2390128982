import type { OpenedAlias } from '../crypto/keyring.ts';
import { spaceBytes } from '../crypto/scope.ts';
import type { Drawn } from '../shape/token.ts';
import type { EveryKind } from '../tokens/every-kind.ts';
import { DEFAULT_KIND, type SealedRecord, type Token } from '../types.ts';
import type { FoundRow, ImportRecords } from './import-records.ts';
import type { PairDraft, PairTerms } from './pairs.ts';

/** A value with the imported token that tokenize is to give it. */
export type Led = Pick<
  PairDraft,
  'token' | 'value' | 'rule' | 'scope' | 'space' | 'source' | 'drawn'
>;

/** An alias whose token came from another vault for another value. */
export interface AliasInWay {
  readonly token: Token;
  readonly record: SealedRecord;
  readonly content: OpenedAlias;
}

/** Places the aliases of imported tokens, and moves them (docs/decisions/0023). */
export class Aliases {
  readonly #records: ImportRecords;
  readonly #terms: PairTerms;
  readonly #kinds: EveryKind;
  readonly #isDryRun: boolean;

  constructor(records: ImportRecords, terms: PairTerms, kinds: EveryKind, isDryRun: boolean) {
    this.#records = records;
    this.#terms = terms;
    this.#kinds = kinds;
    this.#isDryRun = isDryRun;
  }

  /**
   * Leads tokenize from the tokens that would be drawn to those of the drafts. Changes no row.
   * Returns the drafts whose tokens their values get from now on.
   */
  async lead<One extends Led>(drafts: readonly One[]): Promise<ReadonlySet<One>> {
    const given = new Set<One>();
    const { suffix } = this.#terms;
    for (let pending = drafts.map((draft) => ({ draft, drawn: draft.drawn })); ; ) {
      for (const { draft, drawn } of pending) if (drawn?.token === draft.token) given.add(draft);
      // A token that equals the drawn one needs no alias. Without further draws there is no place.
      const steps = pending.filter(
        (one): one is AliasStep<One> =>
          one.drawn !== undefined && one.drawn.token !== one.draft.token,
      );
      if (steps.length === 0) return given;
      const rows = await this.#place(steps);
      pending = steps.flatMap(({ draft, drawn }, i) => {
        const found = rows[i]!;
        if (found === 'stored' || this.#isAlias(found.record, draft)) given.add(draft);
        if (found === 'stored' || isOfValue(draft, found.record)) return [];
        const { rule, value, source } = draft;
        return [{ draft, drawn: rule.drawToken(value, suffix, source.draws, drawn.draw + 1) }];
      });
    }
  }

  /**
   * Leads tokenize past these aliases, by further ones at later draws. Returns for each whether
   * another record may take its place now.
   */
  async leave(aliases: readonly AliasInWay[]): Promise<boolean[]> {
    const { keyring } = this.#terms;
    const targets = await this.#records.rowsAt(
      aliases.map(({ content }) =>
        keyring.tokenFingerprint(content.alias, spaceBytes(content.space)),
      ),
    );
    const later = aliases.map((alias, i) => this.#later(alias, targets[i]!));
    if (this.#isDryRun) return later.map((led) => led.length > 0);
    const given = await this.lead(later.flat());
    return later.map((led) => led.length > 0 && led.every((one) => given.has(one)));
  }

  /** Its value from the next draw on, by each version of its kind. Empty: the value is unknown. */
  #later({ token, record, content }: AliasInWay, target: FoundRow): Led[] {
    const { keyring, suffix } = this.#terms;
    const isThere =
      target !== 'stored' && target.record.value_fingerprint === record.value_fingerprint;
    const opened = isThere ? keyring.open(target.record) : undefined;
    if (opened === undefined || !('value' in opened)) return [];
    const { value, scope } = opened;
    const source = keyring.deterministicDraws(value, scope);
    const isIts = (drawn: Token) => drawn === token;
    const draws = this.#kinds.draws(scope?.kind ?? DEFAULT_KIND, value, source.draws, isIts);
    return [...draws].map(({ kind: rule, drawn: { draw } }) => {
      const drawn = rule.drawToken(value, suffix, source.draws, draw + 1);
      return { token: content.alias, value, rule, scope, space: content.space, source, drawn };
    });
  }

  async #place(steps: readonly AliasStep<Led>[]): Promise<readonly FoundRow[]> {
    const { keyring } = this.#terms;
    const placeOf = ({ draft, drawn }: AliasStep<Led>) =>
      keyring.tokenFingerprint(drawn.token, draft.scope?.spaceBytes);
    if (this.#isDryRun) return this.#records.rowsAt(steps.map(placeOf));
    const seal = (step: AliasStep<Led>) => {
      const { token: alias, space, source } = step.draft;
      return keyring.sealAlias({ alias, space }, placeOf(step), source.value_fingerprint);
    };
    const found = await this.#records.write(steps, seal, (store, records, deadlineMs) =>
      store.insertMissing(records, deadlineMs),
    );
    await this.#records.knowKeysOf(found);
    return found;
  }

  #isAlias(record: SealedRecord, led: Led): boolean {
    const opened = this.#terms.keyring.open(record);
    return isOfValue(led, record) && 'alias' in opened && opened.alias === led.token;
  }
}

export function isOfValue({ source }: Pick<Led, 'source'>, record: SealedRecord): boolean {
  return record.value_fingerprint === source.value_fingerprint;
}

/** A draft, and the drawn token where its alias may be. */
interface AliasStep<One> {
  readonly draft: One;
  readonly drawn: Drawn;
}
