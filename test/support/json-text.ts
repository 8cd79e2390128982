import fc from 'fast-check';

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
