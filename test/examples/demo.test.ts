import { expect, test } from 'vitest';
import { run } from '../support/recipes.ts';
import { ROOT } from '../support/service.ts';

const MAX_MS = 60_000;
const SHOWN = ['4111 1111 1111 1111', 'ann.lee@example.com', '+44 20 7946 0958'];

test('the demo shows within a minute what the user wrote, the model read, and the user got', async () => {
  const startedMs = performance.now();
  const output = await run(['node', 'examples/language-model/demo.mjs'], ROOT, {});
  expect(performance.now() - startedMs).toBeLessThan(MAX_MS);
  const rows = output.split('\n').filter((line) => line.includes('│'));
  const column = (at: number) =>
    rows
      .map((row) => row.split('│')[at]!.trim())
      .join(' ')
      .replace(/ +/g, ' ');
  for (const value of SHOWN) {
    expect(column(0)).toContain(value);
    expect(column(1)).not.toContain(value);
    expect(column(2)).toContain(value);
  }
  expect(column(1).match(/[a-z]+_tok/g)).toHaveLength(4);
  expect(column(2).match(/[a-z]+_tok/g)).toEqual([
    column(1)
      .match(/[a-z]+_tok/g)!
      .at(-1),
  ]);
  expect(output).toContain('none of the 3 values');
});
