import { describe, expect, test } from 'vitest';
import { addPath, newTree } from '#paths';
import { NearNames } from '../../src/policy/near-names.ts';

function treeOf(...paths: string[]) {
  const tree = newTree();
  for (const path of paths) addPath(tree, path, 'fields');
  return tree;
}

describe('a name that is nearly one of the policy', () => {
  const tree = treeOf('email', 'customer.card', 'cards[*].number', 'id');
  const nearTo = (...names: string[]) => {
    const near = new NearNames();
    return names.map((name) => near.find(tree, name, 0));
  };

  test('has other capitals, or one or two other letters', () => {
    expect(nearTo('Email', 'custmer', 'ID', 'crads')).toEqual([
      { path: 'email', found: 'Email' },
      { path: 'customer', found: 'custmer' },
      { path: 'id', found: 'ID' },
      { path: 'cards', found: 'crads' },
    ]);
    const cards = tree.names.get('cards')!.every!;
    expect(new NearNames().find(cards, 'nmber', 0)?.path).toBe('cards[*].number');
    for (const name of ['custom', 'ustomer', 'customre', 'kustomer'])
      expect(nearTo(name)).toEqual([{ path: 'customer', found: name }]);
    const others = ['memo', 'ip', 'name', 'order', 'custo', 'kustomez'];
    expect(nearTo(...others)).toEqual(Array(6).fill(undefined));
  });

  test('is said once for a path, whatever its form is', () => {
    expect(nearTo('Email', 'Email', 'emial', 'EMAIL')).toEqual([
      { path: 'email', found: 'Email' },
      ...Array(3).fill(undefined),
    ]);
  });

  test('is not said when it could be a value, or hide what a line says', () => {
    const long = 'x'.repeat(65);
    const near = new NearNames();
    const odd = treeOf(long, '["ann@example.com"]', '["a\\nb"]', '["Zoë Lee"]');
    for (const name of [`${long.slice(1)}y`, 'Ann@example.com', 'a\nB', 'Zoë lee'])
      expect(near.find(odd, name, 0)).toBeUndefined();
    const longest = long.slice(1);
    expect(near.find(treeOf(longest), `${long.slice(2)}y`, 0)?.path).toBe(longest);
  });

  test('is said for at most 100 paths', () => {
    const paths = Array.from({ length: 200 }, (_, i) => `field_number_${1_000 + i}`);
    const near = new NearNames();
    const found = paths.map((path, i) => near.find(treeOf(path), path.toUpperCase(), i * 1_000));
    expect(found.filter((one) => one !== undefined)).toHaveLength(100);
  });

  test('costs a bounded time: beyond a second of comparisons, names are not compared', () => {
    const paths = Array.from({ length: 1_000 }, (_, i) => `a_field_of_the_policy_${i}`);
    const wide = treeOf(...paths);
    const near = new NearNames();
    for (let i = 0; i < 10_000; i++) near.find(wide, `some_random_name_${i}`, 0);
    expect(near.find(wide, 'A_field_of_the_policy_5', 0)).toBeUndefined();
    expect(near.find(wide, 'A_field_of_the_policy_5', 1_000)?.path).toBe('a_field_of_the_policy_5');
  });

  test('is compared again after 1,000 others: no more names are remembered', () => {
    const wide = treeOf(...Array.from({ length: 1_000 }, (_, i) => `a_field_of_the_policy_${i}`));
    const near = new NearNames();
    for (let i = 0; i < 4_000; i++) near.find(wide, `random_${i}`, i * 1_000);
    // Each takes a part of the bounded time, as when it was new.
    for (let i = 1_500; i < 1_700; i++) near.find(wide, `random_${i}`, 4_000_000);
    expect(near.find(wide, 'A_field_of_the_policy_5', 4_000_000)).toBeUndefined();
  });
});
