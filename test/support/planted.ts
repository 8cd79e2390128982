import { query } from './postgres.ts';

/** Functions of the attacker: name, arguments, result, expression of pg_catalog, and operators. */
const FUNCTIONS: readonly (readonly string[])[] = [
  ['scaled', 'integer, interval', 'interval', "interval '1 second'", '*'],
  ['same', 'uuid, uuid', 'boolean', 'true', '='],
  ['same', 'bytea, bytea', 'boolean', 'true', '= <>'],
  ['same', 'text, text', 'boolean', 'true', '='],
  ['same', 'integer, smallint', 'boolean', 'true', '='],
  ['less', 'timestamptz, timestamptz', 'boolean', 'true', '<= < >'],
  ['less', 'uuid, uuid', 'boolean', 'true', '< >'],
  ['joined', 'bytea, bytea', 'bytea', "''::bytea", '||'],
  ['later', 'timestamptz, interval', 'timestamptz', "'2000-01-01'::timestamptz", '+'],
  ['since', 'timestamptz, timestamptz', 'interval', "interval '1 second'", '-'],
  ['unnest', 'text[]', 'setof text', ''],
  ['unnest', 'uuid[], uuid[], smallint[], bytea[]', 'setof record', ''],
  ['now', '', 'timestamptz', "'2000-01-01'::timestamptz"],
  ['clock_timestamp', '', 'timestamptz', "'2000-01-01'::timestamptz"],
  ['encode', 'bytea, text', 'text', "''"],
  ['uuid_send', 'uuid', 'bytea', "''::bytea"],
  ['int2send', 'smallint', 'bytea', "''::bytea"],
  ['octet_length', 'bytea', 'integer', '0'],
  ['date_part', 'text, timestamptz', 'double precision', '0'],
  ['date_part', 'text, interval', 'double precision', '0'],
  ['extract', 'text, interval', 'numeric', '0'],
  ['date_trunc', 'text, timestamptz', 'timestamptz', "'2000-01-01'::timestamptz"],
  ['to_regclass', 'text', 'regclass', 'null'],
  ['current_setting', 'text', 'text', "''"],
  ['current_setting', 'text, boolean', 'text', "''"],
  ['pg_is_in_recovery', '', 'boolean', 'false'],
  ['pg_advisory_xact_lock', 'bigint', 'void', ''],
  ['has_table_privilege', 'oid, text', 'boolean', 'true'],
  ['has_column_privilege', 'text, text, text', 'boolean', 'true'],
  ['format', 'text, text, text, text', 'text', "''"],
];
/** Types, tables and aggregates whose names the service uses without a schema. */
const OTHERS = [
  "create function public.sprung_count(bigint) returns bigint language plpgsql as $$ begin insert into public.sprung values ('count'); return $1 + 1; end $$",
  "create aggregate public.count(*) (sfunc = sprung_count, stype = bigint, initcond = '0')",
  "create function public.sprung_max(integer, integer) returns integer language plpgsql as $$ begin insert into public.sprung values ('max'); return $2; end $$",
  'create aggregate public.max(integer) (sfunc = sprung_max, stype = integer)',
  'create domain public.uuid as text',
  'create domain public.bytea as text',
  "create view public.pg_class as select public.trap('pg_class') as oid, 'x'::text as relname",
  "create view public.pg_roles as select public.trap('pg_roles') as oid, 'x'::text as rolname",
  "create view public.pg_settings as select public.trap('pg_settings') as name, 'x'::text as source",
  "create view public.pg_extension as select public.trap('pg_extension') as extname",
];
const PLANTER = 'planter';

/**
 * Plants objects in `public` as a role without rights on the vault, which PostgreSQL 14 allows to
 * everybody. Each object writes into a table when somebody runs it.
 */
export async function plant(url: string): Promise<void> {
  const own = new URL(url);
  own.username = PLANTER;
  await query(url, `create role ${PLANTER} login`);
  await query(url, `grant create on schema public to ${PLANTER}`);
  const made = own.href;
  await query(made, 'create table public.sprung (what text)');
  await query(made, 'grant insert, select on public.sprung to public');
  await query(
    made,
    'create function public.trap(text) returns text language plpgsql as $$ begin insert into public.sprung values ($1); return $1; end $$',
  );
  for (const [name, args = '', result, value, operators = ''] of FUNCTIONS) {
    const body = `begin insert into public.sprung values ('${name}(${args})'); return ${value}; end`;
    await query(
      made,
      `create function public.${name}(${args}) returns ${result} language plpgsql as $$ ${body} $$`,
    );
    const [left, right] = args.split(', ');
    for (const operator of operators.split(' ').filter((one) => one !== ''))
      await query(
        made,
        `create operator public.${operator} (leftarg = ${left}, rightarg = ${right}, function = public.${name})`,
      );
  }
  for (const statement of OTHERS) await query(made, statement);
}

/** The planted objects that somebody ran. */
export async function sprung(url: string): Promise<string[]> {
  const rows = await query(unswayed(url), 'select distinct what from public.sprung order by what');
  return rows.map(({ what }) => what);
}

/** A URL for the test's own statements, which planted objects and settings cannot change. */
export function unswayed(url: string): string {
  const changed = new URL(url);
  const settings = ['search_path=pg_catalog', 'DateStyle=ISO', 'extra_float_digits=1'];
  changed.searchParams.set('options', settings.map((one) => `-c ${one}`).join(' '));
  return changed.href;
}
