import fc from 'fast-check';

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

/** JSON as text, with duplicate names, which parsed JSON cannot represent. */
export type JsonText =
  | { readonly kind: 'object'; readonly members: readonly (readonly [string, JsonText])[] }
  | { readonly kind: 'array'; readonly items: readonly JsonText[] }
  | { readonly kind: 'scalar'; readonly value: string | number | boolean | null };

export const scalar = (value: string | number | boolean | null): JsonText => ({
  kind: 'scalar',
  value,
});
export const array = (...items: JsonText[]): JsonText => ({ kind: 'array', items });
export const object = (...members: [string, JsonText][]): JsonText => ({ kind: 'object', members });

export function write(json: JsonText): string {
  if (json.kind === 'scalar') return JSON.stringify(json.value);
  if (json.kind === 'array') return `[${json.items.map(write).join(',')}]`;
  return `{${json.members.map(([name, one]) => `${JSON.stringify(name)}:${write(one)}`).join(',')}}`;
}

/** Yields this JSON and all JSON inside, with the depth. */
export function* walk(json: JsonText, depth = 0): Generator<{ json: JsonText; depth: number }> {
  yield { json, depth };
  const inner =
    json.kind === 'array'
      ? json.items
      : json.kind === 'object'
        ? json.members.map(([, one]) => one)
        : [];
  for (const one of inner) yield* walk(one, depth + 1);
}

const text = fc.oneof(
  { weight: 8, arbitrary: fc.string({ maxLength: 12 }) },
  { weight: 4, arbitrary: fc.string({ unit: 'binary', maxLength: 12 }) },
  { weight: 1, arbitrary: fc.constantFrom('\ud800', 'a\udc00', '\udc00\ud800', '😀', '\0', '') },
  { weight: 1, arbitrary: fc.constantFrom('x'.repeat(65_537), '€'.repeat(21_846)) },
);
const name = fc.oneof(
  { weight: 8, arbitrary: fc.constantFrom('a', 'b', 'c', 'data', '10', 'e mail', '') },
  { weight: 6, arbitrary: fc.string({ unit: 'binary', maxLength: 12 }) },
  {
    weight: 1,
    arbitrary: fc.constantFrom('__proto__', 'constructor', 'toString', 'x\ud800'),
  },
  { weight: 1, arbitrary: fc.constantFrom('x'.repeat(257), '€'.repeat(86), 'x'.repeat(256)) },
);
const leaf = fc
  .oneof(
    { weight: 30, arbitrary: text },
    { weight: 1, arbitrary: fc.oneof(fc.double(), fc.boolean(), fc.constant(null)) },
  )
  .map((value) => scalar(Number.isFinite(value) || typeof value !== 'number' ? value : 0));

const { tree } = fc.letrec<{ tree: JsonText }>((tie) => ({
  tree: fc.oneof(
    { depthSize: 'small', withCrossShrink: true },
    { weight: 4, arbitrary: leaf },
    {
      weight: 2,
      arbitrary: fc.array(tie('tree'), { maxLength: 5 }).map((items) => array(...items)),
    },
    {
      weight: 3,
      arbitrary: fc
        .array(fc.tuple(name, tie('tree')), { maxLength: 4 })
        .map((members) => object(...members)),
    },
  ),
}));

/** Request bodies. Most have `data`, and many are invalid. */
export const bodies: fc.Arbitrary<JsonText> = fc.oneof(
  { weight: 1, arbitrary: tree },
  {
    weight: 12,
    arbitrary: fc
      .tuple(
        fc.array(fc.tuple(name, tree), { maxLength: 1 }),
        fc.array(fc.tuple(name, tree), { maxLength: 4 }),
      )
      .map(([beside, members]) => object(['data', object(...members)], ...beside)),
  },
);
