import { beforeAll, describe, expect, onTestFinished, test } from 'vitest';
import { adminPlace } from '../support/admin.ts';
import { startWithOps } from '../support/ops.ts';
import { actsOn, ownPlace, ownService } from '../support/own.ts';
import { query } from '../support/postgres.ts';
import * as service from '../support/service.ts';

const { call, createClient, kinds, makeRole, runCli, until } = service;
const hasServer = kinds().includes('server');
const TABLES = 'api_keys api_key_uses clients keyring migrations policies settings'.split(' ');

/** What neither the service nor an administrator may do. */
const FOR_NOBODY = [
  'create table standin.mine (a text)',
  'create schema mine',
  'create extension pg_trgm',
  'create role another',
  'alter table standin.records add column mine text',
  'drop table standin.records',
  'drop schema standin cascade',
  'truncate standin.records',
  'create index on standin.records (key_version)',
  'delete from standin.records',
  'update standin.records set token_fingerprint = token_fingerprint',
  'update standin.records set value_fingerprint = value_fingerprint',
  'update standin.records set created_at = created_at',
  'do $$ begin lock table standin.records in access exclusive mode; end $$',
  "copy standin.records to program 'cat'",
  "copy standin.records from program 'cat'",
  "copy standin.records to '/tmp/records'",
  "select pg_read_file('postgresql.conf')",
  "select pg_ls_dir('.')",
  "select lo_import('/etc/passwd')",
  'select * from others.secrets',
  'select * from pg_authid',
  'alter system set fsync = off',
  'select pg_reload_conf()',
  'set session_replication_role = replica',
  'set role postgres',
  'vacuum full standin.records',
  "update standin.keyring set kek_id = ''",
  ...TABLES.flatMap((table) => [`delete from standin.${table}`, `truncate standin.${table}`]),
];
/** Of another's table this is a warning, and does nothing. */
const NOT_REFUSED = ['vacuum full standin.records'];
const FOR_NO_SERVICE = [
  ...TABLES.filter((table) => table !== 'api_key_uses').map(
    (table) => `insert into standin.${table} select * from standin.${table}`,
  ),
  "update standin.api_key_uses set api_key_id = ''",
  'update standin.clients set disabled_at = null',
  'update standin.api_keys set revoked_at = null',
];
const FOR_NO_ADMINISTRATOR = [
  'select digest from standin.api_keys',
  'select * from standin.api_keys',
  'select * from standin.settings',
  'select * from standin.migrations',
  "insert into standin.settings values ('a', 'b')",
  "insert into standin.migrations (name) values ('a')",
  "insert into standin.api_key_uses values ('a', now())",
  'insert into standin.clients select * from standin.clients',
  "update standin.api_key_uses set api_key_id = ''",
  "update standin.clients set client_id = ''",
  "update standin.clients set space = ''",
  'update standin.clients set created_at = now()',
  "update standin.api_keys set digest = ''",
  "update standin.api_keys set client_id = ''",
  'update standin.api_keys set expires_at = null',
  "update standin.policies set document = ''",
  "insert into standin.policies (version, document, applied_by) values (1, '', 'ann')",
  "update standin.keyring set wrapped = ''",
  'update standin.keyring set closed_at = null',
];

/** @returns the statements that were not refused */
async function takenOf(url: string, statements: readonly string[]): Promise<string[]> {
  const taken: string[] = [];
  for (const statement of statements) {
    await query(url, statement).then(
      () => taken.push(statement),
      (error) => expect([statement, error.code]).toEqual([statement, '42501']),
    );
  }
  return taken;
}

/** A database without a vault, a role that may log in there, and statements of the owner. */
async function emptyVault() {
  const place = await ownPlace('server');
  return { ...actsOn(place), place, role: await makeRole(place) };
}

