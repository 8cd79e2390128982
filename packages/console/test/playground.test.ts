import { describe, expect, test } from 'vitest';
import { dataIn, dataOf, failureOf, kindsIn } from '../src/playground-data.ts';
import type { PolicyDetail } from '../src/protocol.ts';

describe('what is pasted into the playground', () => {
  test.each([
    ['{"a": "b"}', { a: 'b' }],
    [' ann@example.com\n', { value: 'ann@example.com' }],
    ['"ann@example.com"', { value: 'ann@example.com' }],
    ['007', { value: '007' }],
  ])('is the data of a request, or one value: %s', (text, data) => {
    expect(JSON.parse(dataOf(text, false))).toEqual(data);
  });

  test('is sent as it was typed, so that the service judges it', () => {
    expect(dataOf(' {"a": 1e400, "a": 2}', false)).toBe('{"a": 1e400, "a": 2}');
    expect(dataIn('{"data":{"a":1e400,"b":[1.0]},"request_id":"x"}')).toBe('{"a":1e400,"b":[1.0]}');
  });

  test.each(['', '  ', '{', '"a', '{}, "b": {}'])('is refused: "%s"', (text) => {
    expect(() => dataOf(text, false)).toThrow(/^(Type|This)/);
  });
});

test.each([
  [400, { message: 'data.a: x' }, 'text', 'data.a: x'],
  [403, { message: 'data.a[0].b: may not see kind card' }, 'text', 'data.a[0].b: may not see'],
  [403, { message: 'this client may not detokenize' }, 'api-key', 'may not detokenize'],
  [429, { retry_after: 7 }, 'api-key', 'in 7 s'],
  [500, { message: 'database unavailable' }, 'service', 'database unavailable'],
  [502, {}, 'service', 'answered 502'],
])('a failure of %i with %j is about the %s', (status, body, of, words) => {
  expect(failureOf(status, body)).toEqual([of, expect.stringContaining(words)]);
});

const field = (path: string, kind: string, ...steps: (string | number | null)[]) => ({
  ...{ path, kind, steps },
});
const POLICY: PolicyDetail = {
  ...{ version: 3, tag: '"x"', elsewhere: 'pass', elsewhereWords: '', document: null },
  kinds: [],
  fields: [
    field('name', 'text', 'name'),
    field('cards[*].number', 'card', 'cards', null, 'number'),
    field('lines[2]', 'text', 'lines', 2),
    field('["e mail"].first', 'text', 'e mail', 'first'),
  ],
};
const NO_FIELDS = { ...POLICY, fields: null };
const EVERYTHING = { ...POLICY, elsewhere: 'tokenize' } as const;
const VALUES_NAMED = { ...POLICY, fields: [field('values[0]', 'card', 'values', 0)] };

describe('the kinds of a record', () => {
  const cards = [{ number: '4', cvc: '1' }, { number: '' }, { number: null }, { number: '4' }];

  test.each<[string, object, string, PolicyDetail?]>([
    ['are those of names', { name: 'A', other: 'x', age: 42 }, 'name: text'],
    [
      'are those of every item, no blanks',
      { cards },
      'cards[0].number: card, cards[3].number: card',
    ],
    ['are those of one item', { lines: ['a', 'b', 'c', 'd'] }, 'lines[2]: text'],
    ['are those of odd names', { 'e mail': { first: 'y' }, b: '' }, '["e mail"].first: text'],
    ['take no object for a list', { cards: { 0: { number: '4' } } }, ''],
    ['are text elsewhere', { name: 'A', b: 'x', n: 1, c: '' }, 'name: text, b: text', EVERYTHING],
    ['are text without fields', { a: 'b', c: ['', 1] }, 'a: text, c[0]: text', NO_FIELDS],
    ['are text in a list of values', { values: ['a'] }, 'values[0]: text'],
    ['are those of fields beside a list', { values: ['a'], name: 'b' }, 'name: text'],
    ['are those of a named list', { values: ['a', 'b'] }, 'values[0]: card', VALUES_NAMED],
  ])('%s', (_, data, kinds, policy = POLICY) => {
    expect([...kindsIn(data, policy)].map((one) => one.join(': ')).join(', ')).toBe(kinds);
  });
});
