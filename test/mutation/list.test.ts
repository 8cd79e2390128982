import { expect, test } from 'vitest';
import { ROOT } from '../support/program.ts';
import { MUTANTS } from './list.ts';
import { problemOf, roomOf } from './mutant.ts';

test('every change of the mutation list can still be made: its text occurs once, its tests exist', () => {
  const problems = MUTANTS.flatMap((mutant) => {
    const problem = problemOf(mutant, ROOT);
    return problem === undefined ? [] : [`${mutant.id}: ${problem}`];
  });
  expect(problems).toEqual([]);
});

test('the mutation list has a hundred changes, with names of their own, in all rooms and the batcher', () => {
  const ids = MUTANTS.map(({ id }) => id);
  expect(new Set(ids).size).toBe(ids.length);
  expect(ids.length).toBeGreaterThanOrEqual(100);
  const rooms = new Set(MUTANTS.map(roomOf));
  expect([...rooms].sort()).toEqual([
    'batcher.ts',
    'bulk',
    'client',
    'commands',
    'config',
    'crypto',
    'http',
    'kek',
    'ops',
    'policy',
    'process',
    'service',
    'shape',
    'store',
    'timeouts.ts',
  ]);
});

test('an entry whose text is gone, or there twice, is told', () => {
  const entry = MUTANTS[0]!;
  expect(problemOf(entry, ROOT)).toBeUndefined();
  expect(problemOf({ ...entry, old: 'no such text' }, ROOT)).toBe('its old text occurs 0 times');
  expect(problemOf({ ...entry, old: 'import' }, ROOT)).toMatch(/^its old text occurs \d+ times$/);
  expect(problemOf({ ...entry, tests: ['no-such.test.ts'] }, ROOT)).toBe('a test is gone');
});
