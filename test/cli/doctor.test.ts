import { randomBytes } from 'node:crypto';
import { chmodSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { Licenser } from '../support/keys.ts';
import { freePort } from '../support/postgres.ts';
import {
  createClient,
  type Ended,
  kinds,
  makeVault,
  newPlace,
  type Place,
  runCli,
  type Service,
  startService,
  usualKinds,
} from '../support/service.ts';
import { sql } from '../support/vault.ts';

type Finding = { check: string; status: string; detail: string };

let place: Place;

async function doctor(env: Record<string, string> = {}): Promise<Ended & { findings: Finding[] }> {
  const ended = await runCli(['doctor', '--json'], place, env);
  return { ...ended, findings: JSON.parse(ended.stdout) };
}

/** What is not well, as check and status. */
function troubles(findings: readonly Finding[]): string[] {
  return findings
    .filter((one) => one.status !== 'ok')
    .map(({ check, status }) => `${check}: ${status}`);
}

function detail(findings: readonly Finding[], check: string): string {
  return findings.find((one) => one.check === check)!.detail;
}

/** serve with the same trouble ends before it listens. */
async function expectNoStart(message: string, env: Record<string, string> = {}): Promise<void> {
  const own = { ...env, PORT: '0', OPS_PORT: '0' };
  const { code, stdout, stderr } = await runCli(['serve'], place, own);
  expect({ code, stdout }).toEqual({ code: 1, stdout: '' });
  expect(stderr).toContain(message);
}

async function makeVaultWithClient(): Promise<void> {
  await makeVault(place);
  await createClient(place);
}

describe.each(usualKinds())('doctor on a vault of the %s database', (kind) => {
  let kekFile: string;
  let kek: Buffer;

  beforeAll(async () => {
    place = await newPlace(kind);
    kekFile = place.env.KEK_FILE ?? join(place.env.DATA_DIR!, 'kek');
    await makeVaultWithClient();
    kek = readFileSync(kekFile);
  });
  afterEach(() => {
    rmSync(kekFile, { force: true });
    writeFileSync(kekFile, kek, { mode: 0o600 });
  });
  afterAll(() => place.remove());

  test('a wrong KEK is a problem, and stops the start', async () => {
    writeFileSync(kekFile, randomBytes(32), { mode: 0o600 });
    const { code, stderr, findings } = await doctor();
    expect({ code, stderr }).toEqual({ code: 1, stderr: 'standin: 1 problem found.\n' });
    expect(troubles(findings)).toEqual(['key-encryption key: problem']);
    expect(detail(findings, 'key-encryption key')).toMatch(
      /is not the one of this vault .* Set KEK_FILE to the right key/,
    );
    await expectNoStart('is not the one of this vault');
  });

  test('a missing KEK is a problem, and stops the start: none is made for a vault with keys', async () => {
    rmSync(kekFile);
    const { code, findings } = await doctor();
    expect(code).toBe(1);
    expect(troubles(findings)).toEqual(['key-encryption key: problem']);
    expect(detail(findings, 'key-encryption key')).toMatch(
      /\(ENOENT\)\. Set KEK_FILE to its file, or restore it from your backup/,
    );
    await expectNoStart('cannot be read from');
  });

  test('a KEK of the wrong length is a problem that says how to make one', async () => {
    writeFileSync(kekFile, randomBytes(31), { mode: 0o600 });
    const { findings } = await doctor();
    expect(detail(findings, 'key-encryption key')).toMatch(
      /the file has 31 bytes.*openssl rand -hex 32/,
    );
    await expectNoStart('must be 32 bytes, or 64 hex digits');
  });

  test('a KEK that others may read is a problem, and the command it names mends it', async () => {
    chmodSync(kekFile, 0o644);
    const { code, findings } = await doctor();
    expect(code).toBe(1);
    expect(troubles(findings)).toEqual(['key-encryption key: problem']);
    expect(detail(findings, 'key-encryption key')).toContain(`Run: chmod 600 ${kekFile}`);
    await expectNoStart(`Run: chmod 600 ${kekFile}`);
    chmodSync(kekFile, 0o600);
    expect(troubles((await doctor()).findings)).toEqual([]);
  });

  test('the KEK may be in hex: the vault opens with either form of it', async () => {
    const content = readFileSync(kekFile);
    const hex = content.length === 32 ? content.toString('hex') : content.toString().trim();
    writeFileSync(kekFile, `\n ${hex.toUpperCase()} \n`);
    expect(troubles((await doctor()).findings)).toEqual([]);
    writeFileSync(kekFile, Buffer.from(hex, 'hex'));
    expect(troubles((await doctor()).findings)).toEqual([]);
  });

  test('another suffix is a problem that names the right one, and stops the start', async () => {
    const { code, findings } = await doctor({ TOKEN_SUFFIX: 'other' });
    expect(code).toBe(1);
    expect(troubles(findings)).toEqual(['token suffix: problem']);
    expect(detail(findings, 'token suffix')).toContain('Set TOKEN_SUFFIX=tok.');
    await expectNoStart('the suffix is fixed when the vault is made', { TOKEN_SUFFIX: 'other' });
  });

  test('a license that lets tokenize fail is a problem, an absent one is not asked for', async () => {
    const licenser = new Licenser(place.folder);
    const missing = await doctor(licenser.env);
    expect(missing.code).toBe(1);
    expect(troubles(missing.findings)).toEqual(['license: problem']);
    expect(detail(missing.findings, 'license')).toMatch(/ENOENT\. Put a valid license in /);
    await licenser.issue(-1);
    const expired = await doctor(licenser.env);
    expect(troubles(expired.findings)).toEqual(['license: problem']);
    expect(detail(expired.findings, 'license')).toContain('it expired');
    await licenser.issue(365);
    expect(troubles((await doctor(licenser.env)).findings)).toEqual([]);
  });
});

describe.each(usualKinds())('doctor on a %s database of its own', (kind) => {
  beforeEach(async () => {
    place = await newPlace(kind);
  });
  afterEach(() => place.remove());

  test('before the first start it says where it found no vault, and who makes one', async () => {
    const { code, findings } = await doctor();
    expect(code).toBe(1);
    expect(troubles(findings)).toEqual(['schema: problem']);
    expect(detail(findings, 'schema')).toMatch(/^There is no vault in .*standin migrate$/);
  });

  test('after migrate alone nothing is wrong: the keys are made by the first start', async () => {
    await runCli(['migrate'], place);
    const { code, findings } = await doctor();
    expect(code).toBe(0);
    expect(troubles(findings)).toEqual([]);
  });

  test('no client, or no live API key, is a warning that says how to make one', async () => {
    await makeVault(place);
    await runCli(['client', 'list'], place);
    const none = await doctor();
    expect(none.code).toBe(0);
    expect(troubles(none.findings)).toEqual(['clients: warning']);
    expect(detail(none.findings, 'clients')).toContain('standin client create --name NAME');
    await createClient(place);
    const [apiKey] = JSON.parse((await runCli(['api-key', 'list', '--json'], place)).stdout);
    await runCli(['api-key', 'revoke', apiKey.api_key_id], place);
    const revoked = await doctor();
    expect(troubles(revoked.findings)).toEqual(['clients: warning']);
    expect(detail(revoked.findings, 'clients')).toContain('standin api-key issue');
  });

  describe('with a service to change the tables through', () => {
    let service: Service;
    beforeEach(async () => {
      service = await startService(place);
    });
    afterEach(() => service.stop());

    test('an older schema is a warning, and nothing else is asked of it', async () => {
      await service.stop();
      await sql(place, 'drop table standin.policies');
      await sql(place, 'alter table standin.clients drop column can_lookup');
      await sql(place, 'delete from standin.migrations where version >= 6');
      const { code, findings } = await doctor();
      expect([code, troubles(findings)]).toEqual([0, ['schema: warning']]);
    });

    test('a newer schema is a problem, and stops the start of the older program', async () => {
      await sql(place, "insert into standin.migrations (version, name) values (9999, 'later')");
      const { code, findings } = await doctor();
      expect(code).toBe(1);
      expect(troubles(findings)).toEqual(['schema: problem']);
      expect(detail(findings, 'schema')).toMatch(/version 9999.*Start a newer release/);
      await expectNoStart('a schema cannot go back');
    });

    test('a changed key row is a problem that names the row, and stops the start', async () => {
      await sql(
        place,
        "update standin.keyring set wrapped = set_byte(wrapped, 20, get_byte(wrapped, 20) # 1) where purpose = 'dek'",
      );
      const { code, findings } = await doctor();
      expect(code).toBe(1);
      expect(troubles(findings)).toEqual(['key-encryption key: problem']);
      expect(detail(findings, 'key-encryption key')).toMatch(
        /The dek key, version 1, does not unwrap.*with your backup/,
      );
      await expectNoStart('does not unwrap');
    });
  });
});

describe('doctor without a database', () => {
  afterEach(() => place.remove());

  test('a server that is away is a problem, and the KEK is looked at all the same', async () => {
    place = await newPlace('embedded');
    const env = {
      DATABASE_URL: `postgres://who:secret@127.0.0.1:${await freePort()}/vault`,
      KEK_FILE: join(place.folder, 'kek'),
    };
    writeFileSync(env.KEK_FILE, randomBytes(32), { mode: 0o600 });
    const { code, stdout, findings } = await doctor(env);
    expect(code).toBe(1);
    expect(troubles(findings)).toEqual(['database: problem']);
    expect(detail(findings, 'database')).toMatch(/ECONNREFUSED.*Check DATABASE_URL/);
    expect(detail(findings, 'key-encryption key')).toContain('can be read');
    expect(stdout).not.toContain('secret');
    await expectNoStart('database unavailable (ECONNREFUSED). Run: standin doctor', env);
    rmSync(env.KEK_FILE);
    expect(troubles((await doctor(env)).findings)).toEqual([
      'database: problem',
      'key-encryption key: problem',
    ]);
  });

  test('an embedded database that cannot start is a problem that names its folder', async () => {
    place = await newPlace('embedded');
    writeFileSync(join(place.folder, 'file'), '');
    const env = { DATA_DIR: join(place.folder, 'file') };
    const { code, findings } = await doctor(env);
    expect(code).toBe(1);
    expect(troubles(findings)).toEqual(['database: problem']);
    expect(detail(findings, 'database')).toMatch(
      /^DATA_DIR is .*\/file.* Set DATA_DIR to a folder that it can write/,
    );
  });
});

describe.runIf(kinds().includes('server'))('doctor on a server', () => {
  afterEach(() => place.remove());

  test('a server that does not wait for its disk is refused, and a warning when allowed', async () => {
    place = await newPlace('server');
    const url = new URL(place.env.DATABASE_URL!);
    // From another database: behind a pooler, a session of this one would live on with its settings.
    const alter = `alter database ${url.pathname.slice(1)} set synchronous_commit = off`;
    url.pathname = '/postgres';
    await sql({ ...place, env: { DATABASE_URL: url.href } }, alter);
    const { code, findings } = await doctor();
    expect(code).toBe(1);
    expect(troubles(findings)).toEqual(['database: problem']);
    expect(detail(findings, 'database')).toMatch(
      /synchronous_commit=off.*Turn it on, or set ALLOW_UNSAFE_POSTGRES=true/,
    );
    await expectNoStart('synchronous_commit=off');
    await makeVault(place);
    const allowed = await doctor({ ALLOW_UNSAFE_POSTGRES: 'true' });
    expect(allowed.code).toBe(0);
    expect(troubles(allowed.findings)).toEqual(['database: warning']);
  });
});
