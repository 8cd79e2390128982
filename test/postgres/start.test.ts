import { existsSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { actsOn, ownCluster, ownPlace, ownService, ownVault, vaultAt } from '../support/own.ts';
import { postgresBin } from '../support/postgres.ts';
import { call, insist, kinds, LATE, type Place, startService } from '../support/service.ts';
import { sql } from '../support/vault.ts';

/** Nothing listens, and the words say what to do. */
const expectNoStart = async (place: Place, message: RegExp, env?: Record<string, string>) =>
  expect(await actsOn(place).noStart(env)).toMatch(message);

describe.skipIf(!kinds().includes('server'))('F27, C10: on a server', () => {
  test('a missing, short or wrong KEK stops the start, and no row is written', async () => {
    const place = await ownPlace('server');
    const other = join(place.folder, 'other');
    const env = { KEK_FILE: other };
    await expectNoStart(place, /cannot be read from .*other \(ENOENT\)/, env);
    writeFileSync(other, Buffer.alloc(31), { mode: 0o600 });
    await expectNoStart(place, /must be 32 bytes, or 64 hex digits; the file has 31 bytes/, env);
    expect(await sql(place, "select 1 from pg_namespace where nspname = 'standin'")).toEqual([]);

    const { service, tokenized } = await vaultAt(place);
    const { token } = await tokenized({ token: 'Ann Lee' });
    await service.stop();
    const tables = ['records', 'keyring', 'clients', 'api_keys', 'settings', 'migrations'];
    const rows = () =>
      Promise.all(tables.map((table) => sql(place, `select * from standin.${table} order by 1`)));
    const before = await rows();
    writeFileSync(other, Buffer.alloc(32, 7));
    await expectNoStart(place, /is not the one of this vault/, env);
    expect(await rows()).toEqual(before);
    const again = await ownService(place);
    const { body } = await call(again, 'detokenize', { token }, service.api_key);
    expect(body.data).toEqual({ token: 'Ann Lee' });
  });

  test.each([
    [
      'a key that was changed in the database stops the start',
      "update standin.keyring set wrapped = set_byte(wrapped, 20, get_byte(wrapped, 20) # 1) where purpose = 'dek'",
      /The dek key, version 1, does not unwrap/,
    ],
    [
      'a vault whose keys were deleted gets no new ones',
      'delete from standin.keyring',
      /standin\.keyring is empty/,
    ],
  ])('%s', async (_, statement, message) => {
    const { place, service } = await ownVault({ kind: 'server' });
    await service.stop();
    await sql(place, statement);
    const keys = () => sql(place, 'select * from standin.keyring order by purpose, version');
    const before = await keys();
    await expectNoStart(place, message);
    expect(await keys()).toEqual(before);
  });

  test('four nodes that start at once on an empty database all serve, with one set of keys', async () => {
    const place = await ownPlace('server');
    const services = await Promise.all([1, 2, 3, 4].map(() => ownService(place)));
    const apiKey = services.map((service) => service.api_key).find((key) => key !== '')!;
    const ask = (service: (typeof services)[0]) =>
      insist(() => call(service, 'tokenize', { a: 'Ann Lee' }, apiKey), LATE);
    const answers = await Promise.all(services.map(ask));
    expect(answers.map(({ status }) => status)).toEqual([200, 200, 200, 200]);
    expect(new Set(answers.map(({ body }) => body.data.a)).size).toBe(1);
    const keys = await sql(place, 'select purpose from standin.keyring order by 1');
    expect(keys.map((key) => key.purpose)).toEqual(['api-key', 'dek', 'fingerprint', 'token']);
  });
});

describe.skipIf(postgresBin === undefined)('F27: an unsafe server', () => {
  test.each(['fsync', 'synchronous_commit', 'full_page_writes'])(
    '%s=off is refused, and a problem of doctor; where it is allowed, it is a warning',
    async (name) => {
      const cluster = await ownCluster({ [name]: 'off' });
      const place = await ownPlace('server', cluster.url('postgres'));
      const remedy = `${name}=off.*Turn it on, or set ALLOW_UNSAFE_POSTGRES=true`;
      await expectNoStart(place, new RegExp(remedy));
      const { run } = actsOn(place);
      const problem = new RegExp(`^PROBLEM +database: .*${remedy}`, 'm');
      expect((await run('doctor')).stdout).toMatch(problem);
      const allowed = { ALLOW_UNSAFE_POSTGRES: 'true' };
      await (await startService(place, allowed)).stop();
      expect(await run('doctor', allowed)).toMatchObject({
        ...{
          code: 0,
          stdout: expect.stringMatching(new RegExp(`^warning +database: .*${name}=off`, 'm')),
        },
      });
    },
  );
});

test('a lost KEK of the embedded vault stops the start, and no new one is made', async () => {
  const place = await ownPlace('embedded');
  await (await startService(place)).stop();
  const kek = join(place.env.DATA_DIR!, 'kek');
  rmSync(kek);
  await expectNoStart(place, /restore it from your backup/);
  expect(existsSync(kek)).toBe(false);
});
