import { execFileSync, spawnSync } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { chmodSync, existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, beforeAll, describe, expect, test } from 'vitest';
import { commandsOf, placeFor, withVault } from '../support/command.ts';
import { Licenser } from '../support/keys.ts';
import { freePort } from '../support/postgres.ts';
import { createClient, newPlace, type Place, usualKinds } from '../support/service.ts';
import { sql } from '../support/vault.ts';

interface Finding {
  readonly check: string;
  readonly status: string;
  readonly detail: string;
}

/** The findings that are not `ok`. */
async function troubles(place: Place, env: Record<string, string> = {}): Promise<Finding[]> {
  const { run } = commandsOf(() => place);
  const { code, stdout, stderr } = await run('doctor --json', env);
  const findings: Finding[] = JSON.parse(stdout);
  const problems = findings.filter(({ status }) => status === 'problem').length;
  expect(code).toBe(problems > 0 ? 1 : 0);
  if (problems === 1) expect(stderr).toBe('standin: 1 problem found.\n');
  return findings.filter(({ status }) => status !== 'ok');
}

const trouble = (check: string, detail: RegExp | string, status = 'problem') => ({
  ...{ check, status },
  detail:
    typeof detail === 'string' ? expect.stringContaining(detail) : expect.stringMatching(detail),
});
const KEK = 'key-encryption key';

describe.each(usualKinds())('doctor on a vault of the %s database', (kind) => {
  const at = placeFor('block', () => newPlace(kind), withVault);
  let kekFile: string;
  let kek: Buffer;
  beforeAll(async () => {
    kekFile = at.place.env.KEK_FILE ?? join(at.place.env.DATA_DIR!, 'kek');
    await createClient(at.place);
    kek = readFileSync(kekFile);
  });
  afterEach(() => {
    rmSync(kekFile, { force: true });
    writeFileSync(kekFile, kek, { mode: 0o600 });
  });

  test('Presidio: that it does not answer, and where it is to be', async () => {
    const url = `http://127.0.0.1:${await freePort()}`;
    const detail = `${url} does not analyze texts (ECONNREFUSED). Check PRESIDIO_URL`;
    expect(await troubles(at.place, { PRESIDIO_URL: url })).toEqual([trouble('presidio', detail)]);
  });

  const writeKek = (bytes: number) => writeFileSync(kekFile, randomBytes(bytes), { mode: 0o600 });
  // test/postgres/start.test.ts has the starts that fail.
  test.each<[string, () => void, RegExp]>([
    [
      'a wrong KEK',
      () => writeKek(32),
      /is not the one of this vault .* Set KEK_FILE to the right/,
    ],
    // None is made for a vault with keys.
    [
      'a missing KEK',
      () => rmSync(kekFile),
      /\(ENOENT\)\. Set KEK_FILE to its file, or restore it/,
    ],
    [
      'a KEK of the wrong length',
      () => writeKek(31),
      /the file has 31 bytes.*openssl rand -hex 32/,
    ],
    ['a KEK that others may read', () => chmodSync(kekFile, 0o644), /Run: chmod 600 \S+kek/],
  ])('%s is a problem with its remedy', async (_, spoil, detail) => {
    spoil();
    expect(await troubles(at.place)).toEqual([trouble(KEK, detail)]);
  });

  test('the KEK may be in hex: the vault opens with either form of it', async () => {
    const hex = kek.length === 32 ? kek.toString('hex') : kek.toString().trim();
    for (const form of [`\n ${hex.toUpperCase()} \n`, Buffer.from(hex, 'hex')]) {
      writeFileSync(kekFile, form);
      expect(await troubles(at.place)).toEqual([]);
    }
  });

  test('another suffix is a problem that names the right one, and stops the start', async () => {
    const env = { TOKEN_SUFFIX: 'other' };
    expect(await troubles(at.place, env)).toEqual([
      trouble('token suffix', 'Set TOKEN_SUFFIX=tok.'),
    ]);
    expect(await at.noStart(env)).toContain('the suffix is fixed when the vault is made');
  });

  test('a license that lets tokenize fail is a problem, an absent one is not asked for', async () => {
    const licenser = new Licenser(at.place.folder);
    const found = () => troubles(at.place, licenser.env);
    expect(await found()).toEqual([trouble('license', /ENOENT\. Put a valid license in /)]);
    await licenser.issue(-1);
    expect(await found()).toEqual([trouble('license', 'it expired')]);
    await licenser.issue(365);
    expect(await found()).toEqual([]);
    const all: Finding[] = await at.json('doctor', licenser.env);
    expect(all.map(({ check }) => check)).toEqual([
      ...['configuration', 'database', 'schema', 'rights', 'owners', KEK, 'records'],
      ...['token suffix', 'clients', 'policy', 'license'],
    ]);
  });
});

