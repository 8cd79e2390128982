import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { batchesOf, VALUES } from '../src/batches.ts';
import { jsonOf, pathOf, rebuilt, snapshot, snapshotOfRecord, utf8Bytes } from '../src/data.ts';
import { InvalidValueError } from '../src/errors.ts';

/** The client's error for data that it does not send. */
function refusal(data: unknown): InvalidValueError {
  try {
    snapshot(data);
  } catch (error) {
    if (error instanceof InvalidValueError) return error;
    throw error;
  }
  throw new Error('was not refused');
}

describe('what JSON would change is refused', () => {
  test.each<[string, unknown, string]>([
    ['a date', { a: new Date(0) }, 'data.a: must be a string, not an instance of Date'],
    ['a map', { a: [new Map()] }, 'data.a[0]: must be a string, not an instance of Map'],
    [
      'an instance',
      { a: new (class {})() },
      'data.a: must be a string, not an instance of a class',
    ],
    [
      'a boxed string',
      { a: new String('b') },
      'data.a: must be a string, not an instance of String',
    ],
    ['a function', { a: () => 'b' }, 'data.a: must be a string, not a function'],
    ['toJSON', { a: { toJSON: () => 'b' } }, 'data.a.toJSON: must be a string, not a function'],
    ['a large number', { a: 1n }, 'data.a: must be a string, not a bigint'],
    ['a hole in a list', { a: new Array(2) }, 'data.a[0]: must be a string, not undefined'],
    ['a root that is a string', 'Ann Lee', 'data: must be an object or a list, not a string'],
    ['no root', undefined, 'data: must be an object or a list, not undefined'],
    ['a root that is a date', new Date(0), 'data: must be a string, not an instance of Date'],
  ])('%s', (_, data, message) => {
    expect(refusal(data).message).toContain(message);
    expect(refusal(data)).toMatchObject({ code: 'invalid_type', attempts: 0, status: undefined });
  });

  test('a structure that has itself inside', () => {
    const data: Record<string, unknown> = { a: 'b' };
    data.self = data;
    expect(refusal(data).message).toMatch(/is nested deeper than 16 levels$/);
  });

  test('no value is in a message', () => {
    for (const data of [{ a: 'hunter2\ud83d' }, { a: 1234567 }, 'hunter2'])
      expect(refusal(data).message).not.toMatch(/hunter2|1234567/);
  });
});

test('properties that are undefined are left out, and symbols', () => {
  const { copy, values } = snapshot({ a: undefined, b: 'c', [Symbol('d')]: 'e' });
  expect(copy).toStrictEqual({ b: 'c' });
  expect(values).toEqual(['c']);
});

describe('a record', () => {
  test('has all of JSON, and bigints, of which only the type is sent', () => {
    const record = { id: 2n ** 64n, list: [null, true, -0, 1.5, 'x'], long: 'y'.repeat(70_000) };
    const { copy, values } = snapshotOfRecord(record, ['data']);
    expect(copy).toStrictEqual(record);
    expect(values).toHaveLength(2);
    expect(JSON.parse(jsonOf(copy)).id).toBe(0);
    const prototype = BigInt.prototype as { toJSON?: () => string };
    prototype.toJSON = () => 'a string';
    try {
      expect(jsonOf(copy)).toContain('"id":0,');
    } finally {
      delete prototype.toJSON;
    }
  });

  test.each<[unknown, string]>([
    [{ a: [Number.NaN] }, 'data[3].a[0]: must be JSON, not NaN'],
    [{ a: new Date(0) }, 'data[3].a: must be JSON, not an instance of Date; use plain objects'],
    [{ a: [undefined] }, 'data[3].a[0]: must be JSON, not undefined; leave it out'],
    [['a'], 'data[3]: must be a record, a plain object, not'],
    [null, 'data[3]: must be a record, a plain object, not null'],
    [JSON.parse('{"__proto__":1}'), 'data[3]: has a field named __proto__'],
  ])('%o is refused', (record, message) => {
    expect(() => snapshotOfRecord(record, ['data', 3])).toThrow(message);
  });
});

/** Structures of strings that a caller may pass. */
const { structure } = fc.letrec((tie) => ({
  structure: fc.oneof(
    { maxDepth: 4 },
    fc.string({ unit: 'binary' }),
    fc.array(tie('structure'), { maxLength: 5 }),
    fc.dictionary(
      fc.string({ unit: 'binary', maxLength: 60 }).filter((name) => name !== '__proto__'),
      tie('structure'),
      { maxKeys: 5 },
    ),
  ),
}));

describe('any structure', () => {
  test('is put together again, names in their order, and the twin is read at the same places', () => {
    fc.assert(
      fc.property(fc.array(structure, { maxLength: 5 }), (data) => {
        const { copy, values } = snapshot(data);
        const seen: string[] = [];
        const twin = rebuilt(copy, (value) => `${value}!`);
        const again = rebuilt(
          copy,
          (value, ofTwin) => {
            seen.push(value);
            expect(ofTwin).toBe(`${value}!`);
            return value;
          },
          twin,
        );
        expect(JSON.stringify(again)).toBe(JSON.stringify(data));
        expect(seen).toEqual(values);
      }),
    );
  });

  test('the first place of a value is found, and written as the service writes it', () => {
    const { copy } = snapshot([{ 'e mail': { '"': ['x', 'y'] } }, { a: { b_1: 'z' } }, 'x']);
    expect(['x', 'y', 'z'].map((value) => pathOf(copy, value))).toEqual([
      'data[0]["e mail"]["\\""][0]',
      'data[0]["e mail"]["\\""][1]',
      'data[1].a.b_1',
    ]);
  });
});

describe('batches', () => {
  test('have all values in order, each once, and keep to their bounds', () => {
    fc.assert(
      fc.property(
        fc.array(fc.string({ unit: 'binary' })),
        fc.integer({ min: 1, max: 10 }),
        fc.integer({ min: 1, max: 200 }),
        (values, maxValues, maxBytes) => {
          const batches = [...batchesOf(values, VALUES, { maxValues, maxBytes })];
          expect(batches.flatMap((batch) => batch.items)).toEqual(values);
          batches.forEach(({ items, body }, i) => {
            expect(JSON.parse(body)).toEqual({ data: { values: items } });
            expect(items.length).toBeLessThanOrEqual(maxValues);
            if (items.length > 1) expect(Buffer.byteLength(body)).toBeLessThanOrEqual(maxBytes);
            // The first of the next would have been too much.
            const [next] = batches[i + 1]?.items ?? [];
            const bytes = Buffer.byteLength(`${body},${JSON.stringify(next)}`);
            if (next !== undefined)
              expect(items.length === maxValues || bytes > maxBytes).toBe(true);
          });
        },
      ),
    );
  });

  test('are filled as far as they may be', () => {
    const body = '{"data":{"values":["ä","b"]}}';
    const bytes = Buffer.byteLength(body);
    expect(
      [...batchesOf(['ä', 'b'], VALUES, { maxValues: 9, maxBytes: bytes })].map(({ body }) => body),
    ).toEqual([body]);
    expect([...batchesOf(['ä', 'b'], VALUES, { maxValues: 9, maxBytes: bytes - 1 })]).toHaveLength(
      2,
    );
  });

  test('bytes are those of UTF-8', () => {
    fc.assert(
      fc.property(fc.string({ unit: 'binary' }), (text) => {
        expect(utf8Bytes(text)).toBe(Buffer.byteLength(text));
      }),
    );
  });
});
