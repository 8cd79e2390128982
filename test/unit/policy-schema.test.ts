import { Ajv2020 } from 'ajv/dist/2020.js';
import { expect, test } from 'vitest';
import { parse } from 'yaml';
import { MASK_END, MAX_CLIENTS, MAX_FIELDS, MAX_KINDS, OPTIONS } from '../../src/policy/format.ts';
import { parsePolicy } from '../../src/policy/parse.ts';
import { ELSEWHERE } from '../../src/policy/policy.ts';
import { policySchema } from '../../src/policy/schema.ts';
import { defaultKind, kindProblems } from '../../src/shape/kind.ts';
import { KEPT_PARTS, SHAPES, type Shape } from '../../src/shape/kind-settings.ts';
import { blocks, readText } from '../support/docs.ts';

const validate = new Ajv2020({ strict: true, strictRequired: false }).compile(policySchema());

/** Whether the schema and the parser take a document. */
function judged(text: string): { schema: boolean; parser: boolean } {
  return { schema: validate(parse(text)), parser: parsePolicy(text).mistakes.length === 0 };
}

const kind = (text: string) => `version: 1\nkinds: { one: ${text} }`;

const GOOD = [
  'version: 1',
  '{"$schema": "policy.schema.json", "version": 1}',
  'version: 1\nfields: { a.b: text, "c[*]": uuid, "[\\"a b\\"]": word }\nelsewhere: refuse',
  ...Object.keys(ELSEWHERE).map((word) => `version: 1\nfields: { a: text }\nelsewhere: ${word}`),
  'version: 1\nrights: { "*": { "*": none }, "Ann & Co": { email: masked, text: full } }',
  ...SHAPES.map((shape) => kind(`{ shape: ${shape} }`)),
  kind('{ shape: email, keep: domain, mask: { show: domain } }'),
  kind('{ shape: email, keep: top_level_domain }'),
  kind('{ shape: date, mask: { show: year } }'),
  kind('{ shape: digits, keep_first: 1, keep_last: 1, mask: { show: ends, first: 1, last: 2 } }'),
  kind('{ shape: text, spelling: [], tokens: deterministic, time_to_live_s: 1, suffix: true }'),
  kind('{ shape: word, length: 12, spelling: [trim, lower_case] }'),
];

const BAD = [
  '[]',
  '{}',
  'null',
  'fields: { a: text }\nelsewhere: pass',
  'version: 2',
  'version: "1"',
  'version: 1\nkinds: {}',
  'version: 1\nfields: { a: text }',
  'version: 1\nfields: { a: text }\nelsewhere: drop',
  'version: 1\nelsewhere: pass',
  'version: 1\nfields: {}\nelsewhere: pass',
  'version: 1\nrights: {}',
  'version: 1\nkinds: null',
  'version: 1\nkind: { one: { shape: text } }',
  'version: 1\nkinds: { One: { shape: text } }',
  'version: 1\nkinds: { email: { shape: email } }',
  `version: 1\nkinds: { a${'b'.repeat(32)}: { shape: text } }`,
  `version: 1\nfields: { a${'b'.repeat(1_000)}: text }\nelsewhere: pass`,
  'version: 1\nfields: { a: 5 }\nelsewhere: pass',
  'version: 1\nfields: { a: Text }\nelsewhere: pass',
  'version: 1\nrights: { a: full }',
  'version: 1\nrights: { a: {} }',
  'version: 1\nrights: { a: { text: mask } }',
  'version: 1\nrights: { a: { "**": full } }',
  kind('{}'),
  kind('{ shape: digit }'),
  kind('{ shape: text, keep: domain }'),
  kind('{ shape: email, keep: year }'),
  kind('{ shape: date, keep: domain }'),
  kind('{ shape: digits, keep_last: "4" }'),
  kind('{ shape: digits, keep_last: 1.5 }'),
  kind('{ shape: digits, keep_last: -1 }'),
  kind('{ shape: digits, begins_with: 9 }'),
  kind('{ shape: digits, begins_with: "" }'),
  kind('{ shape: word, length: 4 }'),
  kind('{ shape: text, suffix: "no" }'),
  kind('{ shape: text, spelling: trim }'),
  kind('{ shape: text, spelling: [trim, trim] }'),
  kind('{ shape: text, country: Germany }'),
  kind('{ shape: text, time_to_live_s: 0 }'),
  kind('{ shape: text, time_to_live_s: null }'),
  kind('{ shape: text, mask: ends }'),
  kind('{ shape: text, mask: {} }'),
  kind('{ shape: text, mask: { show: year } }'),
  kind('{ shape: text, mask: { show: ends } }'),
  kind('{ shape: text, mask: { show: ends, last: 0 } }'),
  kind('{ shape: text, mask: { show: nothing, last: 1 } }'),
];

/** What a schema cannot tell. */
const ONLY_PARSER = [
  'version: 1\nfields: { a: card }\nelsewhere: pass',
  'version: 1\nfields: { a: text, a.b: text }\nelsewhere: pass',
  'version: 1\nfields: { "a[": text }\nelsewhere: pass',
  'version: 1\nrights: { a: { card: full } }',
];

