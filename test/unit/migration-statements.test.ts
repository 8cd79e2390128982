import { expect, test } from 'vitest';
import { readMigrations, statementsOf } from '../../src/store/schema.ts';

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
