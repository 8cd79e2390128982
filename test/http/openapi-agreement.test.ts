import type { ValidateFunction } from 'ajv/dist/2020.js';
import fc from 'fast-check';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { OpenApiDocument } from '../../src/openapi/document.ts';
import { UNSTATED_RULES } from '../../src/openapi/introduction.ts';
import { DocumentSchemas } from '../support/docs.ts';
import { send } from '../support/http.ts';
import { freePort } from '../support/processes.ts';
import { array, bodies, type JsonText, object, scalar, walk, write } from '../support/random.ts';
import { leastPrivilegePlace, type Service, startService } from '../support/service.ts';

/** Few, so that generated requests get there. */
const VALUES_LIMIT = 40;
type Rule = keyof typeof UNSTATED_RULES;

let service: Service;
let document: OpenApiDocument;
let schema: Record<string, ValidateFunction>;
beforeAll(async () => {
  service = await startService(await leastPrivilegePlace(), {
    OPS_PORT: String(await freePort()),
    VALUES_LIMIT: String(VALUES_LIMIT),
  });
  document = (await (await fetch(`${service.opsUrl}/openapi.json`)).json()) as OpenApiDocument;
  const schemas = new DocumentSchemas(document);
  schema = Object.fromEntries(
    Object.keys(document.components.schemas).map((name) => [
      name,
      schemas.at('components', 'schemas', name),
    ]),
  );
});
afterAll(async () => {
  await service.stop();
  service.place.remove();
});

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

/** What the schema says, what the rules say, and that the service says both together. */
async function expectAgreement(body: JsonText): Promise<{ isFit: boolean; broken: Rule[] }> {
  const text = write(body);
  const isFit = schema.TokenizeRequest!(JSON.parse(text));
  const broken = brokenRules(body);
  const answer = await send(service, '/api/v1/tokenize', text);
  expect([answer.status, isFit, broken]).toEqual([
    isFit && broken.length === 0 ? 200 : 400,
    isFit,
    broken,
  ]);
  expect(schema.DetokenizeRequest!(JSON.parse(text))).toBe(isFit);
  if (answer.status === 400) {
    expect(schema.InvalidType!(JSON.parse(answer.text))).toBe(true);
    const other = await send(service, '/api/v1/detokenize', text);
    // Read with the same eyes: the same words about the same place.
    expect([other.status, other.text]).toEqual([400, answer.text]);
    return { isFit, broken };
  }
  expectFit('TokenizeAnswer', answer.text);
  // Fields beside `data` are ignored, so an answer is a request.
  const restored = await send(service, '/api/v1/detokenize', answer.text);
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

/** Objects and arrays in turn; the outermost is an object. */
const nested = (levels: number): JsonText => {
  let data = object(['a', scalar('x')]);
  for (let level = 2; level <= levels; level++) {
    data = (levels - level) % 2 === 0 ? object(['a', data]) : array(data);
  }
  return data;
};
const data = (json: JsonText): JsonText => object(['data', json]);
const values = (count: number) => array(...Array.from({ length: count }, () => scalar('x')));

/** At the limit, and a step beyond it: the schema takes both, the service the first. */
const BORDERS: Record<Rule, [JsonText, JsonText][]> = {
  lists: [[data(object()), data(array(object()))]],
  strings: [1, -0.5, 1e300, true, false, null].flatMap((value): [JsonText, JsonText][] => [
    [data(object(['a', scalar(String(value))])), data(object(['a', scalar(value)]))],
    [
      object(['data', object()], ['more', scalar(value)]),
      data(object(['a', array(scalar('x'), array(object(['b', scalar(value)])))])),
    ],
  ]),
  forbiddenName: [
    [
      data(object(['constructor', scalar('x')], ['hasOwnProperty', scalar('y')])),
      data(object(['__proto__', scalar('x')])),
    ],
    [
      object(['data', object()], ['__proto__', scalar('x')]),
      data(object(['a', array(object(['__proto__', object()]))])),
    ],
  ],
  valueBytes: [
    [
      data(object(['a', scalar(`${'€'.repeat(21_845)}x`)])),
      data(object(['a', scalar('€'.repeat(21_846))])),
    ],
    [
      data(object(['a', scalar('x'.repeat(65_536))])),
      data(object(['a', array(scalar('x'.repeat(65_537)))])),
    ],
  ],
  nameBytes: [
    [
      data(object([`${'€'.repeat(85)}x`, scalar('x')])),
      data(object(['€'.repeat(86), scalar('x')])),
    ],
    [
      data(object(['x'.repeat(256), scalar('')])),
      data(object(['a', object(['x'.repeat(257), array()])])),
    ],
  ],
  depth: [[data(nested(16)), data(nested(17))]],
  values: [
    [data(object(['a', values(VALUES_LIMIT)])), data(object(['a', values(VALUES_LIMIT + 1)]))],
  ],
  duplicates: [
    [
      data(object(['a', scalar('x')], ['A', scalar('x')])),
      data(object(['a', scalar('x')], ['a', scalar('x')])),
    ],
    [
      object(['data', object()], ['b', object(['data', scalar(1)])]),
      object(['data', object()], ['b', object(['a', scalar(1)], ['a', scalar(1)])]),
    ],
  ],
  unicode: [
    [data(object(['a', scalar('😀')])), data(object(['a', scalar('\ud83d')]))],
    [data(object(['😀', scalar('a')])), data(object(['\ude00', scalar('a')]))],
    [object(['data', object()], ['\ude00', scalar('\ud83d')]), data(object(['\ud83d', array()]))],
  ],
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

test('bytes that are not UTF-8 are refused, in and beside data', async () => {
  for (const text of ['{"data":{"a":"\xff"}}', '{"data":{},"b":"\xff"}']) {
    const { status } = await send(service, '/api/v1/tokenize', Buffer.from(text, 'latin1'));
    expect(status).toBe(400);
  }
});

/** The schema alone tells these apart. */
const STATED: [JsonText, boolean][] = [
  [object(), false],
  [array(data(object())), false],
  [scalar('data'), false],
  [scalar(null), false],
  [object(['Data', object()]), false],
  [data(scalar('x')), false],
  [data(scalar(null)), false],
  [data(object()), true],
  [data(object(['a', array()], ['b', object()], ['c', array(array(object()))])), true],
  [data(object(['', scalar('')])), true],
];

test('the schema says of a corpus what the service says', async () => {
  for (const [body, isFit] of STATED) {
    const verdict = await expectAgreement(body);
    expect([write(body).slice(0, 100), verdict.isFit]).toEqual([write(body).slice(0, 100), isFit]);
  }
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
