import type { ValidateFunction } from 'ajv/dist/2020.js';
import { beforeAll, describe, expect, test } from 'vitest';
import type { OpenApiDocument } from '../../src/openapi/document.ts';
import { UNSTATED_RULES } from '../../src/openapi/introduction.ts';
import { DocumentSchemas } from '../support/docs.ts';
import { send } from '../support/http.ts';
import { servedOps } from '../support/ops.ts';
import { leastPrivilegePlace } from '../support/service.ts';

const VALUES_LIMIT = 40;
type Rule = keyof typeof UNSTATED_RULES;

const at = servedOps({ VALUES_LIMIT: String(VALUES_LIMIT) }, leastPrivilegePlace);
let document: OpenApiDocument;
let schema: Record<string, ValidateFunction>;
beforeAll(async () => {
  document = JSON.parse((await at.ask('/openapi.json')).text);
  const schemas = new DocumentSchemas(document);
  const names = Object.keys(document.components.schemas);
  schema = Object.fromEntries(names.map((n) => [n, schemas.at('components', 'schemas', n)]));
});
const ask = (operation: string, body: string) => send(at.service, `/api/v1/${operation}`, body);

/** The same of tokenize and detokenize, which read a body with the same eyes. */
async function expectRefused(body: string): Promise<void> {
  const { status, text } = await ask('tokenize', body);
  expect([body.slice(0, 80), status]).toEqual([body.slice(0, 80), 400]);
  expect(schema.InvalidType!(JSON.parse(text))).toBe(true);
  const other = await ask('detokenize', body);
  expect([other.status, other.text]).toEqual([400, text]);
}

async function expectAccepted(body: string): Promise<void> {
  const { status, text } = await ask('tokenize', body);
  expect([body.slice(0, 80), status]).toEqual([body.slice(0, 80), 200]);
  expectFit('TokenizeAnswer', text);
  // Fields beside `data` are ignored, so an answer is a request.
  const restored = await ask('detokenize', text);
  expectFit('DetokenizeAnswer', restored.text);
  expect(JSON.parse(restored.text).data).toEqual(JSON.parse(body).data);
}

/** Fits, and has exactly the required fields. */
function expectFit(name: string, text: string): void {
  const body = JSON.parse(text);
  expect(schema[name]!(body), `${name}: ${JSON.stringify(schema[name]!.errors)}`).toBe(true);
  expect(Object.keys(body)).toEqual(document.components.schemas[name]!.required);
}

const data = (json: unknown, more: object = {}) => JSON.stringify({ data: json, ...more });
/** Objects and arrays in turn; the outermost is an object. */
const nested = (levels: number): unknown => {
  let inner: unknown = { a: 'x' };
  for (let level = 2; level <= levels; level++)
    inner = (levels - level) % 2 === 0 ? { a: inner } : [inner];
  return inner;
};
const euros = (count: number) => '€'.repeat(count);

/**
 * At the limit, and a step beyond it: the schema takes both, the service the first.
 * `inputs.test.ts` has every way to be beyond it.
 */
const BORDERS: Record<Rule, [within: string, beyond: string][]> = {
  lists: [[data({}), data([{}])]],
  strings: [[data({}, { more: 1 }), data({ a: ['x', [{ b: null }]] })]],
  forbiddenName: [['{"data":{},"__proto__":"x"}', '{"data":{"a":[{"__proto__":{}}]}}']],
  valueBytes: [[data({ a: `${euros(21_845)}x` }), data({ a: euros(21_846) })]],
  nameBytes: [[data({ [`${euros(85)}x`]: 'x' }), data({ a: { [euros(86)]: [] } })]],
  depth: [[data(nested(16)), data(nested(17))]],
  values: [
    [data({ a: Array(VALUES_LIMIT).fill('x') }), data({ a: Array(VALUES_LIMIT + 1).fill('x') })],
  ],
  duplicates: [
    [data({ a: 'x', A: 'x' }, { b: { data: 1 } }), '{"data":{},"b":{"a":1,"a":1}}'],
    [data({ constructor: 'x', hasOwnProperty: 'y' }), '{"data":{"a":"x","a":"x"}}'],
  ],
  unicode: [
    [data({ '😀': '😀' }), data({ a: '\ud83d' })],
    [data({}, { '\ude00': '\ud83d' }), data({ '\ud83d': [] })],
  ],
};

describe.each(Object.entries(BORDERS))('%s, which the schema does not say', (rule, borders) => {
  test('is in the document, and is what tells these apart', async () => {
    const said = UNSTATED_RULES[rule as Rule](VALUES_LIMIT);
    expect(document.info.description).toContain(`- ${said}\n`);
    for (const [within, beyond] of borders) {
      for (const body of [within, beyond])
        for (const name of ['TokenizeRequest', 'DetokenizeRequest'])
          expect([body.slice(0, 80), schema[name]!(JSON.parse(body))]).toEqual([
            body.slice(0, 80),
            true,
          ]);
      await expectAccepted(within);
      await expectRefused(beyond);
    }
  });
});

test.each([
  '{}',
  'null',
  '[]',
  '"data"',
  '{"Data":{}}',
  '{"data":"a"}',
  '{"data":7}',
  '{"data":null}',
])('what the schema does not take, the service does not take: %s', async (body) => {
  expect(schema.TokenizeRequest!(JSON.parse(body))).toBe(false);
  await expectRefused(body);
});
