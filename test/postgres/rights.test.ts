import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest';
import { adminPlace } from '../support/admin.ts';
import { freePort, query } from '../support/postgres.ts';
import {
  call,
  kinds,
  leastPrivilegePlace,
  makeRole,
  newPlace,
  type Place,
  runCli,
  type Service,
  scrape,
  startService,
  until,
} from '../support/service.ts';

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
  ...[
    'api_keys',
    'api_key_uses',
    'clients',
    'keyring',
    'migrations',
    'policies',
    'settings',
  ].flatMap((table) => [`delete from standin.${table}`, `truncate standin.${table}`]),
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

/** A role that may do what the service does. What the database has to say to anything else is a refusal. */
describe.skipIf(!kinds().includes('server'))('the rights of the service', () => {
  let place: Place;
  let service: Service;
  let url: string;
  beforeAll(async () => {
    place = await leastPrivilegePlace();
    url = place.service!.env.DATABASE_URL!;
    service = await startService(place, { OPS_PORT: String(await freePort()), RATE_LIMIT: '100' });
    expect((await call(service, 'tokenize', { name: 'Ann Lee' })).status).toBe(200);
  });
  afterAll(async () => {
    await service?.stop();
    place?.remove();
  });

  const others: Place[] = [];
  afterEach(() => {
    for (const other of others.splice(0)) other.remove();
  });

  /** A database without a vault, and a role that may log in there. */
  async function emptyVault() {
    const other = await newPlace('server');
    others.push(other);
    return { other, role: await makeRole(other) };
  }

  test('are enough for tokenize, detokenize, health, metrics, rate limits, more nodes and doctor', async () => {
    const tokens = (await call(service, 'tokenize', { name: 'Bob Ray' })).body.data;
    expect((await call(service, 'detokenize', tokens)).body.data).toEqual({ name: 'Bob Ray' });
    expect(await (await fetch(`${service.url}/health`)).json()).toMatchObject({ postgres: 'ok' });
    const rows = async () => (await scrape(service.opsUrl!, 'standin_vault_rows'))[''];
    await until(async () => Number(await rows()) > 0, 'the records');
    const client = ['client', 'create', '--name', 'slow', '--rate-limit', '0.1', '--json'];
    const { api_key: apiKey } = JSON.parse((await runCli(client, place)).stdout);
    expect((await call(service, 'tokenize', { a: 'b' }, apiKey)).status).toBe(200);
    expect((await call(service, 'tokenize', { a: 'b' }, apiKey)).status).toBe(429);
    const other = await startService(place);
    expect((await call(other, 'detokenize', tokens)).status).toBe(200);
    await other.stop();
    const { code, stdout } = await runCli(['doctor'], place, place.service!.env);
    expect(code, stdout).toBe(0);
  });

  test('C25: are all it has: other writes, DDL, files, programs and other schemas are refused', async () => {
    await query(place.env.DATABASE_URL!, 'create schema others');
    await query(place.env.DATABASE_URL!, 'create table others.secrets (a text)');
    const statements = [
      ...FOR_NOBODY,
      ...['api_keys', 'clients', 'keyring', 'migrations', 'policies', 'settings'].map(
        (table) => `insert into standin.${table} select * from standin.${table}`,
      ),
      "update standin.api_key_uses set api_key_id = ''",
      'update standin.clients set disabled_at = null',
      'update standin.api_keys set revoked_at = null',
    ];
    const before = await counts();
    const taken = await takenOf(url, statements);
    // VACUUM of a table of another's is a warning, and does nothing.
    expect(taken).toEqual(['vacuum full standin.records']);
    expect(await counts()).toEqual(before);
  });

  async function counts(): Promise<unknown> {
    return query(
      place.env.DATABASE_URL!,
      'select (select count(*) from standin.clients) as clients, (select count(*) from standin.keyring) as keys, (select count(*) from standin.records) as records',
    );
  }

  test('come to the same when they are granted again, and lose what was added', async () => {
    const { other, role } = await emptyVault();
    const grant = () => runCli(['migrate', '--grant-to', role.name, '--json'], other);
    const first = JSON.parse((await grant()).stdout);
    expect(first.applied.length).toBeGreaterThan(0);
    const rightsOf = () =>
      query(
        other.env.DATABASE_URL!,
        `select table_name::text, column_name::text, privilege_type::text from information_schema.column_privileges
         where grantee = $1 order by 1, 2, 3`,
        [role.name],
      );
    const rights = await rightsOf();
    expect(rights.filter((right) => right.privilege_type === 'UPDATE')).toEqual(
      [
        ['api_key_uses', 'last_used_at'],
        ...['expires_at', 'key_version', 'sealed'].map((column) => ['records', column]),
      ].map(([tableName, columnName]) => ({
        table_name: tableName,
        column_name: columnName,
        privilege_type: 'UPDATE',
      })),
    );
    await query(other.env.DATABASE_URL!, `grant all on standin.api_keys to ${role.name}`);
    await query(other.env.DATABASE_URL!, `grant create on schema standin to ${role.name}`);
    expect(await rightsOf()).not.toEqual(rights);
    const again = JSON.parse((await grant()).stdout);
    expect(again).toEqual({ ...first, applied: [] });
    expect(await rightsOf()).toEqual(rights);
    await expect(query(role.url, 'create table standin.mine (a text)')).rejects.toThrow(/denied/);
  });

  test('do not make a schema, a vault or a first client: the start says what the owner is to run', async () => {
    const { other, role } = await emptyVault();
    const serve = async () => {
      const env = { DATABASE_URL: role.url, PORT: '0', OPS_PORT: '0' };
      const { code, stdout, stderr } = await runCli(['serve'], other, env);
      expect({ code, stdout }).toEqual({ code: 1, stdout: '' });
      return stderr;
    };
    expect(await serve()).toMatch(/^standin: The schema .* run: standin migrate --grant-to ROLE$/m);
    await runCli(['migrate'], other);
    expect(await serve()).toMatch(/^standin: The user .* no rights .* migrate --grant-to ROLE$/m);
    await runCli(['migrate', '--grant-to', role.name], other);
    expect(await serve()).toMatch(/^standin: The vault has no keys yet, .* standin client create/m);
    await (await startService(other)).stop();
    await query(other.env.DATABASE_URL!, 'delete from standin.api_keys');
    await query(other.env.DATABASE_URL!, 'delete from standin.clients');
    expect(await serve()).toMatch(
      /^standin: The vault has no client yet, .* standin client create/m,
    );
    expect(await query(other.env.DATABASE_URL!, 'select 1 from standin.clients')).toEqual([]);
  });

  test('are not those of a command: it says that it is for the owner', async () => {
    const create = ['client', 'create', '--name', 'x'];
    const { code, stderr } = await runCli(create, place, place.service!.env);
    expect(code).toBe(1);
    expect(stderr).toMatch(/may not do this. Run it as the owner/);
  });

  test('that are missing are a problem of doctor, which names them', async () => {
    const { other, role } = await emptyVault();
    await (await startService(other)).stop();
    await runCli(['migrate', '--grant-to', role.name], other);
    await query(other.env.DATABASE_URL!, `revoke all on standin.clients from ${role.name}`);
    await query(
      other.env.DATABASE_URL!,
      `revoke update (sealed) on standin.records from ${role.name}`,
    );
    const { code, stdout } = await runCli(['doctor'], other, { DATABASE_URL: role.url });
    expect(code).toBe(1);
    expect(stdout).toMatch(
      /^PROBLEM {2}rights: .*lacks select on standin\.clients, update \(sealed\) on standin\.records\. /m,
    );
  });

  test('are not given to a role that they would not bind, or that is not there', async () => {
    const { other, role } = await emptyVault();
    const grant = async (name: string) => {
      const { code, stderr } = await runCli(['migrate', '--grant-to', name], other);
      expect(code).toBe(1);
      return stderr;
    };
    const powers = ['superuser', 'createrole', 'createdb', 'replication'];
    for (const power of powers) {
      await query(other.env.DATABASE_URL!, `alter role ${role.name} ${power}`);
      expect(await grant(role.name)).toMatch(/its rights cannot be limited/);
      await query(other.env.DATABASE_URL!, `alter role ${role.name} no${power}`);
    }
    await query(other.env.DATABASE_URL!, `grant pg_write_all_data to ${role.name}`);
    expect(await grant(role.name)).toMatch(/its rights cannot be limited/);
    expect(await grant('nobody "at" all')).toMatch(
      /Make it: create role "nobody ""at"" all" login/,
    );
  });
});

