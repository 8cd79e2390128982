import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { pathText } from '#paths';
import { MISREADS_NAMES } from '../../src/access/misread-names.ts';
import { parsePolicy } from '../../src/policy/parse.ts';
import type { Elsewhere } from '../../src/policy/policy.ts';
import { PolicyRules } from '../../src/policy/rules.ts';
import { BodyWalk } from '../../src/public/body/body-walk.ts';
import { collectFields, parseBody } from '../../src/public/body/data.ts';

const FIELDS = { a: 'email', 'b.c': 'word', 'c[*].b': 'word', 'd[1]': 'word' };

type Path = readonly (string | number)[];

function rulesOf(elsewhere: Elsewhere) {
  const document = JSON.stringify({ version: 1, fields: FIELDS, elsewhere });
  const { tree } = new PolicyRules({ version: 1, tag: 'x', ...parsePolicy(document).policy! });
  return { tree, elsewhere };
}

const RULES = { pass: rulesOf('pass'), refuse: rulesOf('refuse'), tokenize: rulesOf('tokenize') };

function walk(text: string, elsewhere: Elsewhere, maxPlaces = Infinity): BodyWalk {
  return new BodyWalk(text, RULES[elsewhere], { maxPlaces });
}

/** The message of the refusal. */
function refusal(text: string, elsewhere: Elsewhere): string {
  try {
    walk(text, elsewhere);
  } catch (error) {
    return (error as Error).message;
  }
  throw new Error(`${elsewhere} took ${text}`);
}

/** `data` of the answer, with what takes the place of each string. */
function replaced(text: string, { places, start, end }: BodyWalk): string {
  let from = start;
  const parts = places.map((place) => {
    const before = text.slice(from, place.start);
    from = place.end;
    return `${before}"<${place.path}>"`;
  });
  return parts.join('') + text.slice(from, end);
}

/** Parsed JSON with `<path>` at the paths of the policy and, elsewhere, what `other` says. */
function expected(json: unknown, other: (text: string, path: Path) => string): unknown {
  const at = (inner: unknown, path: Path): unknown => {
    if (inner === '') return '';
    if (typeof inner === 'string') {
      const field = fieldAt(path);
      return field === undefined ? other(inner, path) : `<${field}>`;
    }
    if (Array.isArray(inner)) return inner.map((one, i) => at(one, [...path, i]));
    if (typeof inner !== 'object' || inner === null) return inner;
    const entries = Object.entries(inner);
    return Object.fromEntries(entries.map(([name, one]) => [name, at(one, [...path, name])]));
  };
  return at(json, ['data']);
}

/** The path of the policy at this path, in `data` or in a list of records. */
function fieldAt([, first, ...rest]: Path): string | undefined {
  const steps = typeof first === 'number' ? rest : [first!, ...rest];
  if (steps.some((step) => typeof step === 'string' && !/^\w+$/.test(step))) return undefined;
  const text = pathText(steps).replace(/^c\[\d+\]/, 'c[*]');
  return Object.keys(FIELDS).find((field) => field === text);
}

const leaf = fc.oneof(
  fc.string({ unit: 'grapheme', maxLength: 6 }),
  fc.constantFrom('', 'a":"b', '{', '\\', '\\"', '\u2028', 1, 1.5, -0.25, 1e30, true, false, null),
);
const names = ['e', 'f', 'A', 'e mail', 'q"', '', 'bb', 'dd'];
const name = fc.constantFrom(...names, ...(MISREADS_NAMES ? [] : ['\\']));
const { free } = fc.letrec<{ free: unknown }>((tie) => ({
  free: fc.oneof(
    { depthSize: 'small' },
    { weight: 3, arbitrary: leaf },
    { weight: 1, arbitrary: fc.array(tie('free'), { maxLength: 3 }) },
    { weight: 2, arbitrary: fc.dictionary(name, tie('free'), { maxKeys: 4 }) },
  ),
}));
const value = fc.oneof(fc.string({ maxLength: 5 }), fc.constantFrom('', null));
/** A record that has what the policy names in the right form, and anything else. */
const record = fc
  .record(
    {
      ...{ e: free, a: value, f: free },
      b: fc.record({ bb: free, c: value, dd: free }, { requiredKeys: [] }),
      c: fc.array(fc.record({ e: free, b: value }, { requiredKeys: [] }), { maxLength: 3 }),
      d: fc.array(value, { maxLength: 3 }),
    },
    { requiredKeys: [] },
  )
  .chain((one) => fc.shuffledSubarray(Object.entries(one)).map(Object.fromEntries));
