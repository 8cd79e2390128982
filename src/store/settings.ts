/**
 * Every setting that could change the meaning of a statement or the format of its answer, in the
 * syntax of SET. With this search_path, a bare name finds no object of another schema, and
 * temporary objects come last (docs/decisions/0016). Settings that bound or protect work, such as
 * time-outs and synchronous_commit, stay the operator's.
 */
const PINNED = [
  ['search_path', 'pg_catalog,pg_temp'],
  ['bytea_output', 'hex'],
  ['DateStyle', 'ISO,MDY'],
  ['IntervalStyle', 'postgres'],
  ['TimeZone', 'UTC'],
  ['extra_float_digits', '1'],
  ['standard_conforming_strings', 'on'],
  ['transform_null_equals', 'off'],
  ['array_nulls', 'on'],
  ['quote_all_identifiers', 'off'],
  ['row_security', 'on'],
] as const;

/** Our own setting. If the server returns it, the other settings have arrived too. */
export const MARK = 'standin.session';
export const IS_MARKED = 'pinned';

const AT_START = [
  ...PINNED,
  ['default_transaction_isolation', 'read\\ committed'],
  [MARK, IS_MARKED],
];

/** The `options` parameter of a startup packet. */
export const STARTUP_OPTIONS = AT_START.map(([name, value]) => `-c ${name}=${value}`).join(' ');

export const BEGIN = 'begin isolation level read committed';
/**
 * For a connection without the settings: one simple query. The settings end with the transaction.
 */
export const BEGIN_PINNED = [
  BEGIN,
  ...PINNED.map(([name, value]) => `set local ${name} = ${value}`),
].join('; ');
/** For the single session of the embedded database. */
export const PIN_SESSION = PINNED.map(([name, value]) => `set ${name} = ${value}`).join('; ');
