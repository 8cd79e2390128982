import type { ValidateFunction } from 'ajv/dist/2020.js';
import fc from 'fast-check';
import { beforeAll, describe, expect, test } from 'vitest';
import type { OpenApiDocument } from '../../src/openapi/document.ts';
import { UNSTATED_RULES } from '../../src/openapi/introduction.ts';
import { DocumentSchemas } from '../support/docs.ts';
import { send } from '../support/http.ts';
import { servedOps } from '../support/ops.ts';
import { array, bodies, type JsonText, object, scalar, walk, write } from '../support/random.ts';
import { leastPrivilegePlace } from '../support/service.ts';

/** Few, so that generated requests get there. */
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

const namesOf = (json: JsonText) =>
  json.kind === 'object' ? json.members.map(([name]) => name) : [];
const bytesOf = (text: string) => Buffer.byteLength(text);
const textOf = (json: JsonText) =>
  json.kind === 'scalar' && typeof json.value === 'string' ? json.value : '';
const any = (all: JsonText, is: (json: JsonText, depth: number) => boolean) =>
  [...walk(all)].some(({ json, depth }) => is(json, depth));

/** The rules that are beside the schemas, once more and from their words, on the JSON as written. */
const BREAKS: Record<Rule, (data: JsonText, body: JsonText) => boolean> = {
  lists: (data) => data.kind === 'array',
  strings: (data) => any(data, (json) => json.kind === 'scalar' && typeof json.value !== 'string'),
  forbiddenName: (data) => any(data, (json) => namesOf(json).includes('__proto__')),
  valueBytes: (data) => any(data, (json) => bytesOf(textOf(json)) > 65_536),
  nameBytes: (data) => any(data, (json) => namesOf(json).some((name) => bytesOf(name) > 256)),
  depth: (data) => any(data, (json, depth) => json.kind !== 'scalar' && depth > 15),
  values: (data) =>
    [...walk(data)].filter(({ json }) => json.kind === 'scalar').length > VALUES_LIMIT,
  duplicates: (_data, body) =>
    any(body, (json) => new Set(namesOf(json)).size < namesOf(json).length),
  unicode: (data) =>
    any(data, (json) => [...namesOf(json), textOf(json)].some((text) => !text.isWellFormed())),
};

function brokenRules(body: JsonText): Rule[] {
  const data =
    body.kind === 'object' ? body.members.findLast(([name]) => name === 'data')?.[1] : undefined;
  return (Object.keys(BREAKS) as Rule[]).filter(
    (rule) => data !== undefined && BREAKS[rule](data, body),
  );
}

/** The verdicts of the schema and the rules. The service must agree with both together. */
async function expectAgreement(body: JsonText): Promise<{ isFit: boolean; broken: Rule[] }> {
  const text = write(body);
  const isFit = schema.TokenizeRequest!(JSON.parse(text));
  const broken = brokenRules(body);
  const answer = await ask('tokenize', text);
  expect([answer.status, isFit, broken]).toEqual([
    isFit && broken.length === 0 ? 200 : 400,
    isFit,
    broken,
  ]);
  expect(schema.DetokenizeRequest!(JSON.parse(text))).toBe(isFit);
  if (answer.status === 400) {
    expect(schema.InvalidType!(JSON.parse(answer.text))).toBe(true);
    const other = await ask('detokenize', text);
    // Read with the same eyes: the same words about the same place.
    expect([other.status, other.text]).toEqual([400, answer.text]);
    return { isFit, broken };
  }
  expectFit('TokenizeAnswer', answer.text);
  // Fields beside `data` are ignored, so an answer is a request.
  const restored = await ask('detokenize', answer.text);
  expectFit('DetokenizeAnswer', restored.text);
  expect(JSON.parse(restored.text).data).toEqual(JSON.parse(text).data);
  return { isFit, broken };
}

/** Fits, and has exactly the required fields. */
function expectFit(name: string, text: string): void {
  const body = JSON.parse(text);
  expect(schema[name]!(body), `${name}: ${JSON.stringify(schema[name]!.errors)}`).toBe(true);
  expect(Object.keys(body)).toEqual(document.components.schemas[name]!.required);
}

/** JSON as written. */
function of(json: unknown): JsonText {
  if (Array.isArray(json)) return array(...json.map(of));
  if (typeof json !== 'object' || json === null) return scalar(json as string);
  return object(...Object.entries(json).map(([name, one]): [string, JsonText] => [name, of(one)]));
}
const data = (json: unknown): JsonText => of({ data: json });
const prototype = (json: unknown): object => JSON.parse(`{"__proto__":${JSON.stringify(json)}}`);
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
const BORDERS: Record<Rule, [JsonText, JsonText][]> = {
  lists: [[data({}), data([{}])]],
  strings: [[of({ data: {}, more: 1 }), data({ a: ['x', [{ b: null }]] })]],
  forbiddenName: [
    [object(['data', object()], ['__proto__', scalar('x')]), data({ a: [prototype({})] })],
  ],
  valueBytes: [[data({ a: `${euros(21_845)}x` }), data({ a: euros(21_846) })]],
  nameBytes: [[data({ [`${euros(85)}x`]: 'x' }), data({ a: { [euros(86)]: [] } })]],
  depth: [[data(nested(16)), data(nested(17))]],
  values: [
    [data({ a: Array(VALUES_LIMIT).fill('x') }), data({ a: Array(VALUES_LIMIT + 1).fill('x') })],
  ],
  duplicates: [
    [
      of({ data: { a: 'x', A: 'x' }, b: { data: 1 } }),
      object(['data', object()], ['b', object(['a', scalar(1)], ['a', scalar(1)])]),
    ],
  ],
  unicode: [[of({ data: { '😀': 'a' }, '\ude00': '\ud83d' }), data({ '\ud83d': [] })]],
};

describe.each(Object.entries(BORDERS))('%s, which the schema does not say', (rule, borders) => {
  test('is in the document, and is what tells these apart', async () => {
    const said = UNSTATED_RULES[rule as Rule](VALUES_LIMIT);
    expect(document.info.description).toContain(`- ${said}\n`);
    for (const [within, beyond] of borders) {
      expect(await expectAgreement(within)).toEqual({ isFit: true, broken: [] });
      expect(await expectAgreement(beyond)).toEqual({ isFit: true, broken: [rule] });
    }
  });
});

test('the schema, with the rules beside it, says of any body what the service says', async () => {
  const verdicts = { fit: 0, unfit: 0, broken: 0 };
  await fc.assert(
    fc.asyncProperty(bodies, async (body) => {
      const { isFit, broken } = await expectAgreement(body);
      verdicts[!isFit ? 'unfit' : broken.length > 0 ? 'broken' : 'fit']++;
    }),
    { numRuns: 500 },
  );
  // None of the three is rare.
  expect(Math.min(...Object.values(verdicts)), JSON.stringify(verdicts)).toBeGreaterThan(15);
});
