import { execFileSync } from 'node:child_process';
import { chmodSync, existsSync, mkdirSync, statSync, symlinkSync, writeFileSync } from 'node:fs';
import { afterEach, describe, expect, test } from 'vitest';
import { isApiKey, newApiKey } from '../../src/crypto/api-key.ts';
import { type Commands, placeFor } from '../support/command.ts';
import { call, kinds, newPlace, type Service, startService } from '../support/service.ts';
import { hasTerminal, serveOnTerminal } from '../support/terminal.ts';

let services: Service[] = [];
/** Stops at the end of the test, before its place goes. */
const stopServices = () =>
  afterEach(async () => {
    await Promise.all(services.map((service) => service.stop()));
    services = [];
  });

async function start({ place }: Commands, env: Record<string, string> = {}): Promise<Service> {
  services.push(await startService(place, env));
  return services.at(-1)!;
}

/** Where the first API key is when nobody gave one. */
const KEY_FILE = 'data/first-api-key';
const tokenizes = async (service: Service, apiKey: string) => {
  const { status, body } = await call(service, 'tokenize', { a: 'Ann' }, apiKey);
  expect(status).toBe(200);
  return body;
};

describe.each(kinds())('C30: the first start on the %s database, without a terminal', (kind) => {
  const at = placeFor('test', () => newPlace(kind));
  stopServices();

  test('writes no API key, but puts it in a file of mode 0600 that the log names', async () => {
    const first = await start(at);
    expect(first.output()).not.toMatch(/stk_|curl/);
    const lines = first.output().split('\n');
    const line = lines.find((one) => one.includes('api_key_file'));
    const { client_id: clientId, api_key_file: apiKeyFile } = JSON.parse(line!);
    expect(apiKeyFile).toBe(at.path(KEY_FILE));
    const modes = [KEY_FILE, 'data'].map((name) => statSync(at.path(name)).mode & 0o777);
    expect(modes).toEqual([0o600, 0o700]);
    const apiKey = at.read(KEY_FILE).trim();
    expect(isApiKey(apiKey)).toBe(true);
    const { client_id, data } = await tokenizes(first, apiKey);
    expect(client_id).toBe(clientId);
    await first.stop();

    const second = await start(at);
    expect(second.output()).not.toMatch(/stk_|api_key_file/);
    expect((await call(second, 'detokenize', data, apiKey)).status).toBe(200);
  });

  test('takes the API key of BOOTSTRAP_API_KEY_FILE, and writes none', async () => {
    const apiKey = newApiKey();
    const env = { BOOTSTRAP_API_KEY_FILE: at.write('made-before', `${apiKey}\n`) };
    const first = await start(at, env);
    expect(first.output()).not.toContain('stk_');
    expect(existsSync(at.path(KEY_FILE))).toBe(false);
    await tokenizes(first, apiKey);
    await first.stop();
    // The vault has a client: the file is not looked at any more, and may be gone.
    writeFileSync(env.BOOTSTRAP_API_KEY_FILE, newApiKey());
    const second = await start(at, env);
    await tokenizes(second, apiKey);
    await second.stop();
    await start(at, { BOOTSTRAP_API_KEY_FILE: at.path('gone') });
    for (const list of ['client list', 'api-key list']) expect(await at.json(list)).toHaveLength(1);
  });
});

