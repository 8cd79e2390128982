import { readFileSync } from 'node:fs';
import { describe, expect, test } from 'vitest';
import { readMigrations } from '../../src/store/schema.ts';
import { commandsOf, placeFor } from '../support/command.ts';
import { served } from '../support/served.ts';
import { call, newPlace, runCli, startService, usualKinds } from '../support/service.ts';
import { sql } from '../support/vault.ts';

const { version } = JSON.parse(
  readFileSync(new URL('../../package.json', import.meta.url), 'utf8'),
);
const API_KEY = /^stk_[0-9A-Za-z]{34}$/;
const CLIENT_ID = /^standin_[0-9a-f]{24}$/;
const NO_CLIENT = 'standin_000000000000000000000000';
const RIGHTS = 'some of tokenize, detokenize and lookup';

describe('help and usage', () => {
  const { run } = commandsOf(() => ({ kind: 'embedded', folder: '/', env: {}, remove() {} }));

  test('serve --help says where the settings are', async () => {
    const { stdout } = await run('serve --help');
    expect(stdout).toContain('environment variables, or lines of the file .env');
    expect(stdout).toContain('standin config lists all of them');
    const [, path] = /^What each does: (.*)$/m.exec(stdout)!;
    expect(readFileSync(path!, 'utf8')).toContain('| `DATABASE_URL` |');
  });

  test('help before a command is --help after it, at any depth', async () => {
    for (const words of ['client', 'client create', 'serve']) {
      const asked = await run(`help ${words}`);
      expect(asked).toEqual(await run(`${words} --help`));
      expect(asked).toMatchObject({ code: 0, stderr: '' });
      expect(asked.stdout).toContain(`Usage: standin ${words} `);
    }
  });

  test('--version prints the version of package.json', async () => {
    expect(await run('--version')).toEqual({ code: 0, stdout: `${version}\n`, stderr: '' });
  });

  test.each([
    [[], 'Usage: standin'],
    ['client', 'Usage: standin client'],
    ['nonsense', "unknown command 'nonsense'"],
    ['client nonsense', "unknown command 'nonsense'"],
    ['completion tcsh', "unknown command 'tcsh'"],
    ['nonsense --help', "unknown command 'nonsense'"],
    ['client nonsense -h', "unknown command 'nonsense'"],
    ['help nonsense', "unknown command 'nonsense'"],
    ['help client creat', '(Did you mean create?)'],
    ['clinet', '(Did you mean client?)'],
    ['client creat', '(Did you mean create?)'],
    ['client list --jsn', '(Did you mean --json?)'],
    ['serve extra', "too many arguments for 'serve'"],
    ['serve --json', "unknown option '--json'"],
    ['migrate --force', "unknown option '--force'"],
    ['client create', "required option '--name <name>' not specified"],
    [['client', 'create', '--name', ' '], 'It must be 1 to 200 characters'],
    ['client create --name x --rate-limit -1', '0 to 1000000'],
    ['client create --name x --token-mode odd', 'deterministic or random'],
    ['client create --name x --time-to-live 90', 'a time like 30m, 12h or 90d'],
    ['client create --name x --time-to-live 0d', 'a time like 30m, 12h or 90d'],
    [`client update ${NO_CLIENT} --time-to-live 10001d`, 'up to 10000d'],
    ['forget', 'name tokens, or a file of them'],
    ['forget a_tok --file -', 'name tokens, or a file of them'],
    ['client create --name x --can tokenize,all', RIGHTS],
    ['client create --name x --can tokenize,tokenize', RIGHTS],
    [`client update ${NO_CLIENT} --detokenize-limit x`, '0 to 1000000, with up to 3 decimals'],
    ['client update', "missing required argument 'client'"],
    [`client update ${NO_CLIENT}`, 'name what to change'],
    ['client disable', "missing required argument 'client'"],
    ['api-key issue', "required option '--client <client>' not specified"],
    [`api-key issue --client ${NO_CLIENT} --expires soon`, '30m, 12h or 90d'],
    [`api-key issue --client ${NO_CLIENT} --expires 2001-01-01`, 'in the future'],
    ['api-key revoke', "missing required argument 'api_key_id'"],
    ['keyring retire', "missing required argument 'version'"],
    ['keyring retire 0', 'It must be a whole number'],
    ['keyring reseal --rate 0', 'a whole number of records a second'],
    ['keyring rewrap', 'either --new-kek-file or --new-kek-env'],
    ['keyring rewrap --new-kek-file a --new-kek-env b', 'either --new-kek-file or'],
    ['policy show 3 --versions', 'not both'],
    ['export -o a --plain --recipients-file b', 'or give --plain'],
    ['verify --from 12', 'It must be 32 hex digits'],
  ])('standin %j is wrong usage: exit code 2, and what is wrong', async (words, message) => {
    const ended = await run(words);
    expect(ended).toMatchObject({ code: 2, stdout: '' });
    expect(ended.stderr).toContain(message);
  });

  test('the program itself ends with the exit code of wrong usage', async () => {
    const place = { kind: 'embedded', folder: '/', env: {}, remove() {} } as const;
    expect(await runCli(['serve', 'extra'], place)).toEqual(await run('serve extra'));
  });
});

