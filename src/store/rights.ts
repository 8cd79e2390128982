import pg from 'pg';
import { SETTING_NAMES } from '../client-settings.ts';
import { OperatorError } from '../errors.ts';
import type { Durable } from '../types.ts';
import { API_KEY_COLUMNS } from './api-keys.ts';
import type { Pool, Query } from './pool.ts';
import { hasCitus } from './schema.ts';

/** The columns of each right. */
interface DatabaseRights {
  readonly select?: readonly string[] | 'all';
  readonly insert?: readonly string[];
  readonly update?: readonly string[];
}

/**
 * The columns that the service writes; it reads all tables. It makes records, revives forgotten and
 * expired ones, and deletes nothing. It notes when API keys were used and which policies are
 * durable. Commands, which run as the owner, make clients, API keys and keys.
 */
const SERVICE_RIGHTS = {
  records: {
    insert: ['token_fingerprint', 'value_fingerprint', 'key_version', 'sealed', 'expires_at'],
    update: ['key_version', 'sealed', 'expires_at'],
  },
  api_key_uses: { insert: ['api_key_id', 'last_used_at'], update: ['last_used_at'] },
  durable_policies: { insert: ['version', 'applied_at'] },
} satisfies Record<string, DatabaseRights>;

/**
 * The columns that the admin API reads and writes, and no other table. It makes clients, API keys,
 * versions of the policy and keys, and forgets records; it deletes no row. It reads wrapped keys,
 * because rotate unwraps them first, and no digest of an API key.
 */
const ADMIN_RIGHTS: Readonly<Record<string, DatabaseRights>> = {
  records: { select: 'all', ...SERVICE_RIGHTS.records },
  clients: {
    select: 'all',
    insert: ['client_id', ...SETTING_NAMES],
    update: [...SETTING_NAMES.filter((name) => name !== 'space'), 'disabled_at'],
  },
  api_keys: {
    select: API_KEY_COLUMNS,
    insert: ['api_key_id', 'client_id', 'digest', 'expires_at'],
    update: ['revoked_at'],
  },
  api_key_uses: { select: 'all' },
  policies: { select: 'all', insert: ['version', 'document', 'is_noted'] },
  durable_policies: { select: 'all', ...SERVICE_RIGHTS.durable_policies },
  keyring: { select: 'all', insert: ['purpose', 'version', 'kek_id', 'wrapped'] },
};

/** For whom a role is. */
export type RolePurpose = 'service' | 'admin';

/** Table grants do not bind a role that is, or can become, one of these. */
const POWERS = [
  'pg_execute_server_program',
  'pg_read_server_files',
  'pg_write_server_files',
  'pg_write_all_data',
];
const ROLE = `select rolsuper or rolcreaterole or rolcreatedb or rolreplication
    or pg_has_role(pg_roles.oid, relowner, 'member')
    or exists (select 1 from pg_roles as power where power.rolname = any($2)
      and pg_has_role(pg_roles.oid, power.oid, 'member')) as is_powerful
  from pg_roles, pg_class
  where rolname = $1 and pg_class.oid = 'standin.records'::regclass`;

/**
 * Gives a role exactly the rights for its purpose on the vault, and revokes all others there.
 * Returns the statements. Idempotent.
 * @throws OperatorError when the role does not exist, or is too powerful to be restricted
 */
export async function grantRights(
  pool: Pool,
  role: string,
  purpose: RolePurpose,
  deadlineMs: number,
): Promise<Durable<string[]>> {
  return pool.durably(deadlineMs, async (query) => {
    await checkRole(query, role);
    const statements = grants(pg.escapeIdentifier(role), purpose, await hasCitus(query));
    for (const statement of statements) await query(statement);
    return statements;
  });
}

async function checkRole(query: Query, role: string): Promise<void> {
  const [found] = (await query(ROLE, [role, POWERS])).rows;
  const name = pg.escapeIdentifier(role);
  if (found === undefined) {
    throw new OperatorError(`There is no role ${role}. Make it: create role ${name} login`);
  }
  if (found.is_powerful === 't') {
    throw new OperatorError(
      `The role ${role} is a superuser, the owner of the vault's tables or a member of such a role, so its rights cannot be limited. Make a role for this alone: create role standin_app login`,
    );
  }
}

function grants(to: string, purpose: RolePurpose, isCitus: boolean): string[] {
  const isService = purpose === 'service';
  const statements = [
    `revoke all on schema standin from ${to}`,
    `revoke all on all tables in schema standin from ${to}`,
    `grant usage on schema standin to ${to}`,
    ...(isService ? [`grant select on all tables in schema standin to ${to}`] : []),
  ];
  const rights: Readonly<Record<string, DatabaseRights>> = isService
    ? SERVICE_RIGHTS
    : ADMIN_RIGHTS;
  for (const [table, ofTable] of Object.entries(rights)) {
    // Citus has no column rights.
    const list = Object.entries(ofTable as Required<DatabaseRights>).map(([right, columns]) =>
      isCitus || columns === 'all' ? right : `${right} (${columns.join(', ')})`,
    );
    statements.push(`grant ${list.join(', ')} on standin.${table} to ${to}`);
  }
  return statements;
}

/** Tables that this user cannot read, and columns that this user cannot write. */
const MISSING = `select 'select on standin.' || relname as missing from pg_class
    where relnamespace = 'standin'::regnamespace and relkind in ('r', 'p')
      and not has_table_privilege(oid, 'select')
  union all
  select format('%s (%s) on %s', privilege, name, relation)
    from unnest($1::text[], $2::text[], $3::text[]) as wanted (relation, privilege, name)
    where not has_column_privilege(relation, name, privilege)`;

/**
 * The rights of the service that the database user lacks, as SQL. The schema must be up to date.
 */
export async function missingRights(pool: Pool, deadlineMs: number): Promise<string[]> {
  const wanted = Object.entries(SERVICE_RIGHTS).flatMap(([table, rights]) =>
    Object.entries<readonly string[]>(rights).flatMap(([right, columns]) =>
      columns.map((column) => [`standin.${table}`, right, column]),
    ),
  );
  const parameters = [0, 1, 2].map((i) => wanted.map((row) => row[i]));
  return (await pool.query(MISSING, parameters, deadlineMs)).rows.map((row) => row.missing!);
}
