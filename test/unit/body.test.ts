import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { MISREADS_NAMES } from '../../src/access/misread-names.ts';
import { Words } from '../../src/detect/words.ts';
import { CallerError } from '../../src/errors.ts';
import { NO_POLICY } from '../../src/policy/policy.ts';
import { PolicyRules } from '../../src/policy/rules.ts';
import {
  collectFields,
  type JsonObject,
  parseBody,
  replaceFields,
} from '../../src/public/body/data.ts';
import { findSpans } from '../../src/public/body/found-spans.ts';
import { dataOf as requestOf } from '../../src/public/body/request-data.ts';
import type { Exchange } from '../../src/public/exchange.ts';
import { inTurns } from '../support/loop.ts';

/** The message of the refusal, which must be an invalid_type. */
function messageOf(refused: () => unknown): string {
  try {
    refused();
  } catch (error) {
    expect(error).toBeInstanceOf(CallerError);
    expect((error as CallerError).code).toBe('invalid_type');
    return (error as CallerError).message;
  }
  throw new Error('was accepted');
}

const dataOf = (body: string | Buffer): unknown => parseBody(Buffer.from(body as string));
const refusal = (body: string | Buffer) => messageOf(() => dataOf(body));

test('data of a request about a text is an object, and no list', () => {
  for (const data of ['[]', '[{}]', 'null', '"a"'])
    expect(refusal(`{"data":${data}}`)).toBe('data: must be a JSON object');
});

describe('gives way to other work', () => {
  const rules = new PolicyRules(NO_POLICY);
  const caller = { client: { client_id: 'client_1', name: 'app', space: '' } };
  const context = {
    ...{ valuesLimit: 10, tokenSuffix: 'tok', metrics: { detections: () => {} } },
    ...{ authenticator: { find: () => caller }, policies: { current: () => rules } },
  };
  const exchange = {
    ...{ context, caller, request: { headers: {} } },
    ...{ reserve: () => {}, reserveFields: () => {} },
  } as unknown as Exchange;

  test.each([
    [262_144, 0],
    [262_145, 2],
  ])('a body of %i bytes, %i times', async (bytes, turns) => {
    const body = Buffer.from('{"data":{"a":"b"}}'.padEnd(bytes));
    const { made, taken } = await inTurns(() => requestOf(exchange, body));
    expect([made.texts, taken]).toEqual([['b'], turns]);
  });

  test('the search for the words of a caller, in each window of a text', async () => {
    const words = new Words();
    words.add('Bo', 'text');
    const texts = [{ text: 'Bo'.padStart(2 * 8_192 + 2, '. '), spans: [] }];
    const viewer = { rules } as never;
    const search = () => findSpans(exchange, viewer, texts, { words, isDetecting: false });
    const { made, taken } = await inTurns(search);
    expect(made[0]!.spans).toMatchObject([{ from: 16_384, to: 16_386 }]);
    expect(taken).toBe(3);
  });
});

describe('a body has at most 100,000 objects, lists and names', () => {
  const beside = (json: string, count: number) =>
    `{"z":[${Array(count).fill(json).join(',')}],"data":{"a":"b"}}`;
  const parts = { '{}': 1, '[]': 1, '[[]]': 2, '{"a":1}': 2, '{"a\\"{":[]}': 3 };
  test.each(Object.entries(parts))('%s', (json, parts) => {
    const most = Math.floor((100_000 - 6) / parts);
    expect(dataOf(beside(json, most))).toEqual({ a: 'b' });
    expect(refusal(beside(json, most + 1))).toMatch(/^body: has more than 10\d{4} objects, lists/);
  });
  test('of them at most 15,000 different names', () => {
    const names = (count: number) => {
      const different = Array.from({ length: count - 4 }, (_, i) => `"${i}":1`);
      const repeated = Array(20_000).fill('{"d":1}');
      return `{"data":{"a":"b"},"z":{${different.join()},"d":[${repeated.join()}]}}`;
    };
    expect(dataOf(names(15_000))).toEqual({ a: 'b' });
    expect(refusal(names(15_001))).toContain('has more than 15000 different names');
  });
  test('but strings and numbers without that bound, and one more for each 10 bytes', () => {
    expect(dataOf(beside('"{[:\\""', 110_000))).toEqual({ a: 'b' });
    expect(dataOf(beside('1', 400_000))).toEqual({ a: 'b' });
    expect(dataOf(beside(`{"${'n'.repeat(23)}":[]}`, 90_000))).toEqual({ a: 'b' });
  });
  test('and is no JSON when a string has no end', () => {
    expect(refusal(`{"z":[${'1,'.repeat(100_000)}"`)).toContain('valid JSON');
  });
});

