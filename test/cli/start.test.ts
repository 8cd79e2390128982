import { mkdirSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { type AddressInfo, createServer as createSocketServer } from 'node:net';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { freePort } from '../support/postgres.ts';
import {
  call,
  makeVault,
  newBlankPlace,
  newPlace,
  type Place,
  runCli,
  startService,
  usualPlace,
} from '../support/service.ts';

let place: Place;
afterEach(() => place.remove());

const isRoot = process.getuid?.() === 0;

test('the first start makes no client where an operator has made one', async () => {
  place = await usualPlace();
  await makeVault(place);
  const made = await runCli(['client', 'create', '--name', 'x', '--json'], place);
  const service = await startService(place);
  expect(service.output()).not.toContain('api_key_file');
  const { api_key: apiKey } = JSON.parse(made.stdout);
  expect((await call(service, 'tokenize', { a: 'Ann' }, apiKey)).status).toBe(200);
  await service.stop();
});

describe('configuration', () => {
  beforeEach(async () => {
    place = await newBlankPlace();
  });

  /** serve ends with 1, has told nothing on standard output, and has not touched DATA_DIR. */
  async function refused(env: Record<string, string>): Promise<string> {
    const ports = { PORT: '0', OPS_PORT: '0' };
    const { code, stdout, stderr } = await runCli(['serve'], place, { ...ports, ...env });
    expect({ code, stdout }).toEqual({ code: 1, stdout: '' });
    return stderr;
  }

  test('all problems are named at once, with the setting and what it accepts', async () => {
    const stderr = await refused({
      PORT: '80 80',
      OPS_PORT: '65536',
      DATABASE_URL: 'mysql://root:hunter2@db/x',
      DATABASE_CONNECTIONS: '1',
      TOKEN_SUFFIX: 'Tok_1',
      CLIENT_PREFIX: 'with space',
      INTERFACE_VERSION: '2.0.0',
      RATE_LIMIT: 'much',
      REDIS_URL: 'memcached://:hunter2@cache',
      BODY_LIMIT: '1MB',
      VALUES_LIMIT: '0',
      DRAIN_DELAY_MS: '60000',
      ALLOW_UNSAFE_POSTGRES: 'yes',
      LOG_LEVEL: 'loud',
      LOG_FORMAT: 'xml',
      LICENSE_FILE: 'license.jwt',
    });
    expect(stderr.trimEnd().split('\n')).toEqual([
      'standin: PORT is "80 80"; it must be 0 to 65535.',
      'OPS_PORT is "65536"; it must be 0 to 65535.',
      'DATABASE_URL is not a postgres:// URL.',
      'DATABASE_CONNECTIONS is "1"; it must be 6 to 200.',
      'TOKEN_SUFFIX is "Tok_1"; it must be 1 to 16 ASCII letters and digits.',
      'CLIENT_PREFIX is "with space"; it must be 1 to 32 ASCII letters and digits.',
      'INTERFACE_VERSION is "2.0.0"; it must be 1.0.5 or 1.0.4.',
      'RATE_LIMIT is "much"; it must be 0 to 1000000.',
      'REDIS_URL is not a redis:// or rediss:// URL.',
      'BODY_LIMIT is "1MB"; it must be 1024 to 67108864.',
      'VALUES_LIMIT is "0"; it must be 1 to 1000000.',
      'DRAIN_DELAY_MS is "60000"; it must be 0 to 10000.',
      'ALLOW_UNSAFE_POSTGRES is "yes"; it must be true or false.',
      'LOG_LEVEL is "loud"; it must be trace, debug, info, warn, error or silent.',
      'LOG_FORMAT is "xml"; it must be auto, json or pretty.',
      'LICENSE_FILE and LICENSE_PUBLIC_KEY_FILE go together: set both or none.',
    ]);
  });

  test('a database URL without a KEK file says how to make one', async () => {
    const stderr = await refused({ DATABASE_URL: 'postgres://127.0.0.1:1/x' });
    expect(stderr).toMatch(/^standin: KEK_FILE is not set: .*openssl rand -hex 32\n$/);
  });

  test('both listeners on one port are refused', async () => {
    const stderr = await refused({ PORT: '9000', OPS_PORT: '9000' });
    expect(stderr).toMatch(/^standin: PORT and OPS_PORT are the same/);
  });

  test('.env of the working directory is read, and the environment goes before it', async () => {
    writeFileSync(join(place.folder, '.env'), 'TOKEN_SUFFIX=N_O\nRATE_LIMIT=much\n');
    expect(await refused({})).toBe(
      'standin: TOKEN_SUFFIX is "N_O"; it must be 1 to 16 ASCII letters and digits.\nRATE_LIMIT is "much"; it must be 0 to 1000000.\n',
    );
    expect(await refused({ RATE_LIMIT: '5' })).not.toContain('RATE_LIMIT');
  });

  test('a .env that cannot be read is said', async () => {
    mkdirSync(join(place.folder, '.env'));
    expect(await refused({})).toBe('standin: The file .env cannot be read (EISDIR).\n');
  });

  test('admin commands refuse the same configuration with the same words', async () => {
    for (const args of [['migrate'], ['client', 'list'], ['doctor'], ['keyring', 'status']]) {
      const { code, stdout, stderr } = await runCli(args, place, { PORT: 'x' });
      expect({ code, stdout, stderr }).toEqual({
        code: 1,
        stdout: '',
        stderr: 'standin: PORT is "x"; it must be 0 to 65535.\n',
      });
    }
  });

  test('a setting that is empty counts as not set', async () => {
    const { code } = await runCli(['migrate'], place, { PORT: '', DATABASE_URL: '', KEK_FILE: '' });
    expect(code).toBe(0);
  });

  test('a DATA_DIR that is a file is refused in words', async () => {
    writeFileSync(join(place.folder, 'file'), '');
    const env = { DATA_DIR: join(place.folder, 'file') };
    expect(await refused(env)).toMatch(
      /^standin: DATA_DIR is .*\/file, .* Set DATA_DIR to a folder that it can write\.\n$/,
    );
    expect(await refused({ DATA_DIR: `${env.DATA_DIR}/inside` })).toContain('DATA_DIR is ');
  });

  // Root may write everywhere but where the system has no files to make.
  test.each(isRoot ? ['/sys/standin'] : ['/sys/standin', '/standin', '/'])(
    'a DATA_DIR that cannot be made or written (%s) is refused in words',
    async (dataDir) => {
      expect(await refused({ DATA_DIR: dataDir })).toMatch(
        /^standin: DATA_DIR is .*, and this user cannot make or write that folder \(E\w+\)\. Set DATA_DIR to a folder that it can write\.\n$/,
      );
    },
  );

  test('a DATA_DIR too long for its socket is refused with the lengths', async () => {
    expect(await refused({ DATA_DIR: join(place.folder, 'x'.repeat(100)) })).toMatch(
      /^standin: DATA_DIR is too long: .* would have \d{3} bytes, but the limit is 103\. Use a shorter path\.\n$/,
    );
  });

  test('a DATA_DIR with another thing in the place of the database is refused, and kept', async () => {
    mkdirSync(place.env.DATA_DIR!, { mode: 0o700 });
    writeFileSync(join(place.env.DATA_DIR!, 'postgres'), 'precious');
    expect(await refused({})).toMatch(/The embedded database in .* could not start/);
  });
});

test('a command that meets an embedded database about to end waits for the next one', async () => {
  place = await newPlace('embedded');
  let dropped = 0;
  // As an ending one does: it still takes connections, and drops them when it is gone.
  const ending = createSocketServer((socket) => {
    socket.destroy();
    if (++dropped === 4) ending.close();
  });
  await new Promise<void>((resolve) =>
    ending.listen(join(place.env.DATA_DIR!, '.s.PGSQL.1'), resolve),
  );
  const { code, stdout, stderr } = await runCli(['migrate', '--json'], place);
  expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
  expect(JSON.parse(stdout).applied.length).toBeGreaterThan(0);
  expect(dropped).toBe(4);
});

describe('listeners', () => {
  test.each(['PORT', 'OPS_PORT'])(
    'the %s in use is named, and the exit code is 1',
    async (name) => {
      place = await usualPlace();
      const other = createServer();
      await new Promise<void>((resolve) => other.listen(0, '127.0.0.1', resolve));
      const { port } = other.address() as AddressInfo;
      const env = { PORT: '0', OPS_PORT: '0', [name]: String(port) };
      const { code, stdout, stderr } = await runCli(['serve'], place, env);
      other.close();
      expect({ code, stdout }).toEqual({ code: 1, stdout: '' });
      expect(stderr).toBe(
        `standin: Cannot listen on 127.0.0.1:${port} (EADDRINUSE). Stop the program on that port, or set ${name} to another port.\n`,
      );
      // The key that could be shown only once is not used up.
      const service = await startService(place);
      expect(service.api_key).not.toBe('');
      await service.stop();
    },
  );

  test.each(['HOST', 'OPS_HOST'])('the %s that is not of this machine is named', async (name) => {
    place = await usualPlace();
    const env = {
      ...{ PORT: '0', OPS_PORT: String(await freePort()), OPS_TOKEN: 'a'.repeat(16) },
      [name]: '192.0.2.1',
    };
    const { code, stderr } = await runCli(['serve'], place, env);
    expect(code).toBe(1);
    expect(stderr).toMatch(
      new RegExp(
        `^standin: Cannot listen on 192\\.0\\.2\\.1:\\d+ \\(EADDRNOTAVAIL\\)\\. Set ${name} to an address of this machine\\.\n$`,
      ),
    );
  });

  test('the ops listener has /metrics and the public one has not; OPS_PORT=0 turns it off', async () => {
    place = await usualPlace();
    const service = await startService(place, { OPS_PORT: String(await freePort()) });
    expect((await fetch(`${service.opsUrl}/metrics`)).status).toBe(200);
    expect((await fetch(`${service.opsUrl}/other`)).status).toBe(404);
    expect((await fetch(`${service.opsUrl}/metrics`, { method: 'POST' })).status).toBe(405);
    expect((await fetch(`${service.url}/metrics`)).status).toBe(404);
    await service.stop();
    const without = await startService(place);
    expect(without.opsUrl).toBeUndefined();
    await without.stop();
  });
});
