import { spawnSync } from 'node:child_process';
import {
  chmodSync,
  chownSync,
  existsSync,
  lchownSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { newApiKey } from '../../src/crypto/api-key.ts';
import { BulkRuns, csvOf } from '../support/bulk-run.ts';
import {
  CLI,
  endOf,
  makeVault,
  newBlankPlace,
  newPlace,
  type Place,
  runCli,
  type Service,
  spawnCli,
  startService,
  usualPlace,
} from '../support/service.ts';

const NOBODY = 65_534;
const isRoot = process.getuid?.() === 0;

let place: Place;

/** The command ends with 1, and says so on standard error alone. */
async function refused(args: readonly string[], env: Record<string, string> = {}): Promise<string> {
  const { code, stdout, stderr } = await runCli(args, place, env);
  expect({ code, stdout }, stderr).toEqual({ code: 1, stdout: '' });
  return stderr;
}

function write(name: string, content: string, mode: number): string {
  const path = join(place.folder, name);
  writeFileSync(path, content);
  chmodSync(path, mode);
  return path;
}

describe('C31: a .env', () => {
  beforeEach(async () => {
    place = await newBlankPlace();
  });
  afterEach(() => place.remove());

  const trap = () => join(place.folder, 'trap');
  const text = () => `KEK_COMMAND=touch ${trap()}; echo x\n`;

  /** Refused by every command, and nothing of it was done. */
  async function expectRefused(problem: RegExp): Promise<void> {
    for (const args of [['client', 'list'], ['serve'], ['doctor'], ['migrate']])
      expect(await refused(args)).toMatch(problem);
    expect(existsSync(trap())).toBe(false);
    expect(existsSync(place.env.DATA_DIR!)).toBe(false);
  }

  test.runIf(isRoot)('of another owner is refused, and nothing in it is run', async () => {
    chownSync(write('.env', text(), 0o600), NOBODY, NOBODY);
    await expectRefused(/^standin: The file \.env belongs to user 65534, .*chown 0 \.env\n$/);
  });

  test.each(['666', '602', '620'])('that others may write (%s) is refused', async (mode) => {
    write('.env', text(), Number.parseInt(mode, 8));
    await expectRefused(/^standin: The file \.env is open to others: .*Run: chmod go-w \.env\.\n$/);
  });

  test.runIf(isRoot)('that is a link of another owner is refused, wherever it leads', async () => {
    write('own', text(), 0o600);
    symlinkSync('own', join(place.folder, '.env'));
    lchownSync(join(place.folder, '.env'), NOBODY, NOBODY);
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
      chownSync(write('.env', `STANDIN_URL=${url}\n`, 0o644), NOBODY, NOBODY);
      write('in.csv', csvOf(1, 'x'), 0o600);
      const args = ['tokenize', 'in.csv', '--fields', 'email', '-o', 'out.csv'];
      expect(await refused(args, { STANDIN_API_KEY: newApiKey() })).toContain('belongs to user');
      listener.close();
      expect(requests).toBe(0);
    },
  );

  test('of this user is obeyed, and may be read by others; so is one of root', async () => {
    write('.env', 'PORT=x\n', 0o644);
    expect(await refused(['doctor'])).toContain('PORT is "x"');
    if (!isRoot) return;
    chmodSync(place.folder, 0o755);
    const ids = ['--reuid', String(NOBODY), '--regid', String(NOBODY), '--clear-groups'];
    const { stderr } = spawnSync('setpriv', [...ids, process.execPath, CLI, 'doctor'], {
      cwd: place.folder,
      env: { PATH: process.env.PATH },
      encoding: 'utf8',
    });
    expect(stderr).toBe('standin: PORT is "x"; it must be 0 to 65535.\n');
  });

  test('form of --new-kek-env is held to the same', async () => {
    place.remove();
    place = await newPlace('embedded');
    await makeVault(place);
    const env = write('new.env', text(), 0o622);
    const stderr = await refused(['keyring', 'rewrap', '--new-kek-env', env]);
    expect(stderr).toContain(`chmod go-w ${env}`);
    expect(existsSync(trap())).toBe(false);
  });
});

describe('C31: DATA_DIR', () => {
  let dataDir: string;
  beforeEach(async () => {
    place = await newPlace('embedded');
    dataDir = place.env.DATA_DIR!;
  });
  afterEach(() => place.remove());

  /** Neither the service nor a command takes it, and nothing is written there. */
  async function expectRefused(problem: string): Promise<void> {
    const before = readdirSync(dataDir);
    for (const command of ['serve', 'migrate', 'verify'])
      expect(await refused([command], { PORT: '0', OPS_PORT: '0' })).toContain(problem);
    expect(readdirSync(dataDir)).toEqual(before);
  }

  test.each(['777', '755', '770', '701'])('with mode %s is refused', async (mode) => {
    chmodSync(dataDir, Number.parseInt(mode, 8));
    await expectRefused(`Run: chmod 700 ${dataDir}`);
    chmodSync(dataDir, 0o750);
    await makeVault(place);
  });

  test.runIf(isRoot)('of another owner is refused', async () => {
    chownSync(dataDir, NOBODY, NOBODY);
    await expectRefused(`belongs to user 65534`);
  });

  test.runIf(isRoot)(
    'with a kek or a socket in it that another user put there is refused',
    async () => {
      for (const name of ['kek', '.s.PGSQL.7']) {
        const planted = join(dataDir, name);
        writeFileSync(planted, '00'.repeat(32), { mode: 0o600 });
        chownSync(planted, NOBODY, NOBODY);
        await expectRefused(`${planted} belongs to user 65534`);
        rmSync(planted);
      }
    },
  );

  test('that is empty is closed to others, unless others could write there', async () => {
    rmSync(dataDir, { recursive: true });
    mkdirSync(dataDir);
    chmodSync(dataDir, 0o777);
    for (const command of ['serve', 'migrate'])
      expect(await refused([command])).toContain(`Run: chmod 700 ${dataDir}`);
    expect(readdirSync(dataDir)).toEqual([]);
    chmodSync(dataDir, 0o755);
    await makeVault(place);
    expect((await runCli(['client', 'list'], place)).code).toBe(0);
    expect(statSync(dataDir).mode & 0o777).toBe(0o700);
    expect(statSync(join(dataDir, 'kek')).mode & 0o777).toBe(0o600);
  });

  test('has a new key-encryption key not written through a symbolic link', async () => {
    const victim = write('victim', 'precious', 0o600);
    await makeVault(place);
    const script = `ln -s '${victim}' '${dataDir}'/kek.$$; exec '${process.execPath}' '${CLI}' client list`;
    const { PATH } = process.env;
    const { status } = spawnSync('sh', ['-c', script], { env: { PATH, ...place.env } });
    expect(status).toBe(0);
    expect(readFileSync(victim, 'utf8')).toBe('precious');
    expect(readFileSync(join(dataDir, 'kek'), 'utf8')).toMatch(/^[0-9a-f]{64}\n$/);
  });
});

describe('C31: the key-encryption key', () => {
  let kekFile: string;
  beforeAll(async () => {
    place = await usualPlace();
    await makeVault(place);
    expect((await runCli(['client', 'list'], place)).code).toBe(0);
    kekFile = place.env.KEK_FILE ?? join(place.env.DATA_DIR!, 'kek');
  });
  afterEach(() => {
    if (isRoot) chownSync(kekFile, 0, 0);
    chmodSync(kekFile, 0o600);
  });
  afterAll(() => place.remove());

  test.each(['644', '604', '602', '620', '660'])(
    'with mode %s is refused, with the remedy',
    async (mode) => {
      chmodSync(kekFile, Number.parseInt(mode, 8));
      for (const args of [['serve'], ['client', 'list']]) {
        const stderr = await refused(args, { PORT: '0', OPS_PORT: '0' });
        expect(stderr).toContain(`Run: chmod 600 ${kekFile}`);
        expect(stderr).toContain('defaultMode: 0440');
      }
    },
  );

  test.runIf(isRoot)('of another owner is refused', async () => {
    chownSync(kekFile, NOBODY, NOBODY);
    expect(await refused(['client', 'list'])).toContain('belongs to user 65534');
  });

  test('may be read by its group, as a Kubernetes secret with fsGroup is', async () => {
    chmodSync(kekFile, 0o440);
    expect((await runCli(['client', 'list'], place)).code).toBe(0);
  });
});

test('C31: an API key file that others may read is refused before it is sent', async () => {
  place = await newBlankPlace();
  const file = write('key', newApiKey(), 0o644);
  write('in.csv', csvOf(1, 'x'), 0o600);
  const args = ['tokenize', 'in.csv', '--fields', 'email', '-o', 'out.csv', '--api-key-file', file];
  expect(await refused(args, { STANDIN_URL: 'http://127.0.0.1:1' })).toContain(`chmod 600 ${file}`);
  place.remove();
});

describe('C31: a symbolic link in the place of a file that is written', () => {
  let service: Service;
  let runs: BulkRuns;
  beforeAll(async () => {
    place = await usualPlace();
    service = await startService(place);
    runs = new BulkRuns(place, service);
    runs.write('in.csv', csvOf(20, 'linked'));
  });
  afterAll(async () => {
    await service.stop();
    place.remove();
  });
  beforeEach(() => {
    runs.write('victim', 'precious');
  });
  const link = (name: string) => {
    rmSync(runs.path(name), { force: true });
    symlinkSync('victim', runs.path(name));
  };

  test.each([
    'out.csv.checkpoint.new',
    'out.csv.partial',
    'out.rejects.partial',
    'out.csv',
    'out.rejects',
  ])('of a bulk run (%s) is not followed', async (name) => {
    link(name);
    const command = 'tokenize in.csv --fields email -o out.csv --rejects out.rejects --force';
    expect((await runs.run(command)).code).toBe(0);
    expect(runs.read('victim')).toBe('precious');
    expect(runs.read('out.csv')).toContain('_tok');
  });

  test('of a run that goes on is refused', async () => {
    runs.write('long.csv', csvOf(60_000, 'long'));
    const command = 'tokenize long.csv --fields email -o long.out.csv';
    const child = runs.start(command);
    const ended = runs.end(child);
    await runs.untilLength(child, 'long.out.csv.partial', 10_000);
    child.kill('SIGINT');
    expect((await ended).code).toBe(130);
    renameSync(runs.path('long.out.csv.partial'), runs.path('moved'));
    runs.write('victim', runs.read('moved'));
    link('long.out.csv.partial');
    const { code, stderr } = await runs.run(`${command} --resume`);
    expect(code).toBe(1);
    expect(stderr).toContain(
      'long.out.csv.partial cannot be written (it is a symbolic link, ELOOP)',
    );
    expect(runs.read('victim')).toBe(runs.read('moved'));
  });

  test('of the audit log is refused', async () => {
    link('audit.log');
    const env = { AUDIT_LOG: runs.path('audit.log'), PORT: '0', OPS_PORT: '0' };
    const { code, stderr } = await endOf(spawnCli(['serve'], place, env));
    expect(code).toBe(1);
    expect(stderr).toMatch(/AUDIT_LOG, .*audit\.log, .*\(ELOOP\)/);
    expect(runs.read('victim')).toBe('precious');
  });
});
