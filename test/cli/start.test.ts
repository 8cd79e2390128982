import { existsSync, mkdirSync, readdirSync } from 'node:fs';
import { createServer } from 'node:http';
import { type AddressInfo, createServer as createSocketServer } from 'node:net';
import { describe, expect, test } from 'vitest';
import { placeFor, withVault } from '../support/command.ts';
import { freePort } from '../support/postgres.ts';
import { call, kinds, newBlankPlace, newPlace, startService } from '../support/service.ts';

const isRoot = process.getuid?.() === 0;

describe('configuration', () => {
  const at = placeFor('test', newBlankPlace);

  test.each(['serve', 'migrate', 'client list', 'doctor', 'keyring status'])(
    '%s names all problems of the configuration at once',
    async (command) => {
      const words =
        'standin: PORT is "x"; it must be 0 to 65535.\nREDIS_URL is not a redis:// or rediss:// URL.\n';
      expect(await at.failure(command, { PORT: 'x', REDIS_URL: 'memcached://:hunter2@c' })).toBe(
        words,
      );
    },
  );

  test('a DATA_DIR that is a file is refused in words', async () => {
    const DATA_DIR = at.write('file', '');
    expect(await at.noStart({ DATA_DIR })).toMatch(
      /^standin: DATA_DIR is .*\/file, .* Set DATA_DIR to a folder that it can write\.\n$/,
    );
    expect(await at.noStart({ DATA_DIR: `${DATA_DIR}/inside` })).toContain('DATA_DIR is ');
  });

  // Root may write everywhere but where the system has no files to make.
  test.each(isRoot ? ['/sys/standin'] : ['/sys/standin', '/standin', '/'])(
    'a DATA_DIR that cannot be made or written (%s) is refused in words',
    async (dataDir) => {
      expect(await at.noStart({ DATA_DIR: dataDir })).toMatch(
        /^standin: DATA_DIR is .*, and this user cannot make or write that folder \(E\w+\)\. Set DATA_DIR to a folder that it can write\.\n$/,
      );
    },
  );

  test('a DATA_DIR too long for its socket is refused with the lengths', async () => {
    const DATA_DIR = at.path('x'.repeat(100));
    expect(await at.noStart({ DATA_DIR })).toMatch(
      /^standin: DATA_DIR is too long: .* would have \d{3} bytes, but the limit is 103\. Use a shorter path\.\n$/,
    );
    expect(existsSync(DATA_DIR)).toBe(false);
  });

  test('a DATA_DIR with another thing in the place of the database is refused, and kept', async () => {
    mkdirSync(at.place.env.DATA_DIR!, { mode: 0o700 });
    at.write('data/postgres', 'precious');
    expect(await at.noStart({})).toMatch(/ could not start \(it ended with 1\)\. See /);
    expect(at.read('data/postgres')).toBe('precious');
  });
});

