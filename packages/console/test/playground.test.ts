import { describe, expect, test } from 'vitest';
import { failureOf } from '../src/playground-errors.ts';
import { inputOf } from '../src/playground-input.ts';
import { kindsIn, recordOf } from '../src/playground-kinds.ts';
import type { PolicyDetail } from '../src/protocol.ts';

const field = (path: string, kind: string, ...steps: (string | number | null)[]) => ({
  ...{ path, kind, steps },
});
const example = (name: string, value: string) => ({
  ...{ name, words: name, example: { value, token: 'x_tok', mask: '****' } },
});
const POLICY: PolicyDetail = {
  version: 3,
  tag: '"x"',
  kinds: [example('text', 'Ann Lee'), example('card', '4242 4242 4242 4242')],
  fields: [
    field('name', 'text', 'name'),
    field('cards[*].number', 'card', 'cards', null, 'number'),
    field('lines[2]', 'text', 'lines', 2),
    field('["e mail"].first', 'text', 'e mail', 'first'),
  ],
  elsewhere: 'pass',
  elsewhereWords: '',
  document: null,
};
const NO_FIELDS = { ...POLICY, fields: null };

describe('the kinds of a record', () => {
  const kinds = (data: unknown, policy = POLICY) => Object.fromEntries(kindsIn(data, policy));

  test('are those of the fields, and all else passes', () => {
    const data = {
      ...{ name: 'Ann', other: 'x', age: 42, lines: ['a', 'b', 'c', 'd'] },
      cards: [{ number: '4242', cvc: '123' }, { number: '' }, { number: null }, { number: '4' }],
      'e mail': { first: 'y', second: 'z' },
    };
    expect(kinds(data)).toEqual({
      ...{ name: 'text', 'lines[2]': 'text', '["e mail"].first': 'text' },
      ...{ 'cards[0].number': 'card', 'cards[3].number': 'card' },
    });
    expect(kinds({ cards: { 0: { number: '4242' } } })).toEqual({});
    const all = { ...POLICY, elsewhere: 'tokenize' } as const;
    expect(kinds({ name: 'Ann', other: 'x', n: 1, blank: '' }, all)).toEqual({
      ...{ name: 'text', other: 'text' },
    });
  });

  test('are text without fields, and in a list of values', () => {
    expect(kinds({ a: 'b', c: ['', 1] }, NO_FIELDS)).toEqual({ a: 'text', 'c[0]': 'text' });
    expect(kinds({ values: ['a', 'b'] })).toEqual({ 'values[0]': 'text', 'values[1]': 'text' });
    expect(kinds({ values: ['a'], name: 'b' })).toEqual({ name: 'text' });
    const own = { ...POLICY, fields: [field('values[0]', 'card', 'values', 0)] };
    expect(kinds({ values: ['a', 'b'] }, own)).toEqual({ 'values[0]': 'card' });
  });

  test('all occur in the example, with a value that passes beside them', () => {
    const record = recordOf(POLICY)!;
    expect(record).toEqual({
      ...{ order: 1001, name: 'Ann Lee', lines: [null, null, 'Ann Lee'] },
      ...{ cards: [{ number: '4242 4242 4242 4242' }], 'e mail': { first: 'Ann Lee' } },
    });
    expect(kindsIn(record, POLICY).size).toBe(POLICY.fields!.length);
    const far = { ...POLICY, fields: [field('a[999999999]', 'text', 'a', 999_999_999)] };
    expect(recordOf(far)).toEqual({ order: 1001 });
    expect(recordOf(NO_FIELDS)).toBeUndefined();
  });
});

test('one value is sent in the form that is tokenized', () => {
  expect(JSON.parse(inputOf('ann@example.com').text)).toEqual({ value: 'ann@example.com' });
  expect(JSON.parse(inputOf('ann@example.com', true).text)).toEqual({
    values: ['ann@example.com'],
  });
  expect(JSON.parse(inputOf('{"a": "b"}', true).text)).toEqual({ a: 'b' });
});

test('a refusal for a kind is about its place, one for an operation about the API key', () => {
  const about = (message: string) => failureOf(403, { message }, 'detokenize');
  const words = 'data.cards[0].number: this client may not see values of kind card';
  expect(about(words)).toEqual(['text', words]);
  expect(about('this client may not detokenize')[0]).toBe('api_key');
});
