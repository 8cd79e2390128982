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

test('every change of the list can be made: its text is there once, its tests exist', () => {
  const problems = MUTANTS.map((mutant) => [mutant.id, problemOf(mutant, ROOT)]);
  expect(problems.filter(([, problem]) => problem !== undefined)).toEqual([]);
});

test('the list has a hundred changes, with names of their own, in all rooms that guard something', () => {
  const ids = MUTANTS.map(({ id }) => id);
  expect(new Set(ids).size).toBe(ids.length);
  expect(ids.length).toBeGreaterThanOrEqual(100);
  const rooms = 'access audit crypto kek limits ops policy public records shape store tokens vault';
  expect(MUTANTS.map(roomOf)).toEqual(expect.arrayContaining(rooms.split(' ')));
});

test.each([
  ['its old text occurs 0 times', { old: 'no such text' }],
  [/^its old text occurs \d+ times$/, { old: 'items' }],
  ['nowhere is not there once', { within: 'nowhere' }],
  ['its file is gone', { file: 'src/no-such.ts' }],
  ['a test is gone', { tests: ['no-such.test.ts'] }],
  ['no test has its name', { name: 'no such name' }],
])('an entry that cannot be made any more is reported: %s', (problem, change) => {
  expect(problemOf(MUTANTS[0]!, ROOT)).toBeUndefined();
  expect(problemOf({ ...MUTANTS[0]!, ...change }, ROOT)).toMatch(problem);
});

describe('each fence of the model', () => {
  const modelOf = ([, command]: readonly [string, string]) =>
    readFileSync(join(ROOT, 'test/model', command.split(' ').at(-1)!), 'utf8');

  test('is in the table, in the model of its parts, and in the mutation list', () => {
    const files = [...new Set(Object.values(PARTS).map(modelOf))];
    const named = files.flatMap((model) => model.match(/\bNO_[A-Z_]+(?=\b)/g)!);
    const names = FENCES.map(({ name }) => name);
    expect(new Set(named.filter((one) => one !== 'NO_'))).toEqual(new Set(names));
    const ids = new Set(MUTANTS.map(({ id }) => id));
    for (const { name, parts, mutants, code } of FENCES) {
      for (const part of parts) expect(modelOf(PARTS[part]!)).toContain(name);
      expect([name, mutants.filter((id) => !ids.has(id))]).toEqual([name, []]);
      expect([name, code.filter((one) => !(one in CODE))]).toEqual([name, []]);
    }
  });

  test('is compared again when its code changes: look at test/model, then renew the digest', () => {
    const digests = Object.entries(CODE).map(([name, [file]]) => [name, digestOf(name, file)]);
    const known = Object.entries(CODE).map(([name, [, digest]]) => [name, digest]);
    expect(digests).toEqual(known);
    const statements = STATEMENT_FILES.flatMap((file) =>
      [...sourceOf(file).matchAll(/^(?:export )?const ([A-Z_]+) =\s+[^\d\s]/gm)].map(
        ([, name]) => name!,
      ),
    );
    const inModel = new Set([...Object.keys(CODE), ...LEFT_OUT]);
    expect(statements.filter((name) => !inModel.has(name))).toEqual([]);
  });
});
