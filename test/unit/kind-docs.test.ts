import { expect, test } from 'vitest';
import { parse } from 'yaml';
import { kindOf } from '../../src/shape/kind.ts';
import { kindProblems, SHAPES, type Shape } from '../../src/shape/kind-settings.ts';
import { blocks, table } from '../support/docs.ts';
import { keyringOf, kindDraws, kindSettings } from '../support/kinds.ts';

const DOCUMENT = 'docs/operating/kinds.md';
const { token_key: tokenKey } = JSON.parse(blocks('docs/record-format.md', 'json')[0]!);
const keyring = keyringOf(Buffer.from(tokenKey, 'hex'));

test('kinds.md names every shape', () => {
  const rows = table(DOCUMENT, ['Shape', 'Takes', 'Draws', 'Own options']);
  expect(rows.map(([shape]) => shape)).toEqual([...SHAPES]);
});

test('the values, tokens and masks of kinds.md are those of the program', () => {
  const rows = table(DOCUMENT, ['Shape', 'Options', 'Value', 'Token', 'Mask']);
  expect(new Set(rows.map(([shape]) => shape))).toEqual(new Set(SHAPES));
  const made = rows.map(([shape, options, text]) => {
    const kind = kindOf(kindSettings(shape as Shape, parse(`{${options}}`), shape));
    expect(kindProblems(kind.settings)).toEqual([]);
    const accepted = kind.accept(text!);
    if ('reason' in accepted) return [shape, options, text, accepted.reason];
    const { value } = accepted;
    const draws = kindDraws(keyring, '', shape!, value);
    const token = kind.drawToken(value, 'tok', draws, 0)!.token;
    return [shape, options, text, token, kind.mask(value)];
  });
  expect(made).toEqual(rows);
});
