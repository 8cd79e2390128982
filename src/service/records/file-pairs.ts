import type { TokenFingerprint, ValueFingerprint } from '../../types.ts';

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
