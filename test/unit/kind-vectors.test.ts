import { createHmac } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import { kindOf, kindProblems } from '../../src/shape/kind.ts';
import type { KindSettings, Shape } from '../../src/shape/kind-settings.ts';
import { SHAPES } from '../../src/shape/kind-settings.ts';
import type { Draws } from '../../src/shape/token.ts';
import type { Value } from '../../src/types.ts';
import { kindSettings } from '../support/kinds.ts';

interface Vector {
  readonly space: string;
  readonly name: string;
  readonly shape: Shape;
  readonly settings: Partial<KindSettings>;
  readonly value: string;
  readonly from: number;
  readonly token: string;
  readonly draw: number;
}

const read = (name: string) =>
  JSON.parse(readFileSync(new URL(`../vectors/${name}`, import.meta.url), 'utf8'));
const key = Buffer.from(read('vectors.json').keys.token, 'hex');
const cases: readonly Vector[] = read('kinds.json').cases;

/** The bytes of a deterministic draw, as docs/record-format.md says. */
function drawsOf({ space, name, value }: Vector): Draws {
  const isDefault = space === '' && name === 'text';
  const scope = [space, name].flatMap((text) => [text.length, ...Buffer.from(text)]);
  return (draw, block) => {
    const head = isDefault ? [draw, block] : [0x80, draw, block, ...scope];
    const mac = createHmac('sha512', key).update(Buffer.from(head)).update(value).digest('binary');
    return mac.slice(0, 48);
  };
}

test('vectors cover every shape, with and without suffix', () => {
  const covered = new Set(
    cases.map(({ shape, settings }) => `${shape} ${settings.suffix ?? true}`),
  );
  expect(covered.size).toBe(2 * SHAPES.length);
});

test.each(cases)('$space $name $settings of $value from draw $from', (vector) => {
  const settings = kindSettings(vector.shape, vector.settings, vector.name);
  expect(kindProblems(settings)).toEqual([]);
  const kind = kindOf(settings);
  expect(kind.accept(vector.value)).toEqual({ value: vector.value });
  const { token, draw } = vector;
  const drawn = kind.drawToken(vector.value as Value, 'tok', drawsOf(vector), vector.from);
  expect(drawn).toEqual({ token, draw });
});
