import { spaceBytes } from '../../crypto/scope.ts';
import { RecordWalk } from '../../store/record-walk.ts';
import type { TokenState } from '../../store/removal.ts';
import {
  DEFAULT_KIND,
  DEFAULT_SPACE,
  type Durable,
  type Token,
  type TokenFingerprint,
  type Value,
} from '../../types.ts';
import type { EveryKind } from '../every-kind.ts';
import { settled } from '../vault.ts';
import { passOver } from './record-pass.ts';
import { forgetRecords } from './removal.ts';
import { type Forgetting, type ValuePlace, ValueSearch } from './value-search.ts';
import { type ReadSettings, RecordReader } from './verify.ts';

export type { Forgetting, TokenState };

export interface ForgetRequest extends ValuePlace {
  readonly tokens: readonly Token[];
  readonly values: readonly Value[];
  /** Count, and change nothing. */
  readonly isDryRun: boolean;
}

/** What was there before. */
export interface ForgetResult {
  /** In order. */
  readonly tokens: readonly TokenState[];
  /** In order. `forgotten`: all tokens that were found had been forgotten before. */
  readonly values: readonly TokenState[];
  /** Different tokens that had their values. */
  readonly known: number;
  /** Different tokens that had been forgotten before. */
  readonly forgotten: number;
  /** In words, with the remedy: tokens of the values may be left there. */
  readonly notSearched: readonly string[];
  /** false: the scan was stopped. */
  readonly isComplete: boolean;
}

/**
 * Forgets tokens, and every token that is drawn from one of the values or that an alias gives it.
 * @param scan opens every record of the vault, to find all tokens of the values
 * @throws InternalError database_unavailable: some may be forgotten; call it again
 */
export async function forget(
  parts: Forgetting,
  request: ForgetRequest,
  scan?: ReadSettings,
): Promise<Durable<ForgetResult>> {
  const forgetting = new Forgetter(parts, request);
  await forgetting.drawn();
  if (scan !== undefined) await forgetting.scan(scan);
  return settled(parts.vault, forgetting.result());
}

class Forgetter {
  readonly #parts: Forgetting;
  readonly #request: ForgetRequest;
  readonly #ofTokens: readonly TokenFingerprint[];
  #ofValues: readonly Set<TokenFingerprint>[] = [];
  readonly #states = new Map<TokenFingerprint, TokenState>();
  #notSearched: readonly string[] = [];
  #isComplete = true;

  constructor(parts: Forgetting, request: ForgetRequest) {
    this.#parts = parts;
    this.#request = request;
    const bytes = spaceBytes(request.space);
    const { keyring } = parts.vault;
    this.#ofTokens = request.tokens.map((token) => keyring.tokenFingerprint(token, bytes));
  }

  async drawn(): Promise<void> {
    const { values } = this.#request;
    if (values.length > 0) await this.#parts.kinds.update();
    const search = new ValueSearch(this.#parts);
    this.#ofValues = await search.find(values, this.#request);
    await this.#forget([...this.#ofTokens, ...this.#ofValues.flatMap((records) => [...records])]);
    if (values.length === 0) return;
    this.#notSearched = [
      ...unscanned(this.#parts.kinds, search.damaged.size),
      ...unread(this.#parts.kinds),
    ];
  }

  async scan(settings: ReadSettings): Promise<void> {
    const { vault, kinds } = this.#parts;
    const { space } = this.#request;
    const reader = new RecordReader(vault, settings);
    const wanted = new WantedValues(kinds, this.#request.values);
    const { next, error } = await passOver({
      ...settings,
      walk: new RecordWalk(vault.pool),
      work: async (portion) => {
        const found: TokenFingerprint[] = [];
        for (const { record, content } of await reader.open(portion)) {
          if ('alias' in content) continue;
          const scope = content.scope ?? { kind: DEFAULT_KIND, space: DEFAULT_SPACE };
          if (scope.space !== space) continue;
          for (const index of wanted.like(scope.kind, content.value)) {
            this.#ofValues[index]!.add(record.token_fingerprint);
            found.push(record.token_fingerprint);
          }
        }
        await this.#forget(found);
      },
    });
    if (error !== undefined) throw error;
    this.#isComplete = next === undefined;
    if (this.#isComplete) this.#notSearched = [...unopened(reader.bad), ...unread(kinds)];
  }

  result(): ForgetResult {
    const states = [...this.#states.values()];
    return {
      tokens: this.#ofTokens.map((one) => this.#states.get(one)!),
      values: this.#ofValues.map((records) => this.#stateOf([...records])),
      known: states.filter((state) => state === 'known').length,
      forgotten: states.filter((state) => state === 'forgotten').length,
      notSearched: this.#notSearched,
      isComplete: this.#isComplete,
    };
  }

  /** The first state counts: a scan of a dry run finds the drawn tokens again. */
  async #forget(records: readonly TokenFingerprint[]): Promise<void> {
    const { vault, follower } = this.#parts;
    const states = await forgetRecords(vault, follower, records, this.#request.isDryRun);
    for (const [record, state] of states) {
      if (this.#states.get(record) !== 'known') this.#states.set(record, state);
    }
  }

  #stateOf(records: readonly TokenFingerprint[]): TokenState {
    if (records.some((one) => this.#states.get(one) === 'known')) return 'known';
    return records.length === 0 ? 'unknown' : 'forgotten';
  }
}

/** Values to compare with those of records. */
class WantedValues {
  readonly #kinds: EveryKind;
  readonly #values: readonly Value[];
  /** By spelling key, then by spelling: the places of values. */
  readonly #places = new Map<string, Map<string, Set<number>>>();

  constructor(kinds: EveryKind, values: readonly Value[]) {
    this.#kinds = kinds;
    this.#values = values;
  }

  /** The places of the values that any version of the kind takes for this one. */
  like(kind: string, value: Value): ReadonlySet<number> {
    const places = this.#placesOf(kind);
    const found = [...this.#kinds.spellings(kind, value)].map((one) => places.get(one) ?? []);
    return new Set(found.flatMap((some) => [...some]));
  }

  #placesOf(kind: string): Map<string, Set<number>> {
    const key = this.#kinds.spellingKey(kind);
    const known = this.#places.get(key);
    if (known !== undefined) return known;
    const places = new Map<string, Set<number>>();
    this.#places.set(key, places);
    this.#values.forEach((value, i) => {
      for (const spelling of this.#kinds.spellings(kind, value))
        places.set(spelling, (places.get(spelling) ?? new Set()).add(i));
    });
    return places;
  }
}

const SCAN = 'to find them, run standin forget --values FILE --scan';

function unscanned({ hasSpellings }: EveryKind, damaged: number): string[] {
  return [
    `tokens that no version of the policy draws: random ones, and imported ones that tokenize does not give: ${SCAN}`,
    ...(hasSpellings
      ? [`values stored in another spelling, by a version that normalized otherwise: ${SCAN}`]
      : []),
    ...(damaged > 0 ? [`imported tokens behind damaged records (${damaged}): ${SCAN}`] : []),
  ];
}

function unopened(bad: number): string[] {
  if (bad === 0) return [];
  return [`records that do not open (${bad}): to see them, run standin verify`];
}

function unread({ unreadable }: EveryKind): string[] {
  if (unreadable.length === 0) return [];
  const versions = unreadable.join(', ');
  return [`kinds of policy versions ${versions}: use the release that applied them`];
}
