import { Ajv2020 } from 'ajv/dist/2020.js';
import { expect, test } from 'vitest';
import { parse } from 'yaml';
import { OPTIONS } from '../../src/policy/format.ts';
import { parsePolicy } from '../../src/policy/parse.ts';
import { policySchema } from '../../src/policy/schema.ts';
import { SHAPES } from '../../src/shape/kind-settings.ts';
import { readText } from '../support/docs.ts';

const validate = new Ajv2020({ strict: true, strictRequired: false }).compile(policySchema());

/** Whether the schema and the parser take a document. */
function judged(text: string): { schema: boolean; parser: boolean } {
  return { schema: validate(parse(text)), parser: parsePolicy(text).mistakes.length === 0 };
}

const kind = (text: string) => `version: 1\nkinds: { one: ${text} }`;

const GOOD = [
  'version: 1',
  '{"$schema": "policy.schema.json", "version": 1}',
  'version: 1\nfields: { a.b: text, "c[*]": uuid, "[\\"a b\\"]": word }',
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
  'fields: { a: text }',
  'version: 2',
  'version: "1"',
  'version: 1\nkinds: {}',
  'version: 1\nfields: {}',
  'version: 1\nrights: {}',
  'version: 1\nkinds: null',
  'version: 1\nkind: { one: { shape: text } }',
  'version: 1\nkinds: { One: { shape: text } }',
  'version: 1\nkinds: { email: { shape: email } }',
  `version: 1\nkinds: { a${'b'.repeat(32)}: { shape: text } }`,
  `version: 1\nfields: { a${'b'.repeat(1_000)}: text }`,
  'version: 1\nfields: { a: 5 }',
  'version: 1\nfields: { a: Text }',
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
  'version: 1\nfields: { a: card }',
  'version: 1\nfields: { a: text, a.b: text }',
  'version: 1\nfields: { "a[": text }',
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

test('the schema explains every option of every shape', () => {
  const text = JSON.stringify(policySchema());
  for (const options of Object.values(OPTIONS))
    for (const { meaning } of Object.values(options)) expect(text).toContain(meaning);
});

test('docs/policy.schema.json is this schema', () => {
  expect(JSON.parse(readText('docs/policy.schema.json'))).toEqual(policySchema());
});
