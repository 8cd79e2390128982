import { spaceBytes } from '../crypto/scope.ts';
import type { TokenState } from '../store/removal.ts';
import type { EveryKind } from '../tokens/every-kind.ts';
import {
  DEFAULT_KIND,
  DEFAULT_SPACE,
  type Durable,
  type Token,
  type TokenFingerprint,
  type Value,
} from '../types.ts';
import { confirmDurable } from '../vault/vault.ts';
import { forgetRecords } from './removal.ts';
import { type Forgetting, type ValuePlace, ValueSearch } from './value-search.ts';
import { type ReadSettings, scanOpened } from './verify.ts';

export type { Forgetting, TokenState };

export interface ForgetRequest extends ValuePlace {
  readonly tokens: readonly Token[];
  readonly values: readonly Value[];
  /** Count, and change nothing. */
  readonly isDryRun: boolean;
}

/** The state before the call. */
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
  const { vault, follower, kinds } = parts;
  const { values, space, isDryRun } = request;
  if (values.length > 0) await kinds.update();
  const search = new ValueSearch(parts);
  const ofValues = await search.find(values, request);
  const bytes = spaceBytes(space);
  const ofTokens = request.tokens.map((token) => vault.keyring.tokenFingerprint(token, bytes));
  const states = new Map<TokenFingerprint, TokenState>();
  const remove = async (records: readonly TokenFingerprint[]) => {
    // The first state counts: a scan of a dry run finds the drawn tokens again.
    for (const [record, state] of await forgetRecords(vault, follower, records, isDryRun))
      if (states.get(record) !== 'known') states.set(record, state);
  };
  await remove([...ofTokens, ...ofValues.flatMap((records) => [...records])]);
  const unopenedRecords = scan && (await scanFor(parts, request, scan, ofValues, remove));
  const all = [...states.values()];
  return confirmDurable(vault, {
    tokens: ofTokens.map((one) => states.get(one)!),
    values: ofValues.map((records) => stateOf([...records].map((one) => states.get(one)!))),
    known: all.filter((state) => state === 'known').length,
    forgotten: all.filter((state) => state === 'forgotten').length,
    notSearched: values.length === 0 ? [] : left(kinds, search.damaged.size, unopenedRecords),
    isComplete: scan === undefined || unopenedRecords !== undefined,
  });
}

function stateOf(states: readonly TokenState[]): TokenState {
  if (states.includes('known')) return 'known';
  return states.length === 0 ? 'unknown' : 'forgotten';
}

/**
 * Opens every record, and adds those of the values to the records of each.
 * @returns how many records do not open; undefined: the scan was stopped
 */
async function scanFor(
  { vault, kinds }: Forgetting,
  { values, space }: ForgetRequest,
  settings: ReadSettings,
  ofValues: readonly Set<TokenFingerprint>[],
  remove: (records: readonly TokenFingerprint[]) => Promise<void>,
): Promise<number | undefined> {
  const placesOf = placesAmong(kinds, values);
  const { next, error, bad } = await scanOpened(vault, settings, async (opened) => {
    const found: TokenFingerprint[] = [];
    for (const { record, content } of opened) {
      if ('alias' in content) continue;
      const scope = content.scope ?? { kind: DEFAULT_KIND, space: DEFAULT_SPACE };
      if (scope.space !== space) continue;
      for (const index of placesOf(scope.kind, content.value)) {
        ofValues[index]!.add(record.token_fingerprint);
        found.push(record.token_fingerprint);
      }
    }
    await remove(found);
  });
  if (error !== undefined) throw error;
  return next === undefined ? bad : undefined;
}

/** Finds the places of the values that any version of a kind takes for a value of a record. */
function placesAmong(kinds: EveryKind, values: readonly Value[]) {
  /** By spelling key, then by spelling. */
  const known = new Map<string, Map<string, Set<number>>>();
  const spelled = (kind: string) => {
    const places = new Map<string, Set<number>>();
    for (const [i, value] of values.entries())
      for (const spelling of kinds.spellings(kind, value))
        places.set(spelling, (places.get(spelling) ?? new Set()).add(i));
    return places;
  };
  return (kind: string, value: Value): ReadonlySet<number> => {
    const key = kinds.spellingKey(kind);
    const places = known.get(key) ?? spelled(kind);
    known.set(key, places);
    const found = [...kinds.spellings(kind, value)].map((one) => places.get(one) ?? []);
    return new Set(found.flatMap((some) => [...some]));
  };
}

const SCAN = 'to find them, run standin forget --values FILE --scan';

/** @param unopened records that a scan could not open; undefined: no scan has ended */
function left({ hasSpellings, unreadable }: EveryKind, damaged: number, unopened?: number) {
  const isScanned = unopened !== undefined;
  return [
    !isScanned &&
      `tokens that no version of the policy draws: random ones, and imported ones that tokenize does not give: ${SCAN}`,
    !isScanned &&
      hasSpellings &&
      `values stored in another spelling, by a version that normalized otherwise: ${SCAN}`,
    !isScanned && damaged > 0 && `imported tokens behind damaged records (${damaged}): ${SCAN}`,
    !!unopened && `records that do not open (${unopened}): to see them, run standin verify`,
    unreadable.length > 0 &&
      `kinds of policy versions ${unreadable.join(', ')}: use the release that applied them`,
  ].filter((one) => one !== false);
}
