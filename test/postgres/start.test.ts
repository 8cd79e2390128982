import { existsSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, describe, expect, test } from 'vitest';
import { PostgresCluster, postgresBin, query } from '../support/postgres.ts';
import {
  call,
  insist,
  kinds,
  LATE,
  newPlace,
  type Place,
  runCli,
  startService,
} from '../support/service.ts';

/** What stops a start: before anything listens, with words that say what to do, and nothing changed. */
const places: Place[] = [];
afterEach(() => {
  for (const place of places.splice(0)) place.remove();
});

async function placeOn(kind: 'embedded' | 'server', serverUrl?: string): Promise<Place> {
  const place = await newPlace(kind, serverUrl);
  places.push(place);
  return place;
}

async function expectNoStart(
  place: Place,
  message: RegExp,
  env: Record<string, string> = {},
): Promise<void> {
  const ended = await runCli(['serve'], place, {
    PORT: '0',
    OPS_PORT: '0',
    LOG_FORMAT: 'json',
    ...env,
  });
  expect(ended.stderr).toMatch(message);
  expect(ended.stdout).not.toContain('listening');
  expect(ended.code).toBe(1);
}

describe.skipIf(!kinds().includes('server'))('F27, C10: on a server', () => {
  test('a missing, short or wrong KEK stops the start, and no row is written', async () => {
    const place = await placeOn('server');
    const url = place.env.DATABASE_URL!;
    const other = join(place.folder, 'other');
    await expectNoStart(place, /cannot be read from .*other \(ENOENT\)/, { KEK_FILE: other });
    writeFileSync(other, Buffer.alloc(31), { mode: 0o600 });
    await expectNoStart(place, /must be 32 bytes, or 64 hex digits; the file has 31 bytes/, {
      KEK_FILE: other,
    });
    expect(
      await query(url, "select 1 from information_schema.schemata where schema_name = 'standin'"),
    ).toEqual([]);

    const service = await startService(place);
    const { token } = (await call(service, 'tokenize', { token: 'Ann Lee' })).body.data;
    await service.stop();
    const tables = ['records', 'keyring', 'clients', 'api_keys', 'settings', 'migrations'];
    const rows = () =>
      Promise.all(tables.map((table) => query(url, `select * from standin.${table} order by 1`)));
    const before = await rows();
    writeFileSync(other, Buffer.alloc(32, 7));
    await expectNoStart(place, /is not the one of this vault/, { KEK_FILE: other });
    expect(await rows()).toEqual(before);

    const again = await startService(place);
    expect((await call(again, 'detokenize', { token }, service.api_key)).body.data).toEqual({
      token: 'Ann Lee',
    });
    await again.stop();
  });

  test('a key that was changed in the database stops the start', async () => {
    const place = await placeOn('server');
    await (await startService(place)).stop();
    const url = place.env.DATABASE_URL!;
    await query(
      url,
      "update standin.keyring set wrapped = set_byte(wrapped, 20, get_byte(wrapped, 20) # 1) where purpose = 'dek'",
    );
    await expectNoStart(place, /The dek key, version 1, does not unwrap/);
  });

  test('a vault whose keys were deleted gets no new ones', async () => {
    const place = await placeOn('server');
    await (await startService(place)).stop();
    await query(place.env.DATABASE_URL!, 'delete from standin.keyring');
    await expectNoStart(place, /standin\.keyring is empty/);
    expect(await query(place.env.DATABASE_URL!, 'select 1 from standin.keyring')).toEqual([]);
  });

  test('four nodes that start at once on an empty database all serve, with one set of keys', async () => {
    const place = await placeOn('server');
    const services = await Promise.all(Array.from({ length: 4 }, () => startService(place)));
    const apiKey = services.map((service) => service.api_key).find((key) => key !== '')!;
    const tokens = await Promise.all(
      services.map((service) =>
        insist(() => call(service, 'tokenize', { a: 'Ann Lee' }, apiKey), LATE),
      ),
    );
    expect(tokens.map(({ status }) => status)).toEqual([200, 200, 200, 200]);
    expect(new Set(tokens.map((answer) => answer.body.data.a)).size).toBe(1);
    const keys = await query(
      place.env.DATABASE_URL!,
      'select purpose from standin.keyring order by 1',
    );
    expect(keys.map((key) => key.purpose)).toEqual(['api-key', 'dek', 'fingerprint', 'token']);
    for (const service of services) await service.stop();
  });
});

describe.skipIf(postgresBin === undefined)('F27: an unsafe server', () => {
  test.each(['fsync', 'synchronous_commit', 'full_page_writes'])(
    '%s=off is refused unless it is allowed',
    async (name) => {
      const cluster = await PostgresCluster.start({ [name]: 'off' });
      try {
        const place = await placeOn('server', cluster.url('postgres'));
        await expectNoStart(place, new RegExp(`${name}=off.*ALLOW_UNSAFE_POSTGRES`));
        const service = await startService(place, { ALLOW_UNSAFE_POSTGRES: 'true' });
        await service.stop();
      } finally {
        cluster.stop();
      }
    },
  );
});

test('another TOKEN_SUFFIX than that of the vault stops the start', async () => {
  const place = await placeOn('embedded');
  await (await startService(place, { TOKEN_SUFFIX: 'abc' })).stop();
  await expectNoStart(place, /end in "_abc".*Set TOKEN_SUFFIX=abc/);
});

test('a lost KEK of the embedded vault stops the start, and no new one is made', async () => {
  const place = await placeOn('embedded');
  await (await startService(place)).stop();
  const kek = join(place.env.DATA_DIR!, 'kek');
  rmSync(kek);
  await expectNoStart(place, /restore it from your backup/);
  expect(existsSync(kek)).toBe(false);
});
