import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import {
  CODE,
  digestOf,
  FENCES,
  LEFT_OUT,
  PARTS,
  STATEMENT_FILES,
  sourceOf,
} from '../model/fences.ts';
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
    'access',
    'audit',
    'batcher.ts',
    'bulk',
    'client',
    'commands',
    'config',
    'crypto',
    'embedded',
    'kek',
    'limits',
    'ops',
    'paths',
    'policy',
    'process',
    'public',
    'python',
    'records',
    'refresher.ts',
    'shape',
    'store',
    'timeouts.ts',
    'tokens',
    'vault',
  ]);
});

test('an entry whose text is gone, or there twice, is told', () => {
  const entry = MUTANTS[0]!;
  expect(problemOf(entry, ROOT)).toBeUndefined();
  expect(problemOf({ ...entry, old: 'no such text' }, ROOT)).toBe('its old text occurs 0 times');
  expect(problemOf({ ...entry, old: 'import' }, ROOT)).toMatch(/^its old text occurs \d+ times$/);
  expect(problemOf({ ...entry, tests: ['no-such.test.ts'] }, ROOT)).toBe('a test is gone');
});

describe('each fence of the model', () => {
  const modelOf = (file: string) => readFileSync(join(ROOT, 'test/model', file), 'utf8');

  test('is in the table, in the model of its parts, and in the mutation list', () => {
    const files = [...new Set(Object.values(PARTS).map((part) => part.at(-1)!))];
    const named = files.flatMap((file) => modelOf(file).match(/\bNO_[A-Z_]+(?=\b)/g)!);
    expect(new Set(named.filter((one) => one !== 'NO_'))).toEqual(new Set(Object.keys(FENCES)));
    const ids = new Set(MUTANTS.map(({ id }) => id));
    for (const [fence, { parts, mutants, code }] of Object.entries(FENCES)) {
      for (const part of parts) expect(modelOf(PARTS[part].at(-1)!)).toContain(fence);
      expect([fence, mutants.filter((id) => !ids.has(id))]).toEqual([fence, []]);
      expect([fence, code.filter((one) => !(one in CODE))]).toEqual([fence, []]);
      expect([mutants.length, code.length].every((count) => count > 0)).toBe(true);
    }
  });

  test('is compared again when its code changes: look at test/model, then renew the digest', () => {
    const changed = Object.entries(CODE).flatMap(([name, piece]) => {
      const digest = digestOf(piece);
      return digest === piece[2] ? [] : [`${name}: ${digest}`];
    });
    expect(changed).toEqual([]);
    const statements = STATEMENT_FILES.flatMap((file) =>
      [...sourceOf(file).matchAll(/^(?:export )?const ([A-Z_]+) =\s+[^\d\s]/gm)].map(
        ([, name]) => name!,
      ),
    );
    const known = new Set([...Object.keys(CODE), ...LEFT_OUT]);
    expect(statements.filter((name) => !known.has(name))).toEqual([]);
  });
});
