import { spawnSync } from 'node:child_process';
import {
  chmodSync,
  chownSync,
  existsSync,
  lchownSync,
  mkdirSync,
  readdirSync,
  renameSync,
  rmSync,
  statSync,
  symlinkSync,
} from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { newApiKey } from '../../src/crypto/api-key.ts';
import { bulkRuns, csvOf } from '../support/bulk-run.ts';
import { commandsOf, placeFor, withVault } from '../support/command.ts';
import { CLI, newBlankPlace, newPlace } from '../support/service.ts';

const NOBODY = 65_534;
const isRoot = process.getuid?.() === 0;
const own = (path: string) => chownSync(path, NOBODY, NOBODY);
const octal = (mode: string) => Number.parseInt(mode, 8);

describe('C31: a .env', () => {
  const at = placeFor('test', newBlankPlace);
  const writeTrap = (name: string, mode: number) =>
    at.write(name, `KEK_COMMAND=touch ${at.path('trap')}; echo x\n`, mode);

  /** Refused by every command, and nothing of it was done. */
  async function expectRefused(problem: RegExp, ...more: string[]): Promise<void> {
    for (const command of ['client list', 'doctor', 'migrate', ...more])
      expect(await at.failure(command)).toMatch(problem);
    expect([at.path('trap'), at.place.env.DATA_DIR!].some((path) => existsSync(path))).toBe(false);
  }

  test.runIf(isRoot)('of another owner is refused, and nothing in it is run', async () => {
    own(writeTrap('.env', 0o600));
    await expectRefused(
      /^standin: The file \.env belongs to user 65534, .*chown 0 \.env\n$/,
      'serve',
    );
  });

  test.each(['666', '602', '620'])('that others may write (%s) is refused', async (mode) => {
    writeTrap('.env', octal(mode));
    await expectRefused(/^standin: The file \.env is open to others: .*Run: chmod go-w \.env\.\n$/);
  });

  test.runIf(isRoot)('that is a link of another owner is refused, wherever it leads', async () => {
    writeTrap('own', 0o600);
    symlinkSync('own', at.path('.env'));
    lchownSync(at.path('.env'), NOBODY, NOBODY);
    await expectRefused(/^standin: The file \.env belongs to user 65534/);
  });

  test.runIf(isRoot)(
    'of another owner has no value and no API key sent to its STANDIN_URL',
    async () => {
      let requests = 0;
      const listener = createServer((_request, response) => {
        requests++;
        response.end();
      });
      await new Promise<void>((resolve) => listener.listen(0, '127.0.0.1', resolve));
      const url = `http://127.0.0.1:${(listener.address() as AddressInfo).port}`;
      own(at.write('.env', `STANDIN_URL=${url}\n`, 0o644));
      at.write('in.csv', csvOf(1, 'x'));
      const env = { STANDIN_API_KEY: newApiKey() };
      const command = 'tokenize in.csv --fields email -o out.csv';
      expect(await at.failure(command, env)).toContain('belongs to user');
      listener.close();
      expect(requests).toBe(0);
    },
  );

  test('of this user is obeyed, and may be read by others; so is one of root', async () => {
    at.write('.env', 'PORT=x\n', 0o644);
    expect(await at.failure('doctor')).toContain('PORT is "x"');
    if (!isRoot) return;
    chmodSync(at.place.folder, 0o755);
    const ids = ['--reuid', String(NOBODY), '--regid', String(NOBODY), '--clear-groups'];
    const { stderr } = spawnSync('setpriv', [...ids, process.execPath, CLI, 'doctor'], {
      cwd: at.place.folder,
      env: { PATH: process.env.PATH },
      encoding: 'utf8',
    });
    expect(stderr).toBe('standin: PORT is "x"; it must be 0 to 65535.\n');
  });
});

