import { describe, expect, test } from 'vitest';
import { failureOf, inputOf, kindsIn, placeOf, recordOf } from '../src/playground-data.ts';
import type { PolicyDetail } from '../src/protocol.ts';

describe('the place of a path in a text', () => {
  const text = '{"a": 1,\n "a": {"b: c": ["d"]}}';

  test.each([
    ['is that of the last one of a name that is there twice', ['a'], '{"b: c": ["d"]}'],
    ['is found through names and lists', ['a', 'b: c', 0], '"d"'],
    ['is none where there is no such name', ['b'], undefined],
    ['is none beyond a value', ['a', 'b: c', 0, 'e'], undefined],
    ['is none beyond the end of a list', ['a', 'b: c', 1], undefined],
  ])('%s', (_, steps, value) => {
    const place = placeOf(text, steps);
    expect(place && text.slice(...place)).toBe(value);
  });
});

describe('what is pasted into the playground', () => {
  const OF_BODY = 'Sent as the body of a request: what is in "data".';
  const plain = (name: string) => `Sent as one value, with the name "${name}".`;

  test.each([
    ['{"a": "b"}', { a: 'b' }, ''],
    ['{"data": {"a": "b"}}', { a: 'b' }, OF_BODY],
    ['{"data": "b"}', { data: 'b' }, ''],
    ['{"data": {"a": "b"}, "c": "d"}', { data: { a: 'b' }, c: 'd' }, ''],
    [' ann@example.com\n', { value: 'ann@example.com' }, plain('value')],
    ['"ann@example.com"', { value: 'ann@example.com' }, plain('value')],
    ['007', { value: '007' }, plain('value')],
  ])('is the data of a request, its whole body, or one value: %s', (text, data, note) => {
    const input = inputOf(text);
    expect([JSON.parse(input.text), input.note]).toEqual([data, note]);
  });

  test('is sent as it was typed, so that the service judges it', () => {
    expect(inputOf(' {"a": 1e400, "a": 2}').text).toBe('{"a": 1e400, "a": 2}');
  });

  test.each(['', '  ', '{', '[]', '["a"]', '"a', '{}, "b": {}'])('is refused: "%s"', (text) => {
    expect(() => inputOf(text)).toThrow(/^(Type|This)/);
  });
});

describe('a failure', () => {
  const about = (status: number, body: unknown = null) => failureOf(status, body, 'detokenize');

  test.each([
    [400, { message: 'data.a: x' }, 'text', 'data.a: x'],
    [403, { message: 'data.a[0].b: may not see kind card' }, 'text', 'data.a[0].b: may not see'],
    [403, { message: 'this client may not detokenize' }, 'api-key', 'may not detokenize'],
    [429, { retry_after: 7 }, 'api-key', 'in 7 s'],
    [500, { message: 'database unavailable' }, 'service', 'database unavailable'],
  ])('of %i with %j is about the %s', (status, body, of, words) => {
    expect(about(status, body)).toEqual([of, expect.stringContaining(words)]);
  });

  test('always has words', () => {
    for (const status of [400, 401, 403, 409, 413, 429, 500, 502, 503])
      expect(about(status)[1]).not.toMatch(/undefined|null|^$/);
  });
});

const field = (path: string, kind: string, ...steps: (string | number | null)[]) => ({
  ...{ path, kind, steps },
});
const example = (name: string, value: string) => ({
  ...{ name, words: name, example: { value, token: 'x_tok', mask: '****' } },
});
const POLICY: PolicyDetail = {
  ...{ version: 3, tag: '"x"', elsewhere: 'pass', elsewhereWords: '', document: null },
  kinds: [example('text', 'Ann Lee'), example('card', '4242 4242 4242 4242')],
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

  test('all occur in the example, with a value that passes beside them', () => {
    const record = JSON.parse(JSON.stringify(recordOf(POLICY)));
    expect(record).toEqual({
      ...{ order: 1001, name: 'Ann Lee', lines: [null, null, 'Ann Lee'] },
      ...{ cards: [{ number: '4242 4242 4242 4242' }], 'e mail': { first: 'Ann Lee' } },
    });
    expect(kindsIn(record, POLICY).size).toBe(POLICY.fields!.length);
    const far = { ...POLICY, fields: [field('a[999999999]', 'text', 'a', 999_999_999)] };
    expect([recordOf(far), recordOf(NO_FIELDS)]).toEqual([{ order: 1001 }, undefined]);
  });
});
