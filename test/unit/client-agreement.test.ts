import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { snapshot } from '../../packages/client/src/data.ts';
import { InvalidValueError } from '../../packages/client/src/errors.ts';
import { CallerError } from '../../src/errors.ts';
import { collectFields, parseBody } from '../../src/http/data.ts';
import { MAX_DEPTH } from '../../src/http/schema.ts';
import { MISREADS_NAMES } from '../../src/service/misread-names.ts';

/** What the client says of data that it does not send. */
function refusal(data: unknown): InvalidValueError {
  try {
    snapshot(data);
  } catch (error) {
    if (error instanceof InvalidValueError) return error;
    throw error;
  }
  throw new Error('was not refused');
}

/** What the service says of the same data; undefined: it takes it. */
function refusalOfService(data: unknown): string | undefined {
  try {
    collectFields(parseBody(Buffer.from(JSON.stringify({ data }))).data, 100_000);
  } catch (error) {
    if (error instanceof CallerError) return error.message;
    throw error;
  }
  return undefined;
}

const nested = (levels: number): object =>
  Array.from({ length: levels - 1 }).reduce<object>((inner) => ({ a: inner }), { a: 'x' });
const own = (name: string) => Object.fromEntries([[name, 'x']]);

describe('what the service would refuse is not sent', () => {
  test.each<[string, object]>([
    ['half of a surrogate pair', { a: ['b', '\ud83d'] }],
    ['a value that is too long', { 'e mail': ['ä'.repeat(32_769)] }],
    ['a name that is too long', { a: own('n'.repeat(257)) }],
    ['a name with half of a surrogate pair', { a: own('\ud83d') }],
    ['__proto__', { a: [own('__proto__')] }],
    ['too many levels', nested(MAX_DEPTH + 1)],
    ['too many levels without a value', { a: [[[[[[[[[[[[[[[[]]]]]]]]]]]]]]]] }],
  ])('%s: in the same words', (_, data) => {
    expect(refusal(data).message).toBe(refusalOfService(data));
  });

  test.each<[string, object]>([
    ['a number', { a: { b: 1 } }],
    ['null', { a: [null] }],
    ['a boolean', { 'a b': true }],
    ['null in an object', { a: null }],
  ])('%s: at the same place', (_, data) => {
    const start = (message = '') => message.slice(0, message.indexOf(', not') + 1);
    expect(start(refusal(data).message)).toMatch(/^data.*must be a string,$/);
    expect(start(refusal(data).message)).toBe(start(refusalOfService(data)));
  });

  test.each<[string, object]>([
    ['the longest value', { a: 'ä'.repeat(32_768) }],
    ['the longest name', { a: own('n'.repeat(256)) }],
    ['the deepest', nested(MAX_DEPTH)],
    ['names of Object', { constructor: 'a', toString: 'b', hasOwnProperty: 'c', toJSON: 'd' }],
  ])('%s goes through both', (_, data) => {
    expect(refusalOfService(data)).toBeUndefined();
    expect(snapshot(data).copy).toEqual(data);
  });

  test('any JSON: the client takes what the service takes', () => {
    // The one name that a service refuses only where V8 would misread others by it.
    const key = fc.string().filter((name) => !(MISREADS_NAMES && name.endsWith('\\')));
    fc.assert(
      fc.property(fc.object({ key, withNullPrototype: true, maxDepth: 4 }), (data) => {
        fc.pre(JSON.stringify(JSON.parse(JSON.stringify(data))) === JSON.stringify(data));
        const told = refusalOfService(data);
        if (told === undefined) expect(snapshot(data).copy).toEqual({ ...data });
        else expect(refusal(data).path).toBe(told.slice(0, told.lastIndexOf(': ')));
      }),
    );
  });
});