describe.skipIf(!kinds().includes('server'))('what somebody else put into the schema', () => {
  const places: Place[] = [];
  afterEach(() => {
    for (const place of places.splice(0)) place.remove();
  });

  /** A database where another role may make a schema, and what that role can do there. */
  async function shared() {
    const place = await newPlace('server');
    places.push(place);
    const owner = place.env.DATABASE_URL!;
    const other = await makeRole(place);
    await query(
      owner,
      `grant create on database ${new URL(owner).pathname.slice(1)} to ${other.name}`,
    );
    const run = async (command: string) => {
      const { code, stdout, stderr } = await runCli([command], place, { PORT: '0' });
      return { code, text: `${stdout}${stderr}`.replaceAll(/\s+/g, ' ') };
    };
    return { place, owner, other, run };
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
    const { owner, other, run } = await shared();
    await query(other.url, 'create schema standin; grant all on schema standin to public');
    for (const statement of statements) await query(other.url, statement);
    for (const command of ['migrate', 'serve']) {
      const { code, text } = await run(command);
      expect(text).toContain(`belongs to ${other.name}, who could change this vault`);
      expect(code).toBe(1);
    }
    expect(await query(owner, 'select 1 from pg_default_acl')).toEqual([]);
    expect(await query(owner, "select 1 from pg_class where relname = 'records'")).toEqual([]);
  });

  test('as a whole vault of its own gets no keys', async () => {
    const { owner, other, place, run } = await shared();
    expect((await runCli(['migrate'], place, { DATABASE_URL: other.url })).code).toBe(0);
    const { code, text } = await run('serve');
    expect(text).toContain(`belongs to ${other.name}, who could change this vault`);
    expect(code).toBe(1);
    expect(await query(owner, 'select 1 from standin.keyring')).toEqual([]);
  });

  test.each([
    [
      'the table standin.mine of the role $other',
      [
        'grant create on schema standin to $other',
        'set local role $other',
        'create table standin.mine ()',
      ],
    ],
    [
      'the trigger trap on standin.records',
      [
        TRAP,
        'grant usage on schema standin to $other; grant trigger on standin.records to $other',
        'set local role $other',
        'create trigger trap before insert on standin.records execute function public.trap()',
      ],
    ],
    [
      'the rule trap on standin.clients',
      ['create rule trap as on insert to standin.clients do instead nothing'],
    ],
    [
      'the row security policy trap on standin.policies',
      ['create policy trap on standin.policies using (false)'],
    ],
    [
      'the function public.trap of the default value for column trap of table standin.keyring',
      [
        "create function public.trap() returns text language sql as 'select null'",
        'alter table standin.keyring add trap text default public.trap()',
      ],
    ],
  ])('stops the next start, and is a problem of doctor: %s', async (what, statements) => {
    const { owner, other, run } = await shared();
    expect((await run('migrate')).code).toBe(0);
    const named = (text: string) => text.replaceAll('$other', other.name);
    await query(owner, statements.map(named).join(';'));
    const problem = `something that Standin did not make: ${named(what)}. It could run code`;
    for (const command of ['serve', 'migrate', 'doctor']) {
      const { code, text } = await run(command);
      expect(text).toContain(problem);
      expect(code).toBe(1);
    }
  });
});

