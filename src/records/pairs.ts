import type { DrawSource, Keyring } from '../crypto/keyring.ts';
import { type Scope, scopeOf } from '../crypto/scope.ts';
import type { Kind, PolicyRules } from '../policy/rules.ts';
import type { Drawn } from '../shape/token.ts';
import { mostValueBytes } from '../tokens/value-bytes.ts';
import {
  DEFAULT_SPACE,
  isScopeName,
  SCOPE_NAMES,
  type Token,
  type TokenFingerprint,
  type Value,
  type ValueFingerprint,
} from '../types.ts';

/** The use of a token: only `detokenize`, or also as the token that tokenize gives its value. */
export const PAIR_USES = ['both', 'detokenize'] as const;
export type PairUse = (typeof PAIR_USES)[number];

/** A value with the token that another vault gave it. */
export interface Pair {
  readonly token: string;
  readonly value: string;
  readonly kind: string;
  /** '': the default space. */
  readonly space: string;
  /** A time in milliseconds; null: the token never expires. */
  readonly expires_at: number | null;
  readonly use: PairUse;
  /** In the file, for messages. */
  readonly line: number;
}

/** Why a pair is not imported, without the token and the value. */
export interface PairRefusal {
  readonly field: 'token' | 'value' | 'kind' | 'space' | 'expires';
  readonly reason: string;
}

/** A pair that may be stored. */
export interface PairDraft extends Pair {
  readonly token: Token;
  /** Seconds from now; null: as `expires_at`. */
  readonly time_to_live_s: number | null;
  /** As its kind spells it, if tokenize is to give its token. */
  readonly value: Value;
  readonly rule: Kind;
  readonly scope: Scope | undefined;
  readonly source: DrawSource;
  readonly token_fingerprint: TokenFingerprint;
  /** The first draw of tokenize; undefined: tokenize does not give the imported token. */
  readonly drawn: Drawn | undefined;
}

/** Decides how pairs are stored. */
export interface PairTerms {
  readonly keyring: Keyring;
  readonly rules: PolicyRules;
  /** Of the vault. */
  readonly suffix: string;
}

/** `forget` reads tokens from lines, takes no longer ones, and trims them. */
const TOKEN = /^[\x21-\x7e](?:[\x20-\x7e]{0,998}[\x21-\x7e])?$/;
/** A record lives a 16th longer than its time to live (src/store/record-sql.ts). */
const LEASE = 1.0625;
const MAX_TIME_TO_LIVE_S = 2_000_000_000;

/** @param nowMs by the clock of the database */
export function draftOf(pair: Pair, terms: PairTerms, nowMs: number): PairDraft | PairRefusal {
  const { kind: name, space } = pair;
  const token = pair.token as Token;
  if (!TOKEN.test(token))
    return refusal(
      'token',
      'is not 1 to 1,000 printable ASCII characters, space at the ends aside',
    );
  if (space !== DEFAULT_SPACE && !isScopeName(space))
    return refusal('space', `is not the name of a space, ${SCOPE_NAMES}`);
  const rule = terms.rules.byName.get(name);
  if (rule === undefined)
    return refusal('kind', 'is not in the policy: apply a policy that has this kind');
  // What tokenize never gives may be older than what the kind accepts and spells now.
  const isKept = pair.use === 'detokenize';
  const accepted = isKept ? { value: pair.value as Value } : rule.accept(pair.value);
  if ('reason' in accepted) return refusal('value', accepted.reason);
  const { value } = accepted;
  if (pair.token === value) return refusal('token', 'is the value itself');
  const scope = scopeOf(name, space);
  const most = mostValueBytes(token, scope !== undefined, `_${terms.suffix}`);
  if (Buffer.byteLength(value) > most) return refusal('value', tooLong(most));
  const timeToLiveS = timeToLive(pair.expires_at, nowMs);
  if (timeToLiveS !== null && timeToLiveS <= 0) return refusal('expires', EXPIRED);
  const { keyring, suffix } = terms;
  const isRandom = isKept || rule.settings.tokens === 'random';
  const source = isRandom ? keyring.randomDraws() : keyring.deterministicDraws(value, scope);
  // Without spreads, which would cost a third of the whole.
  return {
    token,
    value,
    kind: name,
    space,
    expires_at: pair.expires_at,
    time_to_live_s: timeToLiveS,
    use: pair.use,
    line: pair.line,
    rule,
    scope,
    source,
    token_fingerprint: keyring.tokenFingerprint(token, scope?.spaceBytes),
    drawn: isRandom ? undefined : rule.drawToken(value, suffix, source.draws, 0),
  };
}

