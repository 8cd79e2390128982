import { readFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import { kindOf } from '../../src/shape/kind.ts';
import {
  type KindSettings,
  kindProblems,
  SHAPES,
  type Shape,
} from '../../src/shape/kind-settings.ts';
import type { Value } from '../../src/types.ts';
import { kindDraws, kindSettings, VECTOR_KEYRING } from '../support/kinds.ts';

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

const file = new URL('../vectors/kinds.json', import.meta.url);
const cases: readonly Vector[] = JSON.parse(readFileSync(file, 'utf8')).cases;

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
  const { space, name, value, from, token, draw } = vector;
  expect(kind.accept(value)).toEqual({ value });
  const draws = kindDraws(VECTOR_KEYRING, space, name, value as Value);
  expect(kind.drawToken(value as Value, 'tok', draws, from)).toEqual({ token, draw });
});
