/**
 * Every setting that could change what a statement means or how its answer reads, in the syntax of
 * SET. A bare name is never one of another schema, and those of the session come last
 * (docs/decisions/0016). Settings that bound or protect work, such as time-outs and
 * synchronous_commit, stay the operator's.
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

/** A setting of our own: read back, it shows that the others have reached the server. */
export const MARK = 'standin.session';
export const IS_MARKED = 'pinned';

const AT_START = [
  ...PINNED,
  ['default_transaction_isolation', 'read\\ committed'],
  [MARK, IS_MARKED],
];

/** The parameter `options` of a startup packet. */
export const STARTUP_OPTIONS = AT_START.map(([name, value]) => `-c ${name}=${value}`).join(' ');

export const BEGIN = 'begin isolation level read committed';
/** For a connection without them: one simple query, and all ends with the transaction. */
export const BEGIN_PINNED = [
  BEGIN,
  ...PINNED.map(([name, value]) => `set local ${name} = ${value}`),
].join('; ');
/** For the one session of the embedded database. */
export const PIN_SESSION = PINNED.map(([name, value]) => `set ${name} = ${value}`).join('; ');
