import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import {
  addPath,
  nearest,
  newTree,
  parsePaths,
  pathText,
  replaceLiterals,
  stepsOf,
} from '../src/index.ts';

const steps = fc.array(fc.oneof(fc.nat(), fc.string({ unit: 'binary' })), { minLength: 1 });

describe('a path', () => {
  test.each([
    [['data', 'a', 'b-1', '_c'], 'data.a.b-1._c'],
    [['data', 0, 12], 'data[0][12]'],
    [['data', 'e mail', '1', ''], 'data["e mail"]["1"][""]'],
    [['data', 'a"b\n'], 'data["a\\"b\\n"]'],
    [['data', 'naïve'], 'data["naïve"]'],
  ])('of %j is written %s', (path, text) => {
    expect(pathText(path)).toBe(text);
  });

  test('leads where it was written for', () => {
    fc.assert(
      fc.property(steps, (path) => {
        expect(stepsOf(pathText(['data', ...path]))).toEqual(['data', ...path]);
      }),
    );
    expect(stepsOf('$.full name[*]["a.b"][0].c?')).toEqual(['full name', null, 'a.b', 0, 'c']);
  });
});

test.each([
  ['', 'no path at its end'],
  ['a,', 'no path at its end'],
  ['.a', 'no path at ".a"'],
  ['a..b', 'no path at "..b"'],
  ['$..a', 'no path at "..a"'],
  ['a?b', 'no path at "b"'],
  ['a[b]', 'no path at "[b]"'],
  ['a[-1]', 'no path at "[-1]"'],
  ['a[*', 'no path at "[*"'],
  ['a b]', 'no path at "]"'],
  ['a["\\x"]', 'no path at "["\\x"]"'],
  ['a,a', 'names a twice'],
  ['a,a.b', 'names a and something inside it'],
  ['a.b,a', 'names a and something inside it'],
  ['a[0],a', 'names a and something inside it'],
  ['a[*],a', 'names a and something inside it'],
  ['a.b[*].c,a.b[0].d', 'names a.b[*] and a single item there'],
  ['a[1],a[*]', 'names a[*] and a single item there'],
])('%j is refused', (fields, message) => {
  expect(() => parsePaths(fields)).toThrow(message);
});

test('one path is refused from where it ends', () => {
  expect(() => addPath(newTree(), '?', 'fields')).toThrow('fields: no path at "?"');
  expect(() => addPath(newTree(), 'a?,b', 'fields')).toThrow('fields: no path at ",b"');
});

test.each([
  ['emial', 'email'],
  ['  EMAIL ', 'email'],
  ['e-mail', 'email'],
  ['phones', 'phone'],
  ['xb', undefined],
  ['vuw', 'uvw'],
  ['telephone', undefined],
])('%j is nearest to %j', (field, name) => {
  expect(nearest(field, ['EMXIL', 'email', 'phone', 'xy', 'uvw'])).toBe(name);
});

test('a string of six million escapes is one string', () => {
  const text = `["${'\\n'.repeat(6_000_000)}"]`;
  expect(replaceLiterals(text, (one) => String(one.length))).toBe('["6000000"]');
});

test('strings, names and long numbers are replaced, but the bounds of a JSON Schema', () => {
  const bounds = '"maximum" : 2147483647,"exclusiveMinimum":-1234567.5';
  const replaced = replaceLiterals(
    `{"n":[2147483647, 12],${bounds},"a":"maximum"}`,
    (text) => `<${text}>`,
  );
  expect(replaced).toBe(`{"<n>":["<2147483647>", 12],${bounds},"<a>":"<maximum>"}`);
});