/** Only `serve` and `migrate` make a vault: another command in a wrong folder would hide the right one. */
describe('in a folder without a vault', () => {
  const at = placeFor('test', newBlankPlace);
  const MAKE = 'To make a vault, run: standin serve, or standin migrate';

  test.each([
    ...['client list', 'client create --name shop', 'client update shop --can tokenize'],
    ...['client disable shop', 'api-key list', 'api-key issue --client shop'],
    ...['api-key revoke key_0123456789ab', 'forget --yes urb@waovwde.dhq_tok', 'keyring status'],
    ...['keyring rotate', 'keyring reseal', 'keyring retire 1'],
    ...['keyring rewrap --new-kek-file kek', 'verify', 'policy show'],
  ])('standin %s says where it looked, and makes nothing', async (command) => {
    expect(await at.failure(command, { DATA_DIR: './data' })).toBe(
      `standin: There is no vault in ./data (looked in ${at.place.folder}/data). Go to the folder of the service, or set DATA_DIR. ${MAKE}\n`,
    );
    expect(readdirSync(at.place.folder)).toEqual([]);
  });

  test('doctor says the same, and makes nothing either', async () => {
    const { code, stdout } = await at.run('doctor');
    expect(stdout).toContain(`PROBLEM  database: There is no vault in ${at.path('data')}. `);
    expect([code, readdirSync(at.place.folder)]).toEqual([1, []]);
    const granting = await at.failure('migrate --grant-admin-to x');
    expect(granting).toContain('the embedded database has one user');
  });

  test('a folder with other files is left as it is', async () => {
    mkdirSync(at.path('data'), { mode: 0o755 });
    at.write('data/notes', 'mine');
    expect(await at.failure('client list')).toContain(MAKE);
    expect(readdirSync(at.path('data'))).toEqual(['notes']);
  });

  describe.runIf(kinds().includes('server'))('or in a database without one', () => {
    const server = placeFor('test', () => newPlace('server'));

    test('a command names the database, but no user and no password, and makes nothing', async () => {
      const url = new URL(server.place.env.DATABASE_URL!);
      const name = `"${url.pathname.slice(1)}" of ${url.host}`;
      const words = `There is no vault in the database ${name}. `;
      for (const command of ['client list', 'forget --yes a_tok', 'verify'])
        expect(await server.failure(command)).toBe(
          `standin: ${words}Check DATABASE_URL. ${MAKE}\n`,
        );
      const { code, stdout } = await server.run('doctor');
      expect([code, stdout]).toEqual([1, expect.stringContaining(`PROBLEM  schema: ${words}`)]);
    });
  });
});

describe('on the embedded database', () => {
  const at = placeFor('test', () => newPlace('embedded'));

  test('a command that meets one about to end waits for the next one', async () => {
    let dropped = 0;
    // As an ending one does: it still takes connections, and drops them when it is gone.
    const ending = createSocketServer((socket) => {
      socket.destroy();
      if (++dropped === 4) ending.close();
    });
    await new Promise<void>((resolve) => ending.listen(at.path('data/.s.PGSQL.1'), resolve));
    expect((await at.json('migrate')).applied.length).toBeGreaterThan(0);
    expect(dropped).toBe(4);
  });
});

describe('a start', () => {
  const at = placeFor('test');

  test('makes no client where an operator has made one, and no ops listener on port 0', async () => {
    await withVault(at);
    const { api_key: apiKey } = await at.json('client create --name x');
    const service = await startService(at.place);
    expect(service.output()).not.toContain('api_key_file');
    expect(service.opsUrl).toBeUndefined();
    expect((await call(service, 'tokenize', { a: 'Ann' }, apiKey)).status).toBe(200);
    await service.stop();
  });

  test.each(['PORT', 'OPS_PORT'])('names the %s in use, and ends with 1', async (name) => {
    const other = createServer();
    await new Promise<void>((resolve) => other.listen(0, '127.0.0.1', resolve));
    const { port } = other.address() as AddressInfo;
    const stderr = await at.noStart({ [name]: String(port) });
    other.close();
    expect(stderr).toBe(
      `standin: Cannot listen on 127.0.0.1:${port} (EADDRINUSE). Stop the program on that port, or set ${name} to another port.\n`,
    );
    // The key that could be shown only once is not used up.
    const service = await startService(at.place);
    expect(service.api_key).not.toBe('');
    await service.stop();
  });

  test.each(['HOST', 'OPS_HOST'])('names the %s that is not of this machine', async (name) => {
    const ports = { PORT: '0', OPS_PORT: String(await freePort()), OPS_TOKEN: 'a'.repeat(16) };
    expect(await at.noStart({ ...ports, [name]: '192.0.2.1' })).toMatch(
      new RegExp(
        `^standin: Cannot listen on 192\\.0\\.2\\.1:\\d+ \\(EADDRNOTAVAIL\\)\\. Set ${name} to an address of this machine\\.\n$`,
      ),
    );
  });
});