/** A role that may do what the service does. What the database has to say to anything else is a refusal. */
describe.skipIf(!hasServer)('the rights of the service', () => {
  let place: service.Place;
  let node: service.Service;
  beforeAll(async () => {
    place = await service.leastPrivilegePlace();
    node = await startWithOps(place, { RATE_LIMIT: '100' });
    expect((await call(node, 'tokenize', { name: 'Ann Lee' })).status).toBe(200);
    return async () => {
      await node.stop();
      place.remove();
    };
  });

  test('are enough for tokenize, detokenize, health, metrics, rate limits, more nodes and doctor', async () => {
    const { tokenized, restored, run } = actsOn(place, node);
    const tokens = await tokenized({ name: 'Bob Ray' });
    expect(await restored(tokens)).toEqual({ name: 'Bob Ray' });
    expect(await (await fetch(`${node.url}/health`)).json()).toMatchObject({ postgres: 'ok' });
    const rows = async () => (await service.scrape(node.opsUrl!, 'standin_vault_rows'))[''];
    await until(async () => Number(await rows()) > 0, 'the records');
    const { api_key: apiKey } = await createClient(place, '--rate-limit', '0.1');
    const status = async () => (await call(node, 'tokenize', { a: 'b' }, apiKey)).status;
    expect([await status(), await status()]).toEqual([200, 429]);
    expect(await restored(tokens, await ownService(place))).toEqual({ name: 'Bob Ray' });
    const { code, stdout } = await run('doctor', place.service!.env);
    expect(code, stdout).toBe(0);
  });

  test('C25: are all it has: other writes, DDL, files, programs and other schemas are refused', async () => {
    const { sql } = actsOn(place);
    await sql('create schema others; create table others.secrets (a text)');
    const counts = () =>
      sql(
        `select (select count(*) from standin.clients) as clients,
           (select count(*) from standin.keyring) as keys, (select count(*) from standin.records) as records`,
      );
    const before = await counts();
    const statements = [...FOR_NOBODY, ...FOR_NO_SERVICE];
    const taken = await takenOf(place.service!.env.DATABASE_URL!, statements);
    expect(taken).toEqual(NOT_REFUSED);
    expect(await counts()).toEqual(before);
  });

  test('come to the same when they are granted again, and lose what was added', async () => {
    const { role, sql, json } = await emptyVault();
    const grant = () => json(`migrate --grant-to ${role.name}`);
    const first = await grant();
    expect(first.applied.length).toBeGreaterThan(0);
    const rightsOf = async () => {
      const text = `select concat_ws(' ', privilege_type, table_name, column_name) as right
        from information_schema.column_privileges where grantee = $1 order by 1`;
      return (await sql(text, [role.name])).map(({ right }) => right as string);
    };
    const rights = await rightsOf();
    expect(rights.filter((right) => right.startsWith('UPDATE'))).toEqual([
      'UPDATE api_key_uses last_used_at',
      ...['expires_at', 'key_version', 'sealed'].map((column) => `UPDATE records ${column}`),
    ]);
    await sql(`grant all on standin.api_keys to ${role.name}`);
    await sql(`grant create on schema standin to ${role.name}`);
    expect(await rightsOf()).not.toEqual(rights);
    expect(await grant()).toEqual({ ...first, applied: [] });
    expect(await rightsOf()).toEqual(rights);
    await expect(query(role.url, 'create table standin.mine (a text)')).rejects.toThrow(/denied/);
  });

  test('do not make a schema, a vault or a first client: the start says what the owner is to run', async () => {
    const { place: other, role, sql, json, noStart } = await emptyVault();
    const expectRefused = async (message: RegExp) => {
      expect(await noStart({ DATABASE_URL: role.url })).toMatch(message);
    };
    await expectRefused(/^standin: The schema .* run: standin migrate --grant-to ROLE$/m);
    await json('migrate');
    await expectRefused(/^standin: The user .* no rights .* migrate --grant-to ROLE$/m);
    await json(`migrate --grant-to ${role.name}`);
    await expectRefused(/^standin: The vault has no keys yet, .* standin client create/m);
    await (await ownService(other)).stop();
    await sql('delete from standin.api_keys');
    await sql('delete from standin.clients');
    await expectRefused(/^standin: The vault has no client yet, .* standin client create/m);
    expect(await sql('select 1 from standin.clients')).toEqual([]);
  });

  test('are not those of a command: it says that it is for the owner', async () => {
    const { code, stderr } = await actsOn(place).run('client create --name x', place.service!.env);
    expect(code).toBe(1);
    expect(stderr).toMatch(/may not do this. Run it as the owner/);
  });

  test('that are missing are a problem of doctor, which names them', async () => {
    const { place: other, role, sql, json, run } = await emptyVault();
    await (await ownService(other)).stop();
    await json(`migrate --grant-to ${role.name}`);
    await sql(`revoke all on standin.clients from ${role.name}`);
    await sql(`revoke update (sealed) on standin.records from ${role.name}`);
    const { code, stdout } = await run('doctor', { DATABASE_URL: role.url });
    expect(code).toBe(1);
    expect(stdout).toMatch(
      /^PROBLEM {2}rights: .*lacks select on standin\.clients, update \(sealed\) on standin\.records\. /m,
    );
  });

  test('are not given to a role that they would not bind, or that is not there', async () => {
    const { role, sql, failure } = await emptyVault();
    const refusal = (name = role.name) => failure(['migrate', '--grant-to', name]);
    for (const power of ['superuser', 'createrole', 'createdb', 'replication']) {
      await sql(`alter role ${role.name} ${power}`);
      expect(await refusal()).toMatch(/its rights cannot be limited/);
      await sql(`alter role ${role.name} no${power}`);
    }
    await sql(`grant pg_write_all_data to ${role.name}`);
    expect(await refusal()).toMatch(/its rights cannot be limited/);
    const nobody = await refusal('nobody "at" all');
    expect(nobody).toMatch(/Make it: create role "nobody ""at"" all" login/);
  });
});

