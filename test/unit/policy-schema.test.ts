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
  kind('{ shape: text, mask: { show: ends, first: 16, last: 16 } }'),
  kind('{ shape: word, length: 12, normalize: [trim, lower_case] }'),
  'version: 1\ndetect: { email: word, PERSON: word, US_SSN: word, "/a[0-9]/": word }',
];

const BAD = [
  '[]',
  '{}',
  'fields: { a: text }\nelsewhere: pass',
  'version: 2',
  'version: 1\nkinds: {}',
  'version: 1\nfields: { a: text }',
  'version: 1\nfields: { a: text }\nelsewhere: drop',
  'version: 1\nelsewhere: pass',
  'version: 1\nfields: {}\nelsewhere: pass',
  'version: 1\ndetect: { emial: word }',
  'version: 1\ndetect: { Person: word }',
  'version: 1\ndetect: { "/a": word }',
  'version: 1\ndetect: { email: 5 }',
  'version: 1\nkind: { one: { shape: text } }',
  'version: 1\nkinds: { One: { shape: text } }',
  'version: 1\nkinds: { email: { shape: email } }',
  `version: 1\nkinds: { a${'b'.repeat(32)}: { shape: text } }`,
  `version: 1\nfields: { a${'b'.repeat(1_000)}: text }\nelsewhere: pass`,
  'version: 1\nfields: { a: 5 }\nelsewhere: pass',
  'version: 1\nfields: { a: Text }\nelsewhere: pass',
  'version: 1\nrights: { a: full }',
  'version: 1\nrights: { a: { text: mask } }',
  'version: 1\nrights: { a: { "**": full } }',
  kind('{}'),
  kind('{ shape: digit }'),
  kind('{ shape: text, keep: domain }'),
  kind('{ shape: email, keep: year }'),
  kind('{ shape: digits, keep_last: "4" }'),
  kind('{ shape: digits, keep_last: 1.5 }'),
  kind('{ shape: digits, keep_last: -1 }'),
  kind('{ shape: digits, begins_with: 9 }'),
  kind('{ shape: digits, begins_with: "9-" }'),
  kind('{ shape: digits, begins_with: "123456789012" }'),
  kind('{ shape: text, keep_first: 1 }'),
  kind('{ shape: uuid, check_digits: luhn }'),
  kind('{ shape: word, length: 4 }'),
  kind('{ shape: text, suffix: "no" }'),
  kind('{ shape: text, normalize: trim }'),
  kind('{ shape: text, normalize: [trim, trim] }'),
  kind('{ shape: text, country: Germany }'),
  kind('{ shape: text, time_to_live_s: 0 }'),
  kind('{ shape: text, time_to_live_s: null }'),
  kind('{ shape: text, mask: {} }'),
  kind('{ shape: text, mask: { show: year } }'),
  kind('{ shape: text, mask: { show: ends } }'),
  kind('{ shape: text, mask: { show: ends, last: 0 } }'),
  kind('{ shape: text, mask: { show: ends, last: 17 } }'),
  kind('{ shape: text, mask: { show: nothing, last: 1 } }'),
];

/** Mistakes that a schema cannot tell. */
const ONLY_PARSER = [
  'version: 1\nkinds: { bare: { shape: word, suffix: false } }\ndetect: { email: bare }',
  'version: 1\ndetect: { "/(/": word }',
  'version: 1\ndetect: { "/a*/": word }',
  'version: 1\nfields: { a: card }\nelsewhere: pass',
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
