/** A seeded generator (mulberry32): the same seed gives the same run. */
export class Random {
  readonly seed: number;
  #state: number;

  constructor(seed = Number(process.env.SEED ?? Math.floor(Math.random() * 2 ** 31))) {
    this.seed = seed;
    this.#state = seed;
    console.log(`SEED=${seed}`);
  }

  /** A whole number, 0 <= n < bound. */
  below(bound: number): number {
    this.#state = (this.#state + 0x6d2b79f5) | 0;
    let t = Math.imul(this.#state ^ (this.#state >>> 15), 1 | this.#state);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return Math.floor((((t ^ (t >>> 14)) >>> 0) / 2 ** 32) * bound);
  }

  pick<T>(choices: readonly T[]): T {
    return choices[this.below(choices.length)]!;
  }
}

const SPECIAL = [
  ...['\u0000', '\u2028', '\u2029', ' ', '\t', '\n', '"', '\\', '\u007F', '\uFEFF', '\u202E'],
  ...['😀', '👩‍👩‍👧', 'é', 'e\u0301', 'ß', 'İ', 'مرحبا', '٣', '_tok', '@', '.', '-'],
];

/** A well-formed string of 0 to 4,096 bytes, mostly short, with troublesome characters. */
export function randomString(random: Random): string {
  const length = random.below(20) === 0 ? random.below(600) : random.below(24);
  let text = '';
  while (text.length < length) {
    const kind = random.below(4);
    if (kind === 0) text += random.pick(SPECIAL);
    else if (kind === 1) text += String.fromCodePoint(codePoint(random));
    else text += String.fromCharCode(0x20 + random.below(95));
  }
  return text;
}

function codePoint(random: Random): number {
  const point = random.below(0x110000);
  return point >= 0xd800 && point <= 0xdfff ? 0x41 : point;
}