describe('C31: DATA_DIR', () => {
  const at = placeFor('test', () => newPlace('embedded'));
  let dataDir: string;
  beforeEach(() => {
    dataDir = at.place.env.DATA_DIR!;
  });

  /** Neither the service nor a command takes it, and nothing is written there. */
  async function expectRefused(problem: string): Promise<void> {
    const before = readdirSync(dataDir);
    expect(await at.noStart()).toContain(problem);
    for (const command of ['migrate', 'verify'])
      expect(await at.failure(command)).toContain(problem);
    expect(readdirSync(dataDir)).toEqual(before);
  }

  test('that others can open or write is refused', async () => {
    for (const mode of [0o777, 0o755, 0o770, 0o701]) {
      chmodSync(dataDir, mode);
      await expectRefused(`Run: chmod 700 ${dataDir}`);
    }
    chmodSync(dataDir, 0o750);
    await withVault(at);
  });

  test.runIf(isRoot)(
    'of another owner is refused, also if only a kek or a socket in it is',
    async () => {
      for (const name of ['kek', '.s.PGSQL.7']) {
        const planted = at.write(join('data', name), '00'.repeat(32));
        own(planted);
        await expectRefused(`${planted} belongs to user 65534`);
        rmSync(planted);
      }
      own(dataDir);
      await expectRefused('belongs to user 65534');
    },
  );

  test('that is empty is closed to others, unless others could write there', async () => {
    rmSync(dataDir, { recursive: true });
    mkdirSync(dataDir);
    chmodSync(dataDir, 0o777);
    for (const command of ['serve', 'migrate'])
      expect(await at.failure(command)).toContain(`Run: chmod 700 ${dataDir}`);
    expect(readdirSync(dataDir)).toEqual([]);
    chmodSync(dataDir, 0o755);
    await withVault(at);
    await at.text('client list');
    const modes = [dataDir, join(dataDir, 'kek')].map((path) => statSync(path).mode & 0o777);
    expect(modes).toEqual([0o700, 0o600]);
  });

  test('has a new key-encryption key not written through a symbolic link', async () => {
    const victim = at.write('victim', 'precious');
    await withVault(at);
    const script = `ln -s '${victim}' '${dataDir}'/kek.$$; exec '${process.execPath}' '${CLI}' client list`;
    const { PATH } = process.env;
    const { status } = spawnSync('sh', ['-c', script], { env: { PATH, ...at.place.env } });
    expect(status).toBe(0);
    expect(at.read('victim')).toBe('precious');
    expect(at.read('data/kek')).toMatch(/^[0-9a-f]{64}\n$/);
  });

  test('form of --new-kek-env is held to the same as .env', async () => {
    await withVault(at);
    const env = at.write('new.env', `KEK_COMMAND=touch ${at.path('trap')}; echo x\n`, 0o622);
    const stderr = await at.failure(`keyring rewrap --new-kek-env ${env}`);
    expect(stderr).toContain(`chmod go-w ${env}`);
    expect(existsSync(at.path('trap'))).toBe(false);
  });
});

describe('C31: the key-encryption key', () => {
  const at = placeFor('block', undefined, async (made) => {
    await withVault(made);
    await made.text('client list');
  });
  const kekFile = () => at.place.env.KEK_FILE ?? join(at.place.env.DATA_DIR!, 'kek');
  afterEach(() => {
    if (isRoot) chownSync(kekFile(), 0, 0);
    chmodSync(kekFile(), 0o600);
  });

  test.each(['644', '604', '602', '620', '660'])(
    'with mode %s is refused, with the remedy',
    async (mode) => {
      chmodSync(kekFile(), octal(mode));
      const stderr = await at.failure('client list');
      expect(stderr).toContain(`Run: chmod 600 ${kekFile()}`);
      expect(stderr).toContain('defaultMode: 0440');
    },
  );

  test.runIf(isRoot)('of another owner is refused', async () => {
    own(kekFile());
    expect(await at.failure('client list')).toContain('belongs to user 65534');
  });

  test('may be read by its group, as a Kubernetes secret with fsGroup is', async () => {
    chmodSync(kekFile(), 0o440);
    await at.text('client list');
  });

  test('API key in a file that others may read is refused before it is sent', async () => {
    const file = at.write('key', newApiKey(), 0o644);
    at.write('in.csv', csvOf(1, 'x'));
    const command = `tokenize in.csv --fields email -o out.csv --api-key-file ${file}`;
    const env = { STANDIN_URL: 'http://127.0.0.1:1' };
    expect(await at.failure(command, env)).toContain(`chmod 600 ${file}`);
  });
});

describe('C31: a symbolic link in the place of a file that is written', () => {
  const runs = bulkRuns();
  beforeEach(() => runs.write('victim', 'precious'));
  const link = (name: string) => {
    rmSync(runs.path(name), { force: true });
    symlinkSync('victim', runs.path(name));
  };

  test.each([
    ...['out.csv.checkpoint.new', 'out.csv.partial', 'out.rejects.partial'],
    ...['out.csv', 'out.rejects'],
  ])('of a bulk run (%s) is not followed', async (name) => {
    runs.write('in.csv', csvOf(20, 'linked'));
    link(name);
    const command = 'tokenize in.csv --fields email -o out.csv --rejects out.rejects --force';
    await runs.ok(command);
    expect(runs.read('victim')).toBe('precious');
    expect(runs.read('out.csv')).toContain('_tok');
  });

  test('of a run that goes on is refused', async () => {
    runs.write('long.csv', csvOf(60_000, 'long'));
    const command = 'tokenize long.csv --fields email -o long.out.csv';
    const stopped = await runs.cutOff(command, ['long.out.csv.partial', 10_000], 'SIGINT');
    expect(stopped.code).toBe(130);
    renameSync(runs.path('long.out.csv.partial'), runs.path('moved'));
    runs.write('victim', runs.read('moved'));
    link('long.out.csv.partial');
    const stderr = await runs.failure(`${command} --resume`);
    const words = 'long.out.csv.partial cannot be written (it is a symbolic link, ELOOP)';
    expect(stderr).toContain(words);
    expect(runs.read('victim')).toBe(runs.read('moved'));
  });

  test('of the audit log is refused', async () => {
    link('audit.log');
    const env = { AUDIT_LOG: runs.path('audit.log') };
    const stderr = await commandsOf(() => runs.place).noStart(env);
    expect(stderr).toMatch(/AUDIT_LOG, .*audit\.log, .*\(ELOOP\)/);
    expect(runs.read('victim')).toBe('precious');
  });
});