describe.each(usualKinds())('doctor on a %s database of its own', (kind) => {
  const at = placeFor('test', () => newPlace(kind));

  test('before the first start it says where it found no vault, and who makes one', async () => {
    const nowhere = trouble('schema', /^There is no vault in .*standin migrate$/);
    expect(await troubles(at.place)).toEqual([nowhere]);
    // The keys are made by the first start.
    await withVault(at);
    expect(await troubles(at.place)).toEqual([]);
  });

  test('no client, or no live API key, is a warning that says how to make one', async () => {
    await withVault(at);
    await at.json('client list');
    const warning = (remedy: string) => [trouble('clients', remedy, 'warning')];
    expect(await troubles(at.place)).toEqual(warning('standin client create --name NAME'));
    await createClient(at.place);
    const [apiKey] = await at.json('api-key list');
    await at.json(`api-key revoke ${apiKey.api_key_id}`);
    expect(await troubles(at.place)).toEqual(warning('standin api-key issue'));
  });

  test('an older schema is a warning, and nothing else is asked of it', async () => {
    await withVault(at);
    await createClient(at.place);
    await sql(at.place, 'drop table standin.policies');
    await sql(at.place, 'alter table standin.clients drop column can_lookup');
    await sql(at.place, 'delete from standin.migrations where version >= 6');
    expect(await troubles(at.place)).toMatchObject([{ check: 'schema', status: 'warning' }]);
  });

  test.each([
    [
      'a newer schema',
      "insert into standin.migrations (version, name) values (9999, 'later')",
      trouble('schema', /version 9999.*Start a newer release/),
    ],
    [
      'a changed key row',
      "update standin.keyring set wrapped = set_byte(wrapped, 20, get_byte(wrapped, 20) # 1) where purpose = 'dek'",
      trouble(KEK, /The dek key, version 1, does not unwrap.*with your backup/),
    ],
  ])('%s is a problem', async (_, change, found) => {
    await withVault(at);
    await createClient(at.place);
    await sql(at.place, change);
    expect(await troubles(at.place)).toEqual([found]);
  });
});

describe('doctor without a database', () => {
  const at = placeFor('test', () => newPlace('embedded'));

  test('a server that is away is a problem, and the KEK is looked at all the same', async () => {
    const env = {
      DATABASE_URL: `postgres://who:secret@127.0.0.1:${await freePort()}/vault`,
      KEK_FILE: at.write('kek', randomBytes(32)),
    };
    const away = trouble('database', /ECONNREFUSED.*Check DATABASE_URL/);
    expect(await troubles(at.place, env)).toEqual([away]);
    const { stdout } = await at.run('doctor', env);
    expect(stdout).toMatch(/key-encryption key: .*can be read/);
    expect(stdout).not.toContain('secret');
    const words = 'database unavailable (ECONNREFUSED). Run: standin doctor';
    expect(await at.noStart(env)).toContain(words);
    rmSync(env.KEK_FILE);
    expect(await troubles(at.place, env)).toMatchObject([away, { check: KEK, status: 'problem' }]);
  });

  test('an embedded database that cannot start is a problem that names its folder', async () => {
    expect(await troubles(at.place, { DATA_DIR: at.write('file', '') })).toEqual([
      trouble('database', /^DATA_DIR is .*\/file.* Set DATA_DIR to a folder that it can write/),
    ]);
  });
});

describe('doctor on AUDIT_LOG', () => {
  const at = placeFor('block', undefined, withVault);

  /** The finding of doctor about this AUDIT_LOG, and its exit code. */
  async function examine(path: string): Promise<Finding & { code: number | string }> {
    const { code, stdout } = await at.run('doctor --json', { AUDIT_LOG: path });
    const finding = JSON.parse(stdout).find((one: Finding) => one.check === 'audit log');
    return { code, ...finding };
  }

  test('a file that is still to be made is well when its folder is, and is not made', async () => {
    const path = at.path('audit.log');
    expect(await examine(path)).toMatchObject({
      ...{ code: 0, status: 'ok' },
      detail: expect.stringMatching(
        /audit\.log can be written, \d+\.\d GiB free on the disk of \//,
      ),
    });
    expect(existsSync(path)).toBe(false);
    writeFileSync(path, '');
    const detail = expect.stringContaining('can be written, ');
    expect(await examine(path)).toMatchObject({ code: 0, status: 'ok', detail });
  });

  test.each([
    ['in a folder that is not there', 'none/audit.log', 'ENOENT'],
    ['that is a folder', 'folder', 'EISDIR'],
    ['in what is no folder', 'file/audit.log', 'ENOTDIR'],
  ])('%s is a problem, in the words of a start that fails', async (_, name, errno) => {
    mkdirSync(at.path('folder'), { recursive: true });
    at.write('file', '');
    const { code, status, detail } = await examine(at.path(name));
    expect({ code, status }).toEqual({ code: 1, status: 'problem' });
    const words = `cannot be opened for writing (${errno}). Let this user write to the file`;
    expect(detail).toContain(words);
    expect(await at.noStart({ AUDIT_LOG: at.path(name) })).toBe(`standin: ${detail}\n`);
  });

  test.each([
    ['stdout', 'standard output'],
    ['/dev/null', '/dev/null can be written, and is not a file on a disk'],
  ])('%s needs no disk', async (path, detail) => {
    expect(await examine(path)).toMatchObject({ status: 'ok', detail });
  });

  test('a disk that is almost full is a warning that names its folder', async ({ skip }) => {
    const small = at.path('small');
    mkdirSync(small);
    const mount = ['-t', 'tmpfs', '-o', 'size=1m', 'tmpfs', small];
    if (spawnSync('mount', mount).status !== 0) skip();
    try {
      mkdirSync(join(small, 'logs'));
      expect(await examine(join(small, 'logs', 'audit.log'))).toMatchObject({
        ...{ code: 0, status: 'warning' },
        detail: expect.stringContaining(`0.0 GiB free on the disk of ${small}. Make room there`),
      });
    } finally {
      execFileSync('umount', ['-l', small]);
    }
  });
});