describe.skipIf(!hasServer)('what somebody else put into the schema', () => {
  /** A database where another role may make a schema. */
  async function shared() {
    const { place, role: other, sql } = await emptyVault();
    const name = new URL(place.env.DATABASE_URL!).pathname.slice(1);
    await sql(`grant create on database ${name} to ${other.name}`);
    const expectRefused = async (words: string, ...commands: string[]) => {
      for (const command of commands) {
        const { code, stdout, stderr } = await runCli([command], place, { PORT: '0' });
        expect(`${stdout}${stderr}`.replaceAll(/\s+/g, ' ')).toContain(words);
        expect(code).toBe(1);
      }
    };
    const isOthers = `belongs to ${other.name}, who could change this vault`;
    return { place, other, sql, expectRefused, isOthers };
  }

  const TRAP = `create function public.trap() returns trigger language plpgsql as
    $$ begin alter default privileges grant all on tables to public; return new; end $$`;

  test.each([
    ['an empty schema', []],
    [
      'a table of migrations with a trigger',
      [
        TRAP.replace('public.', 'standin.'),
        'create table standin.migrations (version integer, name text, applied_at timestamptz default now())',
        'create trigger trap before insert on standin.migrations execute function standin.trap()',
        'grant all on standin.migrations to public',
      ],
    ],
  ])('before the first migration is not taken over: %s', async (_, statements) => {
    const { other, sql, expectRefused, isOthers } = await shared();
    await query(other.url, 'create schema standin; grant all on schema standin to public');
    for (const statement of statements) await query(other.url, statement);
    await expectRefused(isOthers, 'migrate', 'serve');
    expect(await sql('select 1 from pg_default_acl')).toEqual([]);
    expect(await sql("select 1 from pg_class where relname = 'records'")).toEqual([]);
  });

  test('as a whole vault of its own gets no keys', async () => {
    const { place, other, sql, expectRefused, isOthers } = await shared();
    expect((await runCli(['migrate'], place, { DATABASE_URL: other.url })).code).toBe(0);
    await expectRefused(isOthers, 'serve');
    expect(await sql('select 1 from standin.keyring')).toEqual([]);
  });

  test.each([
    [
      'the table standin.mine of the role $other',
      `grant create on schema standin to $other; set local role $other;
       create table standin.mine ()`,
    ],
    [
      'the trigger trap on standin.records',
      `${TRAP}; grant usage on schema standin to $other;
       grant trigger on standin.records to $other; set local role $other;
       create trigger trap before insert on standin.records execute function public.trap()`,
    ],
    [
      'the rule trap on standin.clients',
      'create rule trap as on insert to standin.clients do instead nothing',
    ],
    [
      'the row security policy trap on standin.policies',
      'create policy trap on standin.policies using (false)',
    ],
    [
      'the function public.trap of the default value for column trap of table standin.keyring',
      `create function public.trap() returns text language sql as 'select null';
       alter table standin.keyring add trap text default public.trap()`,
    ],
  ])('stops the next start, and is a problem of doctor: %s', async (what, statements) => {
    const { place, other, sql, expectRefused } = await shared();
    await actsOn(place).json('migrate');
    const named = (text: string) => text.replaceAll('$other', other.name);
    await sql(named(statements));
    const problem = `something that Standin did not make: ${named(what)}. It could run code`;
    await expectRefused(problem, 'serve', 'migrate', 'doctor');
  });
});

/** What its role can do is in test/http/admin-api.test.ts, which has every act done by it. */
test.skipIf(!hasServer)(
  'C25: the rights of the admin API are all it has: other columns and tables, deletes, DDL, files and programs are refused, also when they are granted again',
  async () => {
    const place = await adminPlace();
    onTestFinished(place.remove);
    const { sql, json } = actsOn(place);
    await sql('create schema others; create table others.secrets (a text)');
    const url = place.service!.env.ADMIN_DATABASE_URL!;
    const statements = [...FOR_NOBODY, ...FOR_NO_ADMINISTRATOR];
    expect(await takenOf(url, statements)).toEqual(NOT_REFUSED);
    const [{ current_user: role }] = (await query(url, 'select current_user')) as [any];
    await sql(
      `grant all on standin.settings to ${role}; grant select on standin.api_keys to ${role}`,
    );
    await json(`migrate --grant-admin-to ${role}`);
    expect(await takenOf(url, statements)).toEqual(NOT_REFUSED);
  },
);

test('on the embedded database there is nobody to grant to', async () => {
  const { failure } = actsOn(await ownPlace('embedded'));
  expect(await failure('migrate --grant-to x')).toMatch(/DATABASE_URL is not set/);
});