const data = fc.oneof(
  { weight: 4, arbitrary: record },
  { weight: 1, arbitrary: fc.array(record, { maxLength: 4 }) },
);
/** How the body is written: white space, escapes, numbers that a parser would change. */
const styles = [
  (json: unknown) => JSON.stringify(json),
  (json: unknown) => JSON.stringify(json, null, ' \t\r\n '),
  (json: unknown) => JSON.stringify(json).replaceAll(/(?<=[",:[{])e/g, '\\u0065'),
];

describe('of any record', () => {
  const bodies = fc.tuple(data, free, fc.constantFrom(...styles)).map(([json, beside, style]) => ({
    json,
    text: style({ before: beside, data: json, beside }),
  }));

  test('pass replaces the named strings, counts all others, and leaves every other byte', () => {
    fc.assert(
      fc.property(bodies, ({ json, text }) => {
        const others: string[] = [];
        const found = walk(text, 'pass');
        const wanted = expected(json, (other) => others[others.push(other) - 1]!);
        expect(JSON.parse(replaced(text, found))).toEqual(wanted);
        expect(found.passed).toBe(others.length);
      }),
      { numRuns: 500 },
    );
  });

  test('tokenize replaces every string that is not blank, and leaves every other byte', () => {
    fc.assert(
      fc.property(bodies, ({ json, text }) => {
        const found = walk(text, 'tokenize');
        expect(JSON.parse(replaced(text, found))).toEqual(expected(json, () => '<>'));
        expect(found.passed).toBe(0);
        for (const { path, step } of found.places) expect(path).toBe(fieldAt([...step]) ?? '');
      }),
      { numRuns: 500 },
    );
  });

  test('refuse names the first string that is elsewhere, and takes a record without one', () => {
    fc.assert(
      fc.property(bodies, ({ json, text }) => {
        const others: Path[] = [];
        expected(json, (other, path) => {
          others.push(path);
          return other;
        });
        if (others.length === 0) expect(walk(text, 'refuse').passed).toBe(0);
        else
          expect(refusal(text, 'refuse')).toContain(`${pathText(others[0]!)}: must not be a str`);
      }),
      { numRuns: 300 },
    );
  });
});

describe('a string elsewhere', () => {
  const deep = (levels: number, inner: string) =>
    `{"data":{"e":${'['.repeat(levels)}${inner}${']'.repeat(levels)}}}`;

  test('may be as deep as JSON is when it passes, and as deep as without a policy else', () => {
    expect(walk(deep(100_000, '"x"'), 'pass').passed).toBe(1);
    for (const elsewhere of ['refuse', 'tokenize'] as const) {
      expect(walk(deep(100_000, '1, "", {"name": null}'), elsewhere).places).toEqual([]);
      expect(refusal(deep(100_000, '"x"'), elsewhere)).toMatch(
        /^data\.e(\[0\]){15}: has a string nested deeper than 16 levels$/,
      );
    }
    const long = `{"data":{"${'n'.repeat(1_000_000)}":${'['.repeat(20)}"x"${']'.repeat(20)}}}`;
    expect(refusal(long, 'refuse')).toBe('data: has a field name longer than 256 bytes');
    const second = `{"data":{"x":{"y":["z"]},"${'n'.repeat(257)}":{"y":"z"}}}`;
    expect(refusal(second, 'tokenize')).toBe('data: has a field name longer than 256 bytes');
    expect(walk(deep(15, '"x"'), 'tokenize').places).toHaveLength(1);
    expect(refusal(deep(16, '"x"'), 'tokenize')).toContain('deeper than 16 levels');
  });

  test.each([
    [`"${'é'.repeat(129)}"`, '"x"', 'data: has a field name longer than 256 bytes'],
    ['"__proto__"', '"x"', 'data: has a field named __proto__, which is not allowed'],
    ['"e"', '"\\ud800"', 'data.e: must be well-formed Unicode; it has half of a surrogate pair'],
    ['"e"', `"${'x'.repeat(65_537)}"`, 'data.e: must not be longer than 65536 bytes'],
  ])('keeps the bounds of a value when it is tokenized: %.20s', (name, value, message) => {
    const text = `{"data":{${name}:${value}}}`;
    expect(refusal(text, 'tokenize')).toBe(message);
    expect(walk(text, 'pass').passed).toBe(1);
    expect(walk(`{"data":{${name}:1}}`, 'tokenize').places).toEqual([]);
  });

  test('counts as a value of the request when it is tokenized, and not when it passes', () => {
    const text = '{"data":{"a":"x","e":["y","z"]}}';
    expect(() => walk(text, 'tokenize', 2)).toThrow('data: has more than 2 values');
    expect(walk(text, 'pass', 1)).toMatchObject({ passed: 2 });
  });

  test('does not hide a wrong type at a path, and does not make a number one', () => {
    for (const elsewhere of ['pass', 'refuse', 'tokenize'] as const) {
      const wrong = { '"x"': 'a string', '[]': 'an array', '7': 'a number' };
      for (const [value, given] of Object.entries(wrong))
        expect(refusal(`{"data":{"b":${value}}}`, elsewhere)).toBe(
          `data.b: must be an object or null, not ${given}; the policy names something inside it`,
        );
      expect(refusal('{"data":{"a":7}}', elsewhere)).toContain('data.a: must be a string or null');
      const numbers = '{"data":{"e":[1E400, -0, {"f":true}], "a":null}}';
      const found = walk(numbers, elsewhere);
      expect(replaced(numbers, found)).toBe(numbers.slice(8, -1));
    }
  });
});

test('with the strings of a body without a policy, names keep their order, and few bodies are walked', () => {
  const someName = fc
    .oneof(
      fc.nat().map(String),
      fc.constantFrom('0', '01', '-1', '1.5', '4294967294', '4294967295', '9007199254740993', ' 1'),
      fc.constantFrom('', '"', '\\', '\\"', ' __proto__', 'data', 'toString', '١'),
      fc.string(),
    )
    .filter((one) => one !== '__proto__' && !(MISREADS_NAMES && one.endsWith('\\')));
  const { object } = fc.letrec<{ json: string; object: string }>((tie) => ({
    json: fc.oneof(
      { maxDepth: 4 },
      fc.string().map((one) => JSON.stringify(one)),
      fc.array(tie('json')).map((all) => `[${all}]`),
      tie('object'),
    ),
    object: fc
      .uniqueArray(fc.tuple(someName, tie('json')), { selector: ([one]) => one })
      .map((members) => `{${members.map(([one, json]) => `${JSON.stringify(one)}:${json}`)}}`),
  }));
  fc.assert(
    fc.property(object, (written) => {
      const text = ` {"9":{"data":":"}, "data" : ${written},"1":[] }`;
      const data = parseBody(Buffer.from(text));
      const { fields, isReordered } = collectFields(data, Infinity);
      if (!isReordered) expect(JSON.stringify(data)).toBe(written);
      else expect(written).toMatch(/"\d+":/);
      const all = { tree: undefined, elsewhere: 'tokenize' } as const;
      const found = new BodyWalk(text, all, { maxPlaces: Infinity, keepsBlank: true });
      expect(found.places).toHaveLength(fields.length);
      expect(text.slice(found.start, found.end)).toBe(written);
      for (const place of found.places)
        expect(JSON.parse(text.slice(place.start, place.end))).toBe(place.text);
    }),
  );
});