describe.each(usualKinds())('admin commands on the %s database', (kind) => {
  const service = served(async () => startService(await newPlace(kind)));
  const { run, text, json, failure } = commandsOf(() => service.place);
  /** Makes a client, with options in words, and gives its id. */
  const made = async (name: string, options = '') =>
    (await json(`client create --name ${name}${options}`)).client_id as string;

  test('migrate applies what is missing, and the second time nothing', async () => {
    expect(await json('migrate')).toMatchObject({ applied: [] });
    expect(await text('migrate')).toBe('The schema is up to date.\n');
  });

  test('client create --json prints client_id and api_key, and nothing else', async () => {
    const { client_id, api_key, ...more } = await json('client create --name billing');
    expect([client_id, api_key]).toEqual(
      [CLIENT_ID, API_KEY].map((one) => expect.stringMatching(one)),
    );
    expect(more).toEqual({});
    const { status, body } = await call(service, 'tokenize', { a: 'Ann' }, api_key);
    expect([status, body.client_id]).toEqual([200, client_id]);
  });

  test('client list shows every client as it was made', async () => {
    const id = await made(
      'crm --rate-limit 0.5 --token-mode random --can tokenize',
      ' --detokenize-limit 7 --unknown-token-limit 0',
    );
    const clients = await json('client list');
    expect(clients.find((one: any) => one.client_id === id)).toEqual({
      ...{ client_id: id, name: 'crm', rate_limit: 0.5, token_mode: 'random' },
      ...{ can_tokenize: true, can_detokenize: false, can_lookup: false },
      ...{ detokenize_limit: 7, lookup_limit: null, unknown_token_limit: 0 },
      ...{ time_to_live_s: null, space: '', subject: null },
      created_at: expect.stringMatching(/^\d{4}-\d\d-\d\dT[\d:.]+Z$/),
      ...{ disabled_at: null, last_used_at: null },
    });
    const ended =
      'crm +tokenize +0\\.5/s +7/s +none +default +random +for ever +- +\\S+:\\d\\dZ +- +-$';
    expect(await text('client list')).toMatch(new RegExp(`^${id} +${ended}`, 'm'));
  });

  test('a time to live is as it was written, in seconds, and can be taken back', async () => {
    const id = await made('x', ' --time-to-live 90d');
    const update = (change: string) => json(`client update ${id} ${change}`);
    expect(await update('--name y')).toMatchObject({ time_to_live_s: 90 * 86_400 });
    const listed = new RegExp(`${id} .* 90d +- +\\S+Z +- +-$`, 'm');
    expect(await text('client list')).toMatch(listed);
    for (const time of ['36h', '30m'])
      expect(await text(`client update ${id} --time-to-live ${time}`)).toMatch(`live ${time}\n`);
    expect(await update('--time-to-live none')).toMatchObject({ time_to_live_s: null });
    expect(await text(`client update ${id} --name z`)).toMatch(/live for ever\n$/);
  });

  test('client update changes what is named and nothing else', async () => {
    const id = await made('old', ' --rate-limit 5 --token-mode random');
    const update = (change: string) => json(`client update ${id} ${change}`);
    const next = { name: 'new', rate_limit: 5, token_mode: 'random', disabled_at: null };
    expect(await update('--name new')).toMatchObject(next);
    expect(await update('--rate-limit default')).toMatchObject({ ...next, rate_limit: null });
    const plain = { name: 'new', rate_limit: 0, token_mode: 'deterministic' };
    expect(await update('--rate-limit 0 --token-mode=deterministic')).toMatchObject(plain);
    const rights = { can_tokenize: false, can_detokenize: true, can_lookup: false };
    const limits = { detokenize_limit: 2, unknown_token_limit: null };
    const one = { ...plain, ...rights, ...limits };
    expect(await update('--can detokenize --detokenize-limit=2')).toMatchObject(one);
    const both = { ...one, can_tokenize: true, unknown_token_limit: 0.5 };
    expect(await update('--can=detokenize,tokenize --unknown-token-limit 0.5')).toMatchObject(both);
    const defaults = '--rate-limit=default --detokenize-limit=default';
    expect(await text(`client update ${id} ${defaults} --unknown-token-limit=default`)).toBe(
      `${id}  new: enabled, can tokenize,detokenize, rate limit default, detokenize limit default, unknown token limit default, lookup limit default, deterministic tokens, time to live for ever\n`,
    );
  });

  test('client disable is undone by client update --enable', async () => {
    const id = await made('gone');
    const disabled = await json(`client disable ${id}`);
    expect(disabled.disabled_at).toMatch(/Z$/);
    expect(await json(`client disable ${id}`)).toEqual(disabled);
    expect(await failure(`api-key issue --client ${id}`)).toBe(
      `standin: Client ${id} is disabled. Enable it first: standin client update ${id} --enable\n`,
    );
    expect((await json(`client update ${id} --enable`)).disabled_at).toBeNull();
  });

  test('API keys are issued beside each other, listed without the key, and revoked by id', async () => {
    const { client_id: id, api_key: apiKey } = await json('client create --name keys');
    const issued = await json(`api-key issue --client ${id} --expires 90d`);
    const days = (Date.parse(issued.expires_at) - Date.now()) / 86_400_000;
    expect(days).toBeCloseTo(90, 2);
    expect(issued).toEqual({
      api_key_id: expect.stringMatching(/^key_[0-9a-f]{12}$/),
      client_id: id,
      api_key: expect.stringMatching(API_KEY),
      expires_at: expect.stringMatching(/Z$/),
    });
    expect(issued.api_key).not.toBe(apiKey);
    const printed = await text(`api-key list --client ${id}`);
    expect(printed).not.toContain('stk_');
    expect(printed.match(/ live /g)).toHaveLength(2);
    const expiring = 'update standin.api_keys set expires_at = now() where api_key_id = $1';
    await sql(service.place, expiring, [issued.api_key_id]);
    expect((await text('api-key list')).match(/ expired /g)).toHaveLength(1);
    const revoked = await json(`api-key revoke ${issued.api_key_id}`);
    const words = `${issued.api_key_id} is revoked; it stops working within 5 s.\n`;
    expect(await text(`api-key revoke ${issued.api_key_id}`)).toBe(words);
    expect(revoked.revoked_at).toMatch(/Z$/);
    expect(await json(`api-key revoke ${issued.api_key_id}`)).toEqual(revoked);
    expect(await json(`api-key list --client ${id}`)).toEqual([
      expect.objectContaining({ client_id: id, expires_at: null, revoked_at: null }),
      { ...revoked, last_used_at: null },
    ]);
    const row = new RegExp(`^${issued.api_key_id} .* revoked `, 'm');
    expect(await text(`api-key list --client ${id}`)).toMatch(row);
  });

  test('keyring status lists the four keys of a new vault, wrapped by one KEK', async () => {
    const keys = await json('keyring status');
    expect(keys.map((key: any) => key.purpose)).toEqual([
      ...['api-key', 'dek', 'fingerprint', 'token'],
    ]);
    expect(keys[0].kek_id).toMatch(/^[0-9a-f]{16}$/);
    for (const key of keys)
      expect(key).toEqual({
        ...{ purpose: key.purpose, version: 1, is_primary: true, kek_id: keys[0].kek_id },
        created_at: expect.stringMatching(/Z$/),
        records: key.purpose === 'dek' ? expect.any(Number) : null,
        ...{ is_estimate: false, closed_at: null },
      });
  });

  test('doctor finds nothing wrong', async () => {
    const checks = [
      ...['configuration', 'database', 'schema', 'rights', 'owners', 'key-encryption key'],
      ...['records', 'token suffix', 'clients', 'policy'],
    ];
    const findings = await json('doctor');
    expect(findings.map((one: any) => `${one.check} ${one.status}`)).toEqual(
      checks.map((check) => `${check} ok`),
    );
  });

  test.each([
    [`client update ${NO_CLIENT} --name x`, 'client list'],
    [`client disable ${NO_CLIENT}`, 'client list'],
    [`api-key issue --client ${NO_CLIENT}`, 'client list'],
    [`api-key list --client ${NO_CLIENT}`, 'client list'],
    ['api-key revoke key_000000000000', 'api-key list'],
  ])('%s names what there is none of and how to find it', async (command, remedy) => {
    expect(await failure(command)).toMatch(
      new RegExp(`^standin: There is no .*_0+\\. List them with: standin ${remedy}\n$`),
    );
  });

  test('a name does wherever an id does', async () => {
    const id = await made('shop');
    const byName = { client_id: id, name: 'shop' };
    const limited = { ...byName, rate_limit: 5 };
    expect(await json('client update shop --rate-limit 5')).toMatchObject(limited);
    expect(await json(`client update ${id} --can tokenize`)).toMatchObject(byName);
    const issued = await json('api-key issue --client shop');
    expect(issued.client_id).toBe(id);
    const keys = await json('api-key list --client shop');
    expect(keys.map((key: any) => key.api_key_id)).toContain(issued.api_key_id);
    expect(keys).toHaveLength(2);
    const row = new RegExp(`^${issued.api_key_id} +${id} +shop +live `, 'm');
    expect(await text('api-key list')).toMatch(row);
    expect(await text('api-key issue --client shop --expires 2099-01-02')).toMatch(
      /^API key {2}stk_\w{34} {2}\(shown only this once\)\nid {7}key_\w{12}\nexpires {2}2099-01-02T00:00:00Z\n$/,
    );
    expect(await text('client disable shop')).toMatch(
      / shop: disabled since \S+Z, can .*\nIts API keys stop working within 5 s\.\n$/,
    );
  });

  test('a name or an id that a client has is refused for another, also when two ask at once', async () => {
    const id = await made('taken');
    const other = await made('other');
    const words = (name: string) =>
      `standin: There is a client ${name} already. Choose another name, or change that client: standin client update\n`;
    expect(await failure('client create --name taken')).toBe(words('taken'));
    expect(await failure(`client create --name ${id}`)).toBe(words(id));
    expect(await failure(`client update ${other} --name taken`)).toBe(words('taken'));
    // Its own name is no other client's.
    expect((await json('client update taken --name taken')).client_id).toBe(id);
    const creating = () => runCli(['client', 'create', '--name', 'at once'], service.place);
    const both = await Promise.all([creating(), creating()]);
    expect(both.map(({ code }) => code).toSorted()).toEqual([0, 1]);
    const clients = await json('client list');
    expect(clients.filter((one: any) => one.name === 'at once')).toHaveLength(1);
  });

  test('create says what the client may do, and how to allow less', async () => {
    expect(await text('client create --name both')).toMatch(
      /^client {3}standin_[0-9a-f]{24}\ncan {6}tokenize and detokenize: its API key turns tokens back into values\n {9}to allow less: standin client update both --can tokenize\nAPI key {2}stk_\w{34} {2}\(shown only this once\)\n$/,
    );
    const odd = await text(['client', 'create', '--name', "Ann's; shop"]);
    expect(odd).toMatch(/less: standin client update standin_[0-9a-f]{24} --can tokenize\n/);
    expect(await text('client create --name one --can tokenize')).toMatch(/^can {6}tokenize\n/m);
    const jwt = await text('client create --name jwt --subject a:b');
    expect(jwt).toMatch(/: its JWTs turn tokens back .*\nsubject {2}a:b\n$/s);
    expect(await text('client update jwt --enable')).toContain(' enabled, subject a:b, can');
  });

  test('names that two clients have from before are refused in words, and their ids still do', async () => {
    const ids = [await made('twin'), await made('twin2')] as const;
    const renaming = "update standin.clients set name = 'twin' where client_id = $1";
    await sql(service.place, renaming, [ids[1]]);
    const limitOf = async (client: string, limit: number) =>
      (await json(`client update ${client} --rate-limit ${limit}`)).client_id;
    expect(await failure('client update twin --rate-limit 1')).toBe(
      `standin: 2 clients are called twin: ${ids.join(', ')}. Use an id, or give all but one another name: standin client update ID --name NAME\n`,
    );
    expect(await limitOf(ids[0], 1)).toBe(ids[0]);
    await json(`client update ${ids[1]} --name twin2`);
    expect(await limitOf('twin', 2)).toBe(ids[0]);
  });

  test('client create begins the client_id with CLIENT_PREFIX', async () => {
    const env = { CLIENT_PREFIX: 'acme' };
    const { stdout } = await run('client create --name prefixed --json', env);
    expect(JSON.parse(stdout).client_id).toMatch(/^acme_[0-9a-f]{24}$/);
  });
});

describe.each(usualKinds())('with the service stopped, on the %s database', (kind) => {
  const at = placeFor('block', () => newPlace(kind));

  test('migrate makes the vault and lists what it applied, and admin commands work on it', async () => {
    const applied = readMigrations().map(({ name }) => name);
    expect(await at.json('migrate')).toMatchObject({ applied });
    expect(await at.json('migrate')).toMatchObject({ applied: [] });
    const { client_id: id } = await at.json('client create --name billing');
    expect(await at.json('api-key list')).toMatchObject([{ client_id: id }]);
  });
});