test.each(GOOD)('the schema and the parser take %j', (text) => {
  expect(judged(text)).toEqual({ schema: true, parser: true });
});

test.each(BAD)('the schema and the parser refuse %j', (text) => {
  expect(judged(text)).toEqual({ schema: false, parser: false });
});

test.each(ONLY_PARSER)('the parser alone refuses %j', (text) => {
  expect(judged(text)).toEqual({ schema: true, parser: false });
});

test.each([
  ['kinds', MAX_KINDS, 'shape: text'],
  ['fields', MAX_FIELDS, undefined],
  ['rights', MAX_CLIENTS, 'text: full'],
])('%s has at most %i lines', (part, max, inner) => {
  for (const count of [max, max + 1]) {
    const value = inner === undefined ? 'text' : `{ ${inner} }`;
    const lines = Array.from({ length: count }, (_, i) => `a${i}: ${value}`).join(', ');
    const rest = part === 'fields' ? '\nelsewhere: pass' : '';
    const isGood = count === max;
    const text = `version: 1\n${part}: { ${lines} }${rest}`;
    expect(judged(text)).toEqual({ schema: isGood, parser: isGood });
  }
});

test('the schema explains every option of every shape', () => {
  const text = JSON.stringify(policySchema());
  for (const options of Object.values(OPTIONS))
    for (const { meaning } of Object.values(options)) expect(text).toContain(meaning);
});

/** The settings of a kind with one option, which need not go well with the others. */
function isRefused(shape: Shape, name: string, value: unknown): boolean {
  const settings = { ...defaultKind('one', shape), [name]: value };
  return kindProblems(settings).some(({ field }) => field === name);
}

test('the bounds of options are those of the kinds', () => {
  const numbers = SHAPES.flatMap((shape) =>
    Object.entries(OPTIONS[shape]).flatMap(([name, form]) =>
      form.type === 'number' ? [{ shape, name, ...form }] : [],
    ),
  );
  for (const { shape, name, min, max } of numbers) {
    const values = [min - 1, min, max, max + 1];
    for (const value of values) {
      const isGood = value >= min && value <= max;
      const text = kind(`{ shape: ${shape}, ${name}: ${value} }`);
      expect([text, judged(text)]).toEqual([text, { schema: isGood, parser: isGood }]);
    }
    const refused = values.map((value) => isRefused(shape, name, value));
    if (name !== 'time_to_live_s')
      expect([name, refused]).toEqual([name, [true, false, false, true]]);
  }
  expect([...new Set(numbers.map(({ name }) => name))].sort()).toEqual([
    ...['keep_first', 'keep_last', 'length', 'time_to_live_s'],
  ]);
  const ends = [MASK_END.max, MASK_END.max + 1].map((last) => ({ show: 'ends', first: 0, last }));
  expect(ends.map((mask) => isRefused('text', 'mask', mask))).toEqual([false, true]);
  const shown = ends.map(({ last }) =>
    judged(kind(`{ shape: text, mask: { show: ends, last: ${last} } }`)),
  );
  expect(shown.map(({ schema, parser }) => [schema, parser])).toEqual([
    ...[
      [true, true],
      [false, false],
    ],
  ]);
  const begins = OPTIONS.digits.begins_with;
  const accepts = (text: string) => new RegExp((begins as { pattern: string }).pattern).test(text);
  for (const text of ['1'.repeat(11), '1'.repeat(12), 'GB', 'é', '1-']) {
    const refused = isRefused('digits', 'begins_with', text);
    expect([text, accepts(text)]).toEqual([text, !refused]);
  }
});

test('the parts that a shape may keep, and what its mask may show, are those of the kinds', () => {
  for (const shape of SHAPES) {
    const { keep, mask } = OPTIONS[shape];
    const keeps = keep?.type === 'word' ? keep.of : ['nothing'];
    expect(KEPT_PARTS.filter((part) => !isRefused(shape, 'keep', part)).toSorted()).toEqual(
      [...keeps].toSorted(),
    );
    expect(isRefused(shape, 'mask', defaultKind('one', shape).mask)).toBe(false);
    const shows = mask?.type === 'mask' ? mask.of : [];
    expect(shows).toContain(defaultKind('one', shape).mask.show);
    for (const show of shows)
      expect(isRefused(shape, 'mask', { show, first: 1, last: 1 })).toBe(false);
  }
});

test('the example of policy.md is a policy, and names the file of the schema', () => {
  const examples = blocks('docs/operating/policy.md', 'yaml');
  expect(examples.map(judged)).toEqual([{ schema: true, parser: true }]);
  expect(examples[0]).toContain('$schema=policy.schema.json\n');
});

test('docs/policy.schema.json is this schema', () => {
  expect(JSON.parse(readText('docs/policy.schema.json'))).toEqual(policySchema());
});
