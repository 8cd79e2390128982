import { describe, expect, test } from 'vitest';
import { ForbiddenError, InvalidValueError, inTermsOf } from '../src/errors.ts';
import { FieldSelection } from '../src/fields.ts';

/** The record with its picked strings in capitals, as a service would replace them. */
function replaced(data: unknown, ...fields: string[]): unknown {
  const pick = new FieldSelection(data, fields);
  return pick.with(pick.values.map((value) => value.toUpperCase()));
}

const born = new Date(0);
const plan = new Map([['a', 1]]);
const record = () => ({
  id: 7,
  email: 'a@x',
  phone: null,
  born,
  plan,
  tags: ['b', null, 'c'],
  'full name': 'ann',
  orders: [
    { to: 'one', total: 1.5, note: 'x' },
    { to: 'two', total: 2n },
  ],
});

describe('only the named strings change', () => {
  test.each<[string[], object]>([
    [['email'], { email: 'A@X' }],
    [['email', 'email', '["email"]'], { email: 'A@X' }],
    [['phone'], {}],
    [['tags[*]'], { tags: ['B', null, 'C'] }],
    [['tags[0]', 'tags[*]', 'tags[9]?'], { tags: ['B', null, 'C'] }],
    [['full name'], { 'full name': 'ANN' }],
    [['["full name"]', 'fax?', 'fax.home?'], { 'full name': 'ANN' }],
    [
      ['orders[*].to', 'orders[*].note?'],
      {
        orders: [
          { to: 'ONE', total: 1.5, note: 'X' },
          { to: 'TWO', total: 2n },
        ],
      },
    ],
  ])('%j', (fields, changes) => {
    const data = record();
    const answer = replaced(data, ...fields) as typeof data;
    expect(answer).toStrictEqual({ ...record(), ...changes });
    expect(Object.keys(answer)).toEqual(Object.keys(data));
    expect(data).toStrictEqual(record());
    expect(answer.born).toBe(born);
    expect(answer.plan).toBe(plan);
  });

  test('in every record of a list', () => {
    expect(replaced([{ a: 'x', b: 1 }, { a: null }, { a: 'y' }], 'a')).toEqual([
      { a: 'X', b: 1 },
      { a: null },
      { a: 'Y' },
    ]);
    expect(replaced([], 'a')).toEqual([]);
  });

  test('names of Object are plain names', () => {
    const data = JSON.parse('{"__proto__":"a","constructor":"b","c":{"toString":"d"}}');
    const answer = replaced(data, '__proto__', 'constructor', 'c.toString');
    expect(JSON.stringify(answer)).toBe('{"__proto__":"A","constructor":"B","c":{"toString":"D"}}');
    expect(() => replaced({}, 'constructor')).toThrow('data.constructor: is missing');
  });
});

describe('what cannot be replaced is refused with its path, never in clear by mistake', () => {
  test.each<[string, string]>([
    ['emial', 'data.emial: is missing; if it may be, write a question mark after the field'],
    ['orders[*].note', 'data.orders[1].note: is missing'],
    ['tags[3]', 'data.tags[3]: is missing'],
    ['id', 'data.id: must be a string, not a number'],
    ['born', 'data.born: must be a string, not an instance of Date'],
    ['born.year', 'data.born: must be a plain object, as the field says'],
    ['plan.a?', 'data.plan: must be a plain object'],
    ['email.a', 'data.email: must be a plain object'],
    ['tags', 'data.tags: must be a string, not an instance of Array'],
    ['tags.length', 'data.tags: must be a plain object'],
    ['email[*]', 'data.email: must be a list'],
    ['orders[*].total', 'data.orders[0].total: must be a string, not a number'],
  ])('%s', (field, message) => {
    expect(() => replaced(record(), field)).toThrow(InvalidValueError);
    expect(() => replaced(record(), field)).toThrow(message);
  });

  test('in a list, with the index of the record', () => {
    expect(() => replaced([{ a: 'x' }, {}], 'a')).toThrow('data[1].a: is missing');
    expect(() => replaced([{ a: 'x' }, 'y'], 'a')).toThrow('data[1]: must be a plain object');
  });

  test('a refusal of the service names the path in the record', () => {
    const pick = new FieldSelection(record(), ['tags[*]', 'tags[0]', 'orders[*].to']);
    // Each place once.
    expect(pick.values).toEqual(['b', 'c', 'one', 'two']);
    const refusal = (path: string) =>
      new InvalidValueError(path, 'is odd', { code: 'a', attempts: 1 });
    const moved = (error: unknown) => inTermsOf(error, pick.pathFor);
    expect(moved(refusal('data[1]'))).toMatchObject({ path: 'data.tags[2]', reason: 'is odd' });
    expect(moved(refusal('data[3]'))).toMatchObject({ path: 'data.orders[1].to' });
    expect(moved(refusal('data'))).toMatchObject({ path: 'data' });
    const told = { code: 'forbidden', attempts: 1, detail: 'data[1]: may not' };
    const forbidden = new ForbiddenError('403: data[1]: may not', told, 'data[1]', 'card');
    expect(moved(forbidden)).toMatchObject({
      ...{ path: 'data.tags[2]', kind: 'card', code: 'forbidden' },
      ...{ message: '403: data.tags[2]: may not', detail: 'data.tags[2]: may not' },
    });
    const other = new Error('other');
    expect(moved(other)).toBe(other);
  });
});

test.each(['', '.a', 'a..b', 'a b]', 'a[b]', 'a[*', 'a??', '?', '["\\x"]', '["a"', 'a,b', 7])(
  '%j is no path',
  (field) => {
    expect(() => new FieldSelection({ a: 'x' }, [field])).toThrow(TypeError);
    expect(() => new FieldSelection({ a: 'x' }, [field])).toThrow(/^fields: /);
  },
);

test('no fields at all are refused', () => {
  for (const fields of [[], 'email', {}])
    expect(() => new FieldSelection({ a: 'x' }, fields as never)).toThrow('fields: must be a list');
});