/** What its role can do is in test/http/admin-api.test.ts, which has every act done by it. */
describe.skipIf(!kinds().includes('server'))('the rights of the admin API', () => {
  let place: Place;
  let url: string;
  beforeAll(async () => {
    place = await adminPlace();
    url = place.service!.env.ADMIN_DATABASE_URL!;
    await query(place.env.DATABASE_URL!, 'create schema others');
    await query(place.env.DATABASE_URL!, 'create table others.secrets (a text)');
  });
  afterAll(() => place?.remove());

  test('C25: are all it has: other columns and tables, deletes, DDL, files and programs are refused', async () => {
    const statements = [
      ...FOR_NOBODY,
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
    expect(await takenOf(url, statements)).toEqual(['vacuum full standin.records']);
  });

  test('come to the same when they are granted again', async () => {
    const [{ current_user: role }] = (await query(url, 'select current_user')) as [any];
    await query(place.env.DATABASE_URL!, `grant all on standin.settings to ${role}`);
    await query(place.env.DATABASE_URL!, `grant select on standin.api_keys to ${role}`);
    const { code, stderr } = await runCli(['migrate', '--grant-admin-to', role], place);
    expect(code, stderr).toBe(0);
    const wider = ['select * from standin.settings', 'select digest from standin.api_keys'];
    expect(await takenOf(url, wider)).toEqual([]);
  });
});

test('on the embedded database there is nobody to grant to', async () => {
  const place = await newPlace('embedded');
  const { code, stderr } = await runCli(['migrate', '--grant-to', 'x'], place);
  expect(code).toBe(1);
  expect(stderr).toMatch(/DATABASE_URL is not set/);
  place.remove();
});
