import { Ajv2020 } from 'ajv/dist/2020.js';
import { expect, test } from 'vitest';
import { CLIENT_SETTINGS, DEFAULT_SETTINGS, type SettingName } from '../../src/client-settings.ts';

interface Row {
  readonly takes: readonly unknown[];
  readonly refuses: readonly unknown[];
  /** Also refused. JSON Schema cannot say it. */
  readonly unsaid?: readonly unknown[];
}

const LIMIT: Row = {
  takes: [0, 0.001, 2.5, 1_000_000, null],
  refuses: [-1, 1_000_000.001, 1_000_001, '5'],
  unsaid: [0.0001],
};
const FLAG: Row = { takes: [true, false], refuses: [1, 'true', null] };
const ROWS: Record<SettingName, Row> = {
  name: {
    takes: ['a', 'Ann Lee', 'x'.repeat(200)],
    refuses: ['', 'x'.repeat(201), 5, null],
    unsaid: [' ', 'a\0b', 'a\u{202e}b'],
  },
  ...{ rate_limit: LIMIT, detokenize_limit: LIMIT, lookup_limit: LIMIT },
  ...{ unknown_token_limit: LIMIT, can_tokenize: FLAG, can_detokenize: FLAG, can_lookup: FLAG },
  token_mode: { takes: ['deterministic', 'random'], refuses: ['other', '', null] },
  time_to_live_s: { takes: [1, 864_000_000, null], refuses: [0, 1.5, 864_000_001, '1'] },
  space: {
    takes: ['', 'ACME', '42', '-x', 'a'.repeat(32)],
    refuses: ['a'.repeat(33), 'a tenant', 'a\n', 'é', null],
  },
  subject: {
    takes: ['a', 'spiffe://example.org/jobs', 'a b', 'x'.repeat(512), null],
    refuses: ['', ' a', 'a ', 'x'.repeat(513), 5],
    unsaid: ['a\tb'],
  },
};

test.each(Object.entries(ROWS))('%s takes what its schema takes', (name, row) => {
  const setting = CLIENT_SETTINGS[name as SettingName];
  const isFit = new Ajv2020({ strict: false }).compile(setting.schema);
  const verdictOf = (json: unknown) => [json, setting.read(json) !== undefined, isFit(json)];
  for (const json of row.takes) {
    expect(verdictOf(json)).toEqual([json, true, true]);
    // As PostgreSQL writes it.
    const text = typeof json === 'boolean' ? String(json)[0]! : String(json);
    if (json !== null) expect(setting.ofColumn(text)).toBe(json);
  }
  expect(setting.accepts.endsWith('; or null')).toBe(row.takes.includes(null));
  expect(/; null: \w/.test(String(setting.schema.description))).toBe(row.takes.includes(null));
  for (const json of row.refuses) expect(verdictOf(json)).toEqual([json, false, false]);
  for (const json of row.unsaid ?? []) expect(verdictOf(json)).toEqual([json, false, true]);
});

test('every default is acceptable, and a name has none', () => {
  for (const [name, value] of Object.entries(DEFAULT_SETTINGS))
    expect([name, CLIENT_SETTINGS[name as SettingName].read(value)]).toEqual([name, value]);
  expect(DEFAULT_SETTINGS).not.toHaveProperty('name');
});
