import { Ajv2020 } from 'ajv/dist/2020.js';
import { expect, test } from 'vitest';
import { parse } from 'yaml';
import { parsePolicy } from '../../src/policy/parse.ts';
import { ELSEWHERE } from '../../src/policy/policy.ts';
import {
  MAX_CLIENTS,
  MAX_FIELDS,
  MAX_KINDS,
  OPTIONS,
  POLICY_SCHEMA,
} from '../../src/policy/schema.ts';
import { defaultKind, SHAPES } from '../../src/shape/kind-settings.ts';
import { blocks, readText } from '../support/docs.ts';

const validate = new Ajv2020({ strict: true, strictRequired: false }).compile(POLICY_SCHEMA);

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
  kind('{ shape: text, normalize: [], tokens: deterministic, time_to_live_s: 1, suffix: true }'),
  kind(
    '{ shape: text, country: DE, normalize: [e164], mask: { show: ends, first: 16, last: 16 } }',
  ),
  kind('{ shape: digits, check_digits: luhn, begins_with: "09" }'),
  kind('{ shape: word, length: 12, normalize: [trim, lower_case] }'),
  'version: 1\ndetect: { email: word, PERSON: word, US_SSN: word, "/a[0-9]/": word }',
  `version: 1\nfields: { a${'b'.repeat(999)}: text }\nelsewhere: pass`,
];

/** Refused beside what policy.test.ts has, where each mistake has its words. */
const BAD = [
  'version: 1\ndetect: { Person: word }',
  `version: 1\nkinds: { a${'b'.repeat(32)}: { shape: text } }`,
  `version: 1\nfields: { a${'b'.repeat(1_000)}: text }\nelsewhere: pass`,
  'version: 1\nfields: { a: Text }\nelsewhere: pass',
  'version: 1\nrights: { a: { "**": full } }',
  ...[1.5, -1].map((number) => kind(`{ shape: digits, keep_last: ${number} }`)),
  ...['9-', '123456789012'].map((text) => kind(`{ shape: digits, begins_with: "${text}" }`)),
  ...['email, keep: year', 'uuid, check_digits: luhn', 'word, length: 4'].map((one) =>
    kind(`{ shape: ${one} }`),
  ),
  ...[0, null].map((number) => kind(`{ shape: text, time_to_live_s: ${number} }`)),
  ...[0, 17].map((last) => kind(`{ shape: text, mask: { show: ends, last: ${last} } }`)),
];

/** In place of any part of a policy. */
const PARTS: readonly unknown[] = [
  ...[null, true, -1, 0, 1.5, 2, 7, 17, '', '4', '9-', '123456789012', 'x', 'Text', 'text', 'uuid'],
  ...['digits', 'year', 'a'.repeat(1_001), [], ['trim', 'trim'], ['trm'], {}, { '**': 'full' }],
  ...[{ show: 'year' }, { show: 'ends' }, { show: 'nothing', last: 1 }, { text: 'mask' }],
];
/** In place of any name. */
const NAMES = [
  ...['kep_last', 'keep', 'keep_first', 'check_digits', 'begins_with', 'mask', 'elsewhere', '**'],
  ...['Person', 'emial', 'email', '/a', 'One', `a${'b'.repeat(32)}`, `a${'b'.repeat(1_000)}`],
];

/** The document with one part or name changed or left out, in every way. */
function changesOf(json: unknown): unknown[] {
  if (Array.isArray(json))
    return json.flatMap((one, i) => changesOf(one).map((changed) => json.with(i, changed)));
  if (typeof json !== 'object' || json === null) return [...PARTS];
  const ofMembers = Object.entries(json).flatMap(([name, one]) => {
    const { [name]: _, ...rest } = json as Record<string, unknown>;
    const renamed = NAMES.map((other) => ({ ...rest, [other]: one }));
    return [rest, ...renamed, ...changesOf(one).map((changed) => ({ ...json, [name]: changed }))];
  });
  return [...PARTS, ...ofMembers];
}

/** Whether names are kinds, and whether the options of a kind go together: what no schema can tell. */
const ONLY_PARSER =
  /^the kind \w+( \(did you mean \w+\?\))? is not known: |^the kind (one:|\w+ must have shape: word)/;

test.each(GOOD)('the schema and the parser take %j', (text) => {
  expect(judged(text)).toEqual({ schema: true, parser: true });
});

test.each(BAD)('the schema and the parser refuse %j', (text) => {
  expect(judged(text)).toEqual({ schema: false, parser: false });
});

test.each(GOOD)('with anything changed, the schema and the parser judge alike: %j', (text) => {
  for (const changed of changesOf(parse(text))) {
    const isGood = validate(changed);
    const { mistakes } = parsePolicy(JSON.stringify(changed));
    const others = mistakes.filter((one) => !(isGood && ONLY_PARSER.test(one.text)));
    expect([changed, others.length === 0]).toEqual([changed, isGood]);
  }
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

test('numbers have the same bounds in the schema and in the parser', () => {
  for (const shape of SHAPES)
    for (const [name, form] of Object.entries(OPTIONS[shape])) {
      if (!('minimum' in form)) continue;
      const { minimum: min, maximum: max } = form;
      for (const value of [min - 1, min, max, max + 1]) {
        const isGood = value >= min && value <= max;
        const text = kind(`{ shape: ${shape}, ${name}: ${value} }`);
        expect([text, judged(text)]).toEqual([text, { schema: isGood, parser: isGood }]);
      }
    }
});

test.each(SHAPES)('what %s keeps and shows by default is possible for it', (shape) => {
  const { keep, mask } = defaultKind('one', shape);
  const all = JSON.stringify(OPTIONS[shape].mask);
  expect(all).toContain(`"show":{"const":"${mask.show}"}`);
  expect(JSON.stringify(OPTIONS[shape].keep ?? 'nothing')).toContain(`"${keep}"`);
});

test('the example of policy.md is a policy, and names the file of the schema', () => {
  const examples = blocks('docs/operating/policy.md', 'yaml');
  const isGood = { schema: true, parser: true };
  expect(examples.map(judged)).toEqual([isGood, isGood]);
  expect(examples[0]).toContain('$schema=policy.schema.json\n');
});

test('docs/policy.schema.json is this schema', () => {
  expect(JSON.parse(readText('docs/policy.schema.json'))).toEqual(POLICY_SCHEMA);
});
