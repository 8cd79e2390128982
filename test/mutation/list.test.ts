import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { ROOT } from '../support/program.ts';
import { MUTANTS } from './list.ts';
import { pathsOf, roomOf } from './mutant.ts';

/** What makes an entry worthless; undefined: nothing. */
function problemOf(mutant: (typeof MUTANTS)[number]) {
  const { old, new: by, promise } = mutant;
  const { file, tests } = pathsOf(mutant);
  const path = join(ROOT, file);
  if (!existsSync(path)) return 'its file is gone';
  const times = readFileSync(path, 'utf8').split(old).length - 1;
  if (times !== 1) return `its old text occurs ${times} times`;
  if (by === old || promise === '' || tests.length === 0)
    return 'it has no change, promise or tests';
  return tests.every((one) => existsSync(join(ROOT, one))) ? undefined : 'a test is gone';
}

test('every change of the mutation list can still be made: its text occurs once, its tests exist', () => {
  const problems = MUTANTS.flatMap((mutant) => {
    const problem = problemOf(mutant);
    return problem === undefined ? [] : [`${mutant.id}: ${problem}`];
  });
  expect(problems).toEqual([]);
});

test('the mutation list has a hundred changes, with names of their own, in all five rooms and the batcher', () => {
  const ids = MUTANTS.map(({ id }) => id);
  expect(new Set(ids).size).toBe(ids.length);
  expect(ids.length).toBeGreaterThanOrEqual(100);
  const rooms = new Set(MUTANTS.map(roomOf));
  expect([...rooms].sort()).toEqual(['batcher.ts', 'bulk', 'crypto', 'http', 'service', 'store']);
});

test('an entry whose text is gone, or there twice, is told', () => {
  const entry = MUTANTS[0]!;
  expect(problemOf(entry)).toBeUndefined();
  expect(problemOf({ ...entry, old: 'no such text' })).toBe('its old text occurs 0 times');
  expect(problemOf({ ...entry, old: 'import' })).toMatch(/^its old text occurs \d+ times$/);
  expect(problemOf({ ...entry, tests: ['no-such.test.ts'] })).toBe('a test is gone');
});
