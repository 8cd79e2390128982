import { createHash } from 'node:crypto';
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { kindsOf, revealed } from '../../bench/measure.ts';
import { grow, SHAPED_CHARACTERS, shapeOf } from '../../src/shape/shape.ts';
import { DRAWS_A_LENGTH, MAX_DRAWS } from '../../src/shape/token.ts';
import { readText, table } from '../support/docs.ts';
import { realSample, samples } from '../support/samples.ts';

const REVEALS = 'docs/guides/what-a-token-reveals.md';
const MODES = 'docs/guides/deterministic-or-random.md';

/** Each day of a hundred years. */
const DAYS = Array.from({ length: 36_525 }, (_, i) =>
  new Date(Date.UTC(1926, 0, 1 + i)).toISOString().slice(0, 10),
);

/** Values under each key. */
function groups(values: readonly string[], keyOf: (value: string) => unknown): string[][] {
  const byKey = new Map<unknown, string[]>();
  for (const value of values) {
    const key = keyOf(value);
    byKey.set(key, [...(byKey.get(key) ?? []), value]);
  }
  return [...byKey.values()];
}

function column(file: 'sakila' | 'chinook', name: string): string[] {
  return realSample(file)!.rows.map((row) => row[name]!);
}

describe.skipIf(realSample('sakila') === undefined)(
  'what the guides measured on sample data',
  () => {
    test('shapes: how many rows hide behind each', () => {
      const rows = table(REVEALS, [
        'Column',
        'Shapes',
        'Rows of the most frequent shape',
        'Half of the rows share theirs with at least',
        'Rows with a shape of their own',
      ]);
      expect(rows.length).toBe(5);
      for (const [name, ...figures] of rows) {
        const values = column('sakila', name!);
        const sizes = groups(values, shapeOf).map((group) => group.length);
        const crowds = sizes
          .flatMap((size) => Array<number>(size).fill(size))
          .sort((a, b) => a - b);
        const measured = [
          sizes.length,
          crowds.at(-1),
          crowds[Math.floor(crowds.length / 2)],
          sizes.filter((size) => size === 1).length,
        ];
        expect([name, ...figures.map(Number)]).toEqual([name, ...measured]);
      }
    });

    test('kinds: rows with a shape of their own, as a text and as the kind', () => {
      const rows = table(REVEALS, ['Column', 'Kind', 'Rows', 'As `text`', 'As this kind']);
      expect(rows.length).toBe(11);
      for (const [name, options, ...figures] of rows) {
        const [, sample, field] = /^(Sakila|Chinook) (\w+)$/.exec(name!) ?? [];
        const values =
          sample === undefined ? DAYS : column(sample.toLowerCase() as 'sakila', field!);
        const kinds = kindsOf(`{version: 1, kinds: {measured: {${options}}}}`);
        const [text, kind] = [kinds[0]!, kinds.at(-1)!].map((one) => revealed(values, one));
        expect([name, options, ...figures]).toEqual([
          name,
          options,
          ...[values.length, text!.alone, kind!.alone].map((one) => one.toLocaleString('en')),
        ]);
      }
    });

    test('shapes: every company has one of its own', () => {
      const companies = [...new Set(column('chinook', 'company'))].filter(Boolean);
      expect(companies.length).toBe(10);
      expect(groups(companies, shapeOf).length).toBe(10);
      expect(companies).toContain('Apple Inc.');
      expect(shapeOf('Apple Inc.')).toBe('aaaaa aaa.');
    });

    test('equality: which countries a statistic gives away', () => {
      const countries = column('chinook', 'country');
      const counts = new Map(groups(countries, (name) => name).map((all) => [all[0]!, all.length]));
      const told = (keyOf: (name: string) => unknown) => {
        const alone = groups([...counts.keys()], keyOf).filter((names) => names.length === 1);
        return [alone.length, alone.reduce((sum, [name]) => sum + counts.get(name!)!, 0)].map(
          String,
        );
      };
      expect(table(MODES, ['From', 'Countries', 'Rows']).map((row) => row.slice(1))).toEqual([
        told((name) => counts.get(name)),
        told(shapeOf),
        told((name) => `${counts.get(name)} ${shapeOf(name)}`),
      ]);
      expect(counts.size).toBe(24);
    });
  },
);

test('the measure finds the shapes of texts, which are known', () => {
  const [text] = kindsOf('version: 1');
  for (const { rows } of samples) {
    for (const name of Object.keys(rows[0]!)) {
      const values = rows.map((row) => row[name]!);
      expect(revealed(values, text!).shapes).toBe(groups(values, shapeOf).length);
    }
  }
});

test('codes of letters and digits have shapes of their own', () => {
  const uuids = Array.from({ length: 10_000 }, (_, i) => {
    const hex = createHash('sha256').update(String(i)).digest('hex');
    return hex.replace(/^(.{8})(.{4}).(.{3}).(.{3})(.{12}).*/, '$1-$2-4$3-a$4-$5');
  });
  expect(groups(uuids, shapeOf).length).toBeGreaterThan(9_995);
});

test('a kept year is what tells the days apart', () => {
  const [kind] = kindsOf('{version: 1, kinds: {year: {shape: date, keep: year}}}').slice(-1);
  expect(revealed(DAYS, kind!)).toMatchObject({ refused: 0, shapes: 100, alone: 0 });
});

test('birth dates of a hundred years fit into four requests', () => {
  const days = (Date.UTC(2026, 0, 1) - Date.UTC(1926, 0, 1)) / 86_400_000;
  expect(readText(MODES)).toContain(`There are ${days.toLocaleString('en')}\nbirth dates`);
  expect(Math.ceil(days / 10_000)).toBe(4);
});

test('the rate in the README is that of the benchmarks', () => {
  const bulk = readText('docs/benchmarks.md')
    .split('## ')
    .find((part) => part.startsWith('Bulk: '))!;
  const [, rate] = /^\| Standin on PostgreSQL \| ([\d,]+) \(/m.exec(bulk)!;
  expect(readText('README.md')).toContain(`some ${rate!.replace(/,\d+$/, ',000')} new values`);
});

test('a token is at most 19 characters longer than its value', () => {
  const longest = (value: string) => grow(shapeOf(value), MAX_DRAWS / DRAWS_A_LENGTH - 1);
  fc.assert(
    fc.property(fc.string({ unit: 'binary', maxLength: 300 }), (value) => {
      const characters = Math.min([...value].length, SHAPED_CHARACTERS);
      expect(longest(value).length + '_tok'.length).toBeLessThanOrEqual(characters + 19);
    }),
  );
  expect(longest('---').length + '_tok'.length).toBe(3 + 19);
  expect(readText('docs/guides/migrate-existing-data.md')).toContain('`varchar(n + 19)`');
});
