import { expect, test } from 'vitest';
import { readMigrations, statementsOf } from '../../src/store/schema.ts';

test('a statement ends with a semicolon at the end of a line, not in a comment and not between $$', () => {
  const sql = `-- The first; and a comment that ends with a semicolon;
create table a (
  b text default ';' -- one inside
);

create function f() returns integer language plpgsql as $$
begin
  return 1;
end
$$;
select 1; select 2;
select 3`;
  expect(statementsOf(sql).map((statement) => statement.trim().split('\n')[0])).toEqual([
    'create table a (',
    'create function f() returns integer language plpgsql as $$',
    'select 1; select 2;',
    'select 3',
  ]);
});

test('no statement of a migration is lost or holds two', () => {
  for (const { name, sql } of readMigrations()) {
    const code = sql.replaceAll(/^\s*--.*$/gm, '');
    const statements = statementsOf(sql);
    expect(statements.join('').replaceAll(/\s/g, ''), name).toBe(code.replaceAll(/\s/g, ''));
    for (const statement of statements) {
      const unquoted = statement.replaceAll(/\$\$.*?\$\$/gs, '').replaceAll(/--.*$/gm, '');
      expect(unquoted.match(/;/g) ?? [], `${name}: ${statement}`).toHaveLength(1);
    }
  }
});
