import { OperatorError } from '../errors.ts';
import type { Query } from './pool.ts';

/**
 * What a role could have put into the schema `standin` to have its code run by others, or to hide
 * rows from them. We make no trigger, rule, policy or function. Tables belong to the owner of the
 * schema, or to a superuser, which can do everything anyway. The triggers of foreign keys and of
 * Citus are internal. Functions of PostgreSQL itself have no entry in pg_depend.
 */
const FOREIGN = `with vault as (select oid, nspowner from pg_namespace where nspname = 'standin'),
    tables as (select pg_class.oid, relname, relowner from pg_class, vault
      where relnamespace = vault.oid and relkind in ('r', 'p', 'v', 'm', 'f', 'S'))
  select format('the table standin.%I of the role %I', relname, pg_get_userbyid(relowner)) as what
    from tables, vault, pg_roles where relowner <> nspowner and pg_roles.oid = relowner and not rolsuper
  union all
  select format('the trigger %I on standin.%I', tgname, relname)
    from pg_trigger join tables on tgrelid = tables.oid where not tgisinternal
  union all
  select format('the rule %I on standin.%I', rulename, relname)
    from pg_rewrite join tables on ev_class = tables.oid
  union all
  select format('the row security policy %I on standin.%I', polname, relname)
    from pg_policy join tables on polrelid = tables.oid
  union all
  select format('the function %s of the %s', refobjid::regproc, pg_describe_object(classid, objid, 0))
    from pg_depend where refclassid = 'pg_proc'::regclass and (classid, objid) in (
      select 'pg_attrdef'::regclass, pg_attrdef.oid from pg_attrdef join tables on adrelid = tables.oid
      union select 'pg_constraint'::regclass, pg_constraint.oid
        from pg_constraint join tables on conrelid = tables.oid
      union select 'pg_class'::regclass, indexrelid from pg_index join tables on indrelid = tables.oid)
  order by what`;

/**
 * The owners of the schema and its tables whom the user need not trust. A superuser is a member of
 * every role, so it must be the owner itself.
 */
const STRANGERS = `select distinct pg_get_userbyid(owner) as name
  from (select nspowner as owner from pg_namespace where nspname = 'standin'
    union select relowner from pg_class where relnamespace = to_regnamespace('standin')) as owners
  join pg_roles on pg_roles.oid = owner
  where not rolsuper and pg_roles.rolname <> current_user
    and ((select rolsuper from pg_roles where rolname = current_user)
      or not pg_has_role(owner, 'member'))
  order by name`;

/** @throws OperatorError when others have put something into the schema of the vault */
export async function demandNothingForeign(query: Query): Promise<void> {
  const found = (await query(FOREIGN)).rows.map((row) => row.what!);
  if (found.length === 0) return;
  throw new OperatorError(
    `The schema standin has something that Standin did not make: ${found.join(', ')}. It could run code as the users of this vault, or change what they read. Find out who made it, and drop it. If you trust the role of a table, make the owner of the schema its owner: alter table standin.NAME owner to ROLE`,
  );
}

/**
 * For whoever makes tables or keys.
 * @throws OperatorError when the schema or a table belongs to somebody else
 */
export async function demandOwner(query: Query): Promise<void> {
  const strangers = (await query(STRANGERS)).rows.map((row) => row.name!);
  if (strangers.length === 0) return;
  const names = strangers.join(', ');
  throw new OperatorError(
    `The schema standin or a table in it belongs to ${names}, who could change this vault. If this vault is theirs, run standin migrate as that role. If not, somebody made the schema before you: drop it, or use another database.`,
  );
}
