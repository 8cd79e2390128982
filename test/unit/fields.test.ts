import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { pathText, Step } from '#paths';
import { CallerError } from '../../src/errors.ts';
import {
  collectFields,
  type JsonObject,
  parseBody,
  replaceFields,
} from '../../src/public/body/data.ts';

const VALUES_LIMIT = 10_000;

function refusal(data: unknown, valuesLimit = VALUES_LIMIT): string {
  try {
    collectFields(data as JsonObject, valuesLimit);
  } catch (error) {
    expect(error).toBeInstanceOf(CallerError);
    expect((error as CallerError).code).toBe('invalid_type');
    return (error as CallerError).message;
  }
  throw new Error('was accepted');
}

function texts(data: unknown): string[] {
  return collectFields(data as JsonObject, VALUES_LIMIT).fields.map((field) => field.text);
}

/** `data` and this many objects or arrays inside each other. */
function nested(levels: number, wrap: (inner: unknown) => unknown): unknown {
  let data: unknown = { leaf: 'x' };
  for (let level = 1; level < levels; level++) data = wrap(data);
  return Array.isArray(data) ? { data } : data;
}

describe('fields', () => {
  test('are all strings inside data, at any depth, in order', () => {
    const data = { a: '1', b: { c: '2', d: ['3', { e: '4' }, ['5']] }, f: {}, g: [] };
    expect(texts(data)).toEqual(['1', '2', '3', '4', '5']);
  });

  test('may be empty, spaces, NUL or emoji', () => {
    expect(texts({ a: '', b: ' ', c: 'x\0y', d: '😀' })).toEqual(['', ' ', 'x\0y', '😀']);
  });

  test('of any JSON of strings come back in their places', () => {
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
        const { fields } = collectFields(data, VALUES_LIMIT);
        const before = fields.map(({ text }) => text);
        replaceFields(
          fields,
          before.map((text) => `${text}!`),
        );
        expect(texts(data)).toEqual(before.map((text) => `${text}!`));
        replaceFields(fields, before);
        expect(data).toEqual(json);
      }),
    );
  });
});

describe('what is no string is refused with its path', () => {
  test.each([
    [{ a: null }, 'data.a: must be a string, not null'],
    [{ a: true }, 'data.a: must be a string, not a boolean'],
    [{ a: { b: false } }, 'data.a.b: must be a string, not a boolean'],
    [
      { customer: { emails: ['x', 12345] } },
      'data.customer.emails[1]: must be a string, not a number; send it in quotes, JSON numbers lose digits',
    ],
    [{ 'e mail': 1 }, /^data\["e mail"\]: must be a string, not a number/],
    [{ '': null }, 'data[""]: must be a string, not null'],
    [{ a: { b: 'x', c: ['y'] }, d: null }, 'data.d: must be a string, not null'],
    [{ a: [[{ b: null }]] }, 'data.a[0][0].b: must be a string, not null'],
  ])('%j', (data, message) => {
    const refused = refusal(data);
    if (typeof message === 'string') expect(refused).toBe(message);
    else expect(refused).toMatch(message);
  });
});

describe('names', () => {
  test.each([
    '{"data":{"__proto__":"bob"}}',
    '{"data":{"__proto__":{"x":"1"}}}',
    '{"data":{"a":[{"b":{"__proto__":[]}}]}}',
    '{"data":{"\\u005f_proto__":"bob"}}',
  ])('__proto__ is refused: %s', (body) => {
    expect(refusal(parseBody(Buffer.from(body)).data)).toContain('__proto__, which is not allowed');
    expect(({} as { x?: string }).x).toBeUndefined();
  });

  test.each([
    'constructor',
    'prototype',
    'toString',
    'hasOwnProperty',
    'length',
    '',
    '10',
    '__proto',
  ])('%j is a plain name', (name) => {
    expect(texts({ [name]: 'x' })).toEqual(['x']);
  });

  test.each([
    ['x'.repeat(256), 'x'.repeat(257)],
    ['é'.repeat(128), `${'é'.repeat(128)}x`],
    ['€'.repeat(85), '€'.repeat(86)],
    ['😀'.repeat(64), `${'😀'.repeat(64)}x`],
  ])('256 bytes of UTF-8 are the most: %.4j', (longest, longer) => {
    expect(texts({ a: { [longest]: 'x' } })).toEqual(['x']);
    expect(refusal({ a: { [longer]: 'x' } })).toBe(
      'data.a: has a field name longer than 256 bytes',
    );
  });

  test.each(['\ud83d', '\ude00', 'a\ud83d', '\ude00\ud83d'])(
    'half of a pair is refused: %j',
    (name) => {
      expect(refusal({ a: { [name]: 'x' } })).toBe(
        'data.a: has a field name that is not well-formed Unicode',
      );
    },
  );
});

describe('values', () => {
  test.each(['\ud83d', '\ude00', 'a\ud83dz', '\ude00\ud83d'])(
    'half of a pair is refused: %j',
    (text) => {
      expect(refusal({ a: ['ok', text] })).toMatch(/^data\.a\[1\]: must be well-formed Unicode/);
    },
  );

  test.each([
    ['x'.repeat(65_536), 'x'.repeat(65_537)],
    ['é'.repeat(32_768), `${'é'.repeat(32_768)}x`],
    ['€'.repeat(21_845), '€'.repeat(21_846)],
    ['😀'.repeat(16_384), `${'😀'.repeat(16_384)}x`],
  ])('65,536 bytes of UTF-8 are the most: %.4j', (longest, longer) => {
    expect(texts({ a: longest })).toEqual([longest]);
    expect(refusal({ a: longer })).toBe('data.a: must not be longer than 65536 bytes');
  });
});

describe('bounds', () => {
  test('as many values as the limit, and not one more', () => {
    const data = { a: ['1', '2', '3'], b: { c: '4' } };
    expect(collectFields(data, 4).fields).toHaveLength(4);
    expect(refusal(data, 3)).toBe('data: has more than 3 values; send them in several requests');
  });

  test.each([
    ['objects', (inner: unknown) => ({ a: inner })],
    ['arrays', (inner: unknown) => [inner]],
  ])('16 levels of %s, and not one more', (_, wrap) => {
    const levels = Array.isArray(wrap('')) ? 15 : 16;
    expect(texts(nested(levels, wrap))).toEqual(['x']);
    expect(refusal(nested(levels + 1, wrap))).toMatch(/: is nested deeper than 16 levels$/);
  });

  test('depth without bound is refused, not overflown', () => {
    expect(refusal(nested(100_000, (inner) => ({ a: inner })))).toContain('deeper than 16');
  });
});

test('no message has a value in it', () => {
  const half = '\ud83d';
  for (const data of [
    { a: `hunter2${half}` },
    { a: 'hunter2'.repeat(10_000) },
    { a: 'hunter2', b: 1234567 },
    { a: 'hunter2', __proto: null },
  ]) {
    const message = refusal(data);
    expect(message).not.toContain('hunter2');
    expect(message).not.toContain('1234567');
  }
  expect(refusal({ a: 'hunter2', b: 'hunter2' }, 1)).not.toContain('hunter2');
});

test('a collected field has its path, also where names and values repeat', () => {
  const data = { a: { x: '1' }, b: [{ x: '1' }, ['1', '1']], c: '1', 'd e': { x: '1' } };
  const { fields } = collectFields(data, VALUES_LIMIT);
  expect(fields.map(({ within, name }) => pathText(new Step(within, name)))).toEqual([
    'data.a.x',
    'data.b[0].x',
    'data.b[1][0]',
    'data.b[1][1]',
    'data.c',
    'data["d e"].x',
  ]);
});