describe('the first API key', () => {
  const at = placeFor('test');
  stopServices();

  /** serve does not start, and no client was made. */
  async function refusedStart(env: Record<string, string>): Promise<string> {
    const { code, stdout, stderr } = await at.run('serve', { PORT: '0', OPS_PORT: '0', ...env });
    expect(code).toBe(1);
    expect(stdout + stderr).not.toContain('stk_');
    expect(await at.json('client list')).toEqual([]);
    return stderr;
  }
  const makeData = () => mkdirSync(at.path('data'), { mode: 0o700, recursive: true });

  test.runIf(hasTerminal)(
    'is printed on a terminal, with a call that works, and is in no file',
    async () => {
      const first = await serveOnTerminal(at.place);
      const printed = first.output().match(/stk_[0-9A-Za-z]{34}/g)!;
      expect([printed.length, new Set(printed).size]).toEqual([2, 1]);
      expect(existsSync(at.path(KEY_FILE))).toBe(false);
      const curl = first.output().match(/^ {2}curl .*$/m)![0];
      const answer = JSON.parse(execFileSync('sh', ['-c', curl], { encoding: 'utf8' }));
      expect(answer.data.email).toMatch(/^[a-z]{3}@[a-z]{7}\.[a-z]{3}_tok$/);
      expect(answer.data.name).toMatch(/^[a-z]{3} [a-z]{3}_tok$/);
      await first.stop();
      const second = await serveOnTerminal(at.place);
      expect(second.output()).not.toMatch(/stk_|curl/);
      await second.stop();
    },
  );

  test.runIf(hasTerminal)(
    'of BOOTSTRAP_API_KEY_FILE is not printed on a terminal either',
    async () => {
      const BOOTSTRAP_API_KEY_FILE = at.write('made-before', newApiKey());
      const service = await serveOnTerminal(at.place, { BOOTSTRAP_API_KEY_FILE });
      expect(service.output()).not.toContain('stk_');
      expect(service.output()).toContain(BOOTSTRAP_API_KEY_FILE);
      await service.stop();
    },
  );

  test('that a start left in its file before it ended is the one of the next start', async () => {
    makeData();
    const apiKey = newApiKey();
    at.write(KEY_FILE, `${apiKey}\n`);
    await tokenizes(await start(at), apiKey);
    expect(at.read(KEY_FILE)).toBe(`${apiKey}\n`);
  });

  test('that cannot be kept ends the start, and no client is made', async () => {
    mkdirSync(at.path(KEY_FILE), { mode: 0o700, recursive: true });
    chmodSync(at.path('data'), 0o700);
    expect(await refusedStart({})).toMatch(
      /first-api-key.*\(EISDIR\).*BOOTSTRAP_API_KEY_FILE.*standin client create/,
    );
  });

  test('is not written through a symbolic link', async () => {
    makeData();
    symlinkSync(at.write('victim', 'precious'), at.path(KEY_FILE));
    expect(await refusedStart({})).toContain('first-api-key');
    expect(at.read('victim')).toBe('precious');
  });

  const UNFIT = /^standin: BOOTSTRAP_API_KEY_FILE \(.*made-before\) .* standin api-key new/;
  test.each([
    ['with a typo', (key: string) => key.replace(/.$/, (end) => (end === '0' ? '1' : '0')), UNFIT],
    ['with two keys', (key: string) => `${key}\n${newApiKey()}\n`, UNFIT],
    ['empty', () => '', UNFIT],
    ['that others may read', (key: string) => key, /chmod 600/],
    ['that is missing', () => undefined, /^standin: BOOTSTRAP_API_KEY_FILE .*\(ENOENT\)/],
  ])('of BOOTSTRAP_API_KEY_FILE %s is refused, and not shown', async (what, spoil, words) => {
    const text = spoil(newApiKey());
    const mode = what === 'that others may read' ? 0o644 : 0o600;
    const BOOTSTRAP_API_KEY_FILE =
      text === undefined ? at.path('gone') : at.write('made-before', text, mode);
    expect(await refusedStart({ BOOTSTRAP_API_KEY_FILE })).toMatch(words);
  });

  test('is made beforehand by api-key new, which opens no vault', async () => {
    const printed = (await at.text('api-key new', { PORT: 'x', DATA_DIR: at.path('no') })).trim();
    const { api_key: apiKey } = await at.json('api-key new');
    expect([printed, apiKey].map(isApiKey)).toEqual([true, true]);
    expect(apiKey).not.toBe(printed);
    expect(existsSync(at.path('no'))).toBe(false);
  });
});