type Json = string | null | Json[] | { members: [Name, Json][] };
interface Name {
  readonly text: string;
  /** How it is written: with the character at this index as an escape. */
  readonly escapedAt: number;
}

function written(json: Json): string {
  if (json === null || typeof json === 'string') return JSON.stringify(json);
  if (Array.isArray(json)) return `[${json.map(written).join(' , ')}]`;
  return `{${json.members.map(([name, inner]) => `${writtenName(name)} :${written(inner)}`)}}`;
}

function writtenName({ text, escapedAt }: Name): string {
  const units = [...text].map((unit, i) => {
    if (i !== escapedAt) return JSON.stringify(unit).slice(1, -1);
    const codes = unit.split('').map((half) => half.charCodeAt(0).toString(16).padStart(4, '0'));
    return codes.map((code) => `\\u${code}`).join('');
  });
  return `"${units.join('')}"`;
}

function hasTwins(json: Json): boolean {
  if (json === null || typeof json === 'string') return false;
  if (Array.isArray(json)) return json.some(hasTwins);
  const names = json.members.map(([name]) => name.text);
  return new Set(names).size < names.length || json.members.some(([, inner]) => hasTwins(inner));
}

test.runIf(MISREADS_NAMES)('no body makes JSON.parse misread the names of the next', () => {
  const BEFORE = ['\\\\', 'a\\\\', '\\u005c', 'a\\u005C', 'q\\"\\\\'];
  for (const name of BEFORE)
    expect(refusal(`{"data":{"${name}" :"x"}}`)).toContain('ends in a backslash');
  for (const name of ['\\n', 'a\\n', 'a\\u0062', '\\\\n', 'q\\"\\/']) {
    const body = `{"data":{"${name}":"C:\\\\","b":"\\\\\\":"}}`;
    expect(Object.keys(dataOf(body) as object)[0]).toBe(JSON.parse(`"${name}"`));
  }
});

test('of any JSON, exactly those with a name twice in one object are refused', () => {
  const text = fc.string({ unit: fc.constantFrom('a', 'b', '"', '\\', ':', '{', ' ') });
  const some = ['a', 'A', 'ab', '', '"', 'a":', '__proto__', '1', 'toString', 'é', 'e\u0301', '😀'];
  const few = fc.constantFrom(...some, ...(MISREADS_NAMES ? [] : ['\\']));
  const name = fc.record({ text: few, escapedAt: fc.integer({ min: 0, max: 12 }) });
  const { json } = fc.letrec<{ json: Json }>((tie) => ({
    json: fc.oneof(
      { maxDepth: 4, withCrossShrink: true },
      text,
      fc.constant(null),
      fc.array(tie('json'), { maxLength: 3 }),
      fc.record({ members: fc.array(fc.tuple(name, tie('json')), { maxLength: 4 }) }),
    ),
  }));
  const seen = { twins: 0, none: 0 };
  fc.assert(
    fc.property(fc.array(fc.tuple(name, json), { maxLength: 5 }), json, (members, beside) => {
      const data = { members };
      const body = `{"data":${written(data)},"x":${written(beside)}}`;
      const isTwice = hasTwins(data) || hasTwins(beside);
      if (isTwice) expect(refusal(body)).toContain('twice');
      else expect(dataOf(body)).toEqual(JSON.parse(body).data);
      seen[isTwice ? 'twins' : 'none']++;
    }),
    { numRuns: 1_000 },
  );
  expect(Math.min(seen.twins, seen.none)).toBeGreaterThan(100);
  expect(refusal('{"data":{"a":"1"},"data":{"b":"2"}}')).toContain('twice');
  expect(refusal('{"data":{"a":"1","a" \t\r\n:"2"}}')).toContain('twice');
});

test('fields of any JSON of strings come back in their places', () => {
  const json = fc.dictionary(
    fc.string().filter((name) => name !== '__proto__'),
    fc.oneof(
      fc.string(),
      fc.array(fc.string()),
      fc.dictionary(fc.constantFrom('a', 'b'), fc.string()),
    ),
  );
  fc.assert(
    fc.property(json, (json) => {
      const data = structuredClone(json) as JsonObject;
      const { fields } = collectFields(data, Infinity);
      const before = fields.map(({ text }) => text);
      const other = before.map((text) => `${text}!`);
      replaceFields(fields, other);
      expect(collectFields(data, Infinity).fields.map(({ text }) => text)).toEqual(other);
      replaceFields(fields, before);
      expect(data).toEqual(json);
    }),
  );
});
