import { execFileSync } from 'node:child_process';
import {
  chmodSync,
  existsSync,
  mkdirSync,
  readFileSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { isApiKey, newApiKey } from '../../src/crypto/api-key.ts';
import {
  call,
  kinds,
  newPlace,
  type Place,
  runCli,
  runJson,
  type Service,
  startService,
  usualPlace,
} from '../support/service.ts';
import { hasTerminal, serveOnTerminal } from '../support/terminal.ts';

let place: Place;
let services: Service[] = [];
afterEach(async () => {
  await Promise.all(services.map((service) => service.stop()));
  services = [];
  place.remove();
});

async function start(env: Record<string, string> = {}): Promise<Service> {
  const service = await startService(place, env);
  services.push(service);
  return service;
}

/** Where the first API key is when nobody gave one. */
function keyFile(): string {
  return join(place.env.DATA_DIR!, 'first-api-key');
}

/** A file of the place that only its owner may read. */
function secretFile(name: string, content: string): string {
  const path = join(place.folder, name);
  writeFileSync(path, content, { mode: 0o600 });
  return path;
}

/** serve does not start, and no client was made. */
async function refusedStart(env: Record<string, string>): Promise<string> {
  const { code, stdout, stderr } = await runCli(['serve'], place, {
    PORT: '0',
    OPS_PORT: '0',
    ...env,
  });
  expect({ code, key: /stk_/.test(stdout + stderr) }).toEqual({ code: 1, key: false });
  expect(await runJson(place, 'client', 'list')).toEqual([]);
  return stderr;
}

describe.each(kinds())('C30: the first start on the %s database, without a terminal', (kind) => {
  beforeEach(async () => {
    place = await newPlace(kind);
  });

  test('writes no API key, but puts it in a file of mode 0600 that the log names', async () => {
    const first = await start();
    expect(first.output()).not.toMatch(/stk_|curl/);
    const line = first
      .output()
      .split('\n')
      .find((one) => one.includes('api_key_file'));
    const { client_id: clientId, api_key_file: apiKeyFile } = JSON.parse(line!);
    expect(apiKeyFile).toBe(keyFile());
    expect(statSync(keyFile()).mode & 0o777).toBe(0o600);
    expect(statSync(place.env.DATA_DIR!).mode & 0o777).toBe(0o700);
    const apiKey = readFileSync(keyFile(), 'utf8').trim();
    expect(isApiKey(apiKey)).toBe(true);
    const { status, body } = await call(first, 'tokenize', { a: 'Ann' }, apiKey);
    expect({ status, client_id: body.client_id }).toEqual({ status: 200, client_id: clientId });
    await first.stop();

    const second = await start();
    expect(second.output()).not.toMatch(/stk_|api_key_file/);
    expect((await call(second, 'detokenize', body.data, apiKey)).status).toBe(200);
  });

  test('takes the API key of BOOTSTRAP_API_KEY_FILE, and writes none', async () => {
    const apiKey = newApiKey();
    const env = { BOOTSTRAP_API_KEY_FILE: secretFile('made-before', `${apiKey}\n`) };
    const first = await start(env);
    expect(first.output()).not.toContain('stk_');
    expect(existsSync(keyFile())).toBe(false);
    expect((await call(first, 'tokenize', { a: 'Ann' }, apiKey)).status).toBe(200);
    await first.stop();
    // The vault has a client: the file is not looked at any more, and may be gone.
    writeFileSync(env.BOOTSTRAP_API_KEY_FILE, newApiKey());
    const second = await start(env);
    expect((await call(second, 'tokenize', { a: 'Ann' }, apiKey)).status).toBe(200);
    await second.stop();
    await start({ BOOTSTRAP_API_KEY_FILE: join(place.folder, 'gone') });
    expect(await runJson(place, 'client', 'list')).toHaveLength(1);
    expect(await runJson(place, 'api-key', 'list')).toHaveLength(1);
  });
});

describe('the first API key', () => {
  beforeEach(async () => {
    place = await usualPlace();
  });

  test.runIf(hasTerminal)(
    'is printed on a terminal, with a call that works, and is in no file',
    async () => {
      const first = await serveOnTerminal(place);
      const printed = first.output().match(/stk_[0-9A-Za-z]{34}/g)!;
      expect(printed).toHaveLength(2);
      expect(new Set(printed).size).toBe(1);
      expect(existsSync(keyFile())).toBe(false);
      const curl = first.output().match(/^ {2}curl .*$/m)![0];
      const answer = JSON.parse(execFileSync('sh', ['-c', curl], { encoding: 'utf8' }));
      expect(answer.data.email).toMatch(/^[a-z]{3}@[a-z]{7}\.[a-z]{3}_tok$/);
      expect(answer.data.name).toMatch(/^[a-z]{3} [a-z]{3}_tok$/);
      await first.stop();
      const second = await serveOnTerminal(place);
      expect(second.output()).not.toMatch(/stk_|curl/);
      await second.stop();
    },
  );

  test.runIf(hasTerminal)(
    'of BOOTSTRAP_API_KEY_FILE is not printed on a terminal either',
    async () => {
      const BOOTSTRAP_API_KEY_FILE = secretFile('made-before', newApiKey());
      const service = await serveOnTerminal(place, { BOOTSTRAP_API_KEY_FILE });
      expect(service.output()).not.toContain('stk_');
      expect(service.output()).toContain(BOOTSTRAP_API_KEY_FILE);
      await service.stop();
    },
  );

  test('that a start left in its file before it ended is the one of the next start', async () => {
    mkdirSync(place.env.DATA_DIR!, { mode: 0o700, recursive: true });
    const apiKey = newApiKey();
    writeFileSync(keyFile(), `${apiKey}\n`, { mode: 0o600 });
    const service = await start();
    expect((await call(service, 'tokenize', { a: 'Ann' }, apiKey)).status).toBe(200);
    expect(readFileSync(keyFile(), 'utf8')).toBe(`${apiKey}\n`);
  });

  test('that cannot be kept ends the start, and no client is made', async () => {
    mkdirSync(keyFile(), { mode: 0o700, recursive: true });
    chmodSync(place.env.DATA_DIR!, 0o700);
    expect(await refusedStart({})).toMatch(
      /first-api-key.*\(EISDIR\).*BOOTSTRAP_API_KEY_FILE.*standin client create/,
    );
  });

  test('is not written through a symbolic link', async () => {
    mkdirSync(place.env.DATA_DIR!, { mode: 0o700, recursive: true });
    const victim = secretFile('victim', 'precious');
    symlinkSync(victim, keyFile());
    expect(await refusedStart({})).toContain('first-api-key');
    expect(readFileSync(victim, 'utf8')).toBe('precious');
  });

  test.each([
    ['with a typo', (apiKey: string) => apiKey.replace(/.$/, (end) => (end === '0' ? '1' : '0'))],
    ['with two keys', (apiKey: string) => `${apiKey}\n${newApiKey()}\n`],
    ['empty', () => ''],
  ])('of BOOTSTRAP_API_KEY_FILE %s is refused, and not shown', async (_what, spoil) => {
    const BOOTSTRAP_API_KEY_FILE = secretFile('made-before', spoil(newApiKey()));
    expect(await refusedStart({ BOOTSTRAP_API_KEY_FILE })).toMatch(
      /^standin: BOOTSTRAP_API_KEY_FILE \(.*made-before\) .* standin api-key new/,
    );
  });

  test('of BOOTSTRAP_API_KEY_FILE is refused when others may read the file, or when it is missing', async () => {
    const BOOTSTRAP_API_KEY_FILE = secretFile('made-before', newApiKey());
    chmodSync(BOOTSTRAP_API_KEY_FILE, 0o644);
    expect(await refusedStart({ BOOTSTRAP_API_KEY_FILE })).toContain('chmod 600');
    const gone = { BOOTSTRAP_API_KEY_FILE: join(place.folder, 'gone') };
    expect(await refusedStart(gone)).toMatch(/^standin: BOOTSTRAP_API_KEY_FILE .*\(ENOENT\)/);
  });

  test('is made beforehand by api-key new, which opens no vault', async () => {
    const { code, stdout } = await runCli(['api-key', 'new'], { ...place, env: { PORT: 'x' } });
    expect({ code, isKey: isApiKey(stdout.trimEnd()) }).toEqual({ code: 0, isKey: true });
    const { api_key: apiKey } = await runJson(place, 'api-key', 'new');
    expect(isApiKey(apiKey)).toBe(true);
    expect(apiKey).not.toBe(stdout.trimEnd());
    expect(existsSync(place.env.DATA_DIR!)).toBe(place.kind === 'embedded');
  });
});