export const EXPIRED =
  'is no time in the future such as 2030-01-31T00:00:00Z: leave the row out, or the time';

/** Seconds of a time to live with which the record ends at this time; null: never. */
function timeToLive(expiresAt: number | null, nowMs: number): number | null {
  if (expiresAt === null) return null;
  return Math.min(Math.ceil((expiresAt - nowMs) / 1_000 / LEASE), MAX_TIME_TO_LIVE_S);
}

/** The memory of a detokenize is planned by the lengths of its tokens. */
function tooLong(most: number): string {
  return `has more than the ${most} bytes that a token of this length may have: tokenize it here, and replace its token in your data`;
}

export function refusal(field: PairRefusal['field'], reason: string): PairRefusal {
  return { field, reason };
}

export function isRefusal(one: object): one is PairRefusal {
  return 'reason' in one;
}

const FIRST_SLOTS = 4_096;
/** Of a slot: a key of two numbers, partner, line. */
const NUMBERS = 4;
const PARTNER = 2;
const LINE = 3;
/** Bytes of a fingerprint that fit a double. */
const NUMBER_BYTES = 6;

/**
 * A map from 96 bits of a fingerprint to 48 bits of its partner and a line. Bounded by the file: 64
 * to 128 bytes a pair. A Map of strings would take three times as much, and ends at 16 million
 * entries.
 */
class Partners {
  #slots = new Float64Array(NUMBERS * FIRST_SLOTS);
  #used = 0;

  /** The partner and line that the key had before; undefined: it is new, and has these now. */
  add(key: string, partner: string, line: number): { isSame: boolean; line: number } | undefined {
    const slots = this.#slots;
    const numbers = [numberOf(key, 0) || 1, numberOf(key, NUMBER_BYTES), numberOf(partner, 0)];
    const at = this.#find(numbers[0]!, numbers[1]!);
    const isSame = slots[at + PARTNER] === numbers[PARTNER];
    if (slots[at] !== 0) return { isSame, line: slots[at + LINE]! };
    slots.set([...numbers, line], at);
    if (2 * NUMBERS * ++this.#used > slots.length) this.#grow();
    return undefined;
  }

  /** The place of the key, or the free one where it belongs. */
  #find(key: number, rest: number): number {
    const slots = this.#slots;
    let at = NUMBERS * (key % (slots.length / NUMBERS));
    while (slots[at] !== 0 && !(slots[at] === key && slots[at + 1] === rest))
      at = (at + NUMBERS) % slots.length;
    return at;
  }

  #grow(): void {
    const before = this.#slots;
    this.#slots = new Float64Array(2 * before.length);
    for (let from = 0; from < before.length; from += NUMBERS) {
      const at = before[from] === 0 ? undefined : this.#find(before[from]!, before[from + 1]!);
      if (at !== undefined) this.#slots.set(before.subarray(from, from + NUMBERS), at);
    }
  }
}

/** How a pair fits the earlier pairs of its file. */
export interface Fit {
  /** The line where its token stands for another value. */
  readonly conflictLine: number | undefined;
  /** Whether the same pair came before. */
  readonly isKnown: boolean;
  /** Whether its value came with this token first. */
  readonly isFirst: boolean;
}

/** The pairs of a file, which a dry run compares with each other. */
export class FilePairs {
  readonly #byToken = new Partners();
  readonly #byValue = new Partners();

  add(token: TokenFingerprint, value: ValueFingerprint, line: number): Fit {
    const before = this.#byToken.add(token, value, line);
    if (before?.isSame === false)
      return { conflictLine: before.line, isKnown: false, isFirst: false };
    const isFirst = this.#byValue.add(value, token, line)?.isSame !== false;
    return { conflictLine: undefined, isKnown: before !== undefined, isFirst };
  }
}

/** 48 bits of a keyed hash. */
function numberOf(fingerprint: string, from: number): number {
  let number = 0;
  for (let i = from; i < from + NUMBER_BYTES; i++)
    number = number * 256 + fingerprint.charCodeAt(i);
  return number;
}
