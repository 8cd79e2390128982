import { readdirSync, readFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import { ROOT, readText } from './support/docs.ts';

const REGISTER = 'test/register.md';
const ID = /[AFLCS]\d\d/;
/** Ids at the start of a name, or after what a table puts before them: `F12`, `S02, S03`, `A16-A17`. */
const NAME = /['"`](?:[^'"`\n]*?: )?((?:[AFLCS]\d\d(?:-|, )?)+)(?=:|['`])/g;

/** Ids in names of tests, each with its file: `F12 fault/audit.test.ts`. */
function idsInNames(path: string, text: string): string[] {
  return [...text.matchAll(NAME)].flatMap(([, ids]) =>
    ids!.split(', ').flatMap((part) => range(part).map((id) => `${id} ${path}`)),
  );
}

function range(part: string): string[] {
  const [first, last = first] = part.split('-').filter((id) => ID.test(id));
  const [from, to] = [Number(first!.slice(1)), Number(last!.slice(1))];
  return Array.from(
    { length: to - from + 1 },
    (_, i) => `${first![0]}${`${from + i}`.padStart(2, '0')}`,
  );
}

interface Row {
  readonly id: string;
  readonly passes: string;
  readonly files: readonly string[];
}

function rowsOf(register: string): Row[] {
  return register.split('\n').flatMap((line) => {
    const [, id, , passes, files] = line.split('|').map((cell) => cell.trim());
    if (id === undefined || !/^[AFLCS]\d\d$/.test(id)) return [];
    return [{ id, passes: passes!, files: [...files!.matchAll(/`([^`]+)`/g)].map((m) => m[1]!) }];
  });
}

const rows = rowsOf(readText(REGISTER));
const named = readdirSync(`${ROOT}test`, { recursive: true, encoding: 'utf8' })
  .filter((path) => path.endsWith('.test.ts') && path !== 'register.test.ts')
  .flatMap((path) => idsInNames(path, readFileSync(`${ROOT}test/${path}`, 'utf8')));
const registered = rows.flatMap(({ id, files }) => files.map((file) => `${id} ${file}`));

test('every id of the register has a test of its name, in each of its files', () => {
  expect(rows.length).toBeGreaterThan(140);
  expect(registered.filter((one) => !named.includes(one))).toEqual([]);
});

test('every id in the name of a test is in the register, with the file', () => {
  expect(named.length).toBeGreaterThan(120);
  expect([...new Set(named)].filter((one) => !registered.includes(one))).toEqual([]);
});

test('every id is there once, and one without a file says why', () => {
  const ids = rows.map(({ id }) => id);
  expect(ids).toEqual([...new Set(ids)]);
  const silent = rows.filter(({ files, passes }) =>
    files.length === 0 ? !/^Not covered\. \w/.test(passes) : passes === '',
  );
  expect(silent).toEqual([]);
});
