import fc from 'fast-check';
import { expect, test } from 'vitest';
import { pathText } from '#paths';
import { placeIn } from '../../packages/console/src/playground-data.ts';

const key = fc.string({ maxLength: 8, unit: 'grapheme' }).filter((name) => name !== '__proto__');
const { data } = fc.letrec((tie) => ({
  data: fc.oneof(
    { depthSize: 'small' },
    fc.string(),
    fc.integer(),
    fc.constantFrom(true, null),
    fc.array(tie('data'), { maxLength: 4 }),
    fc.dictionary(key, tie('data'), { maxKeys: 4 }),
  ),
}));

test('the page finds the place of every path that the service names, for every value of every JSON', () => {
  fc.assert(
    fc.property(fc.dictionary(key, data), fc.constantFrom(0, 2), (object, indent) => {
      const text = JSON.stringify(object, null, indent);
      const check = (value: unknown, path: (string | number)[]) => {
        const place = placeIn(text, `${pathText(['data', ...path])}: must be a string`)!;
        expect(JSON.parse(text.slice(...place))).toEqual(JSON.parse(JSON.stringify(value)));
        if (typeof value !== 'object' || value === null) return;
        for (const [name, child] of Object.entries(value))
          check(child, [...path, Array.isArray(value) ? Number(name) : name]);
      };
      check(object, []);
    }),
  );
});
