import { execFileSync } from 'node:child_process';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { inspect } from 'node:util';
import { describe, expect, test, vi } from 'vitest';
import { Standin, type StandinOptions } from '../src/index.ts';
import { checkOptions } from '../src/options.ts';

/** The root of the repository, which contains the build. */
const ROOT = join(import.meta.dirname, '../../..');
const url = 'http://127.0.0.1:8080';
const apiKey = 'stk_0123456789ABCDEFGHIJKLMNOPQR1KnaxG';
const make = (options: object) => () => new Standin({ url, apiKey, ...options } as StandinOptions);

const WRONG: Readonly<Record<string, readonly object[]>> = {
  'url: must be like': ['', undefined, '127.0.0.1:8080', 'ftp://127.0.0.1'].map((url) => ({ url })),
  'url: must not contain a user or password': [
    ...['ann:hunter2', 'ann', ':hunter2'].map((who) => ({ url: `http://${who}@127.0.0.1` })),
  ],
  'url: must not contain a query or fragment': [{ url: `${url}/?a=b` }, { url: `${url}/#a` }],
  'url: must be the base address; the client adds /api/v1 itself': [
    ...['/api/v1', '/a/api/v1/tokenize', '/health/'].map((path) => ({ url: url + path })),
  ],
  'apiKey: is missing': [{ apiKey: undefined }, { apiKey: '' }],
  'apiKey: must be stk_ and 34 letters and digits, or a JWT, without spaces or line ends': [
    'hunter2',
    `${apiKey}\n`,
    5,
  ].map((apiKey) => ({ apiKey })),
  'timeoutMs: must be a whole number from 1 to 2147483647': [0, 1.5, Infinity, '500'].map(
    (timeoutMs) => ({ timeoutMs }),
  ),
  'maxValues: must be a whole number from 1 to 1000000': [{ maxValues: 0 }],
  'maxBytes: must be a whole number from 1 to 67108864': [{ maxBytes: -1 }],
  'concurrency: must be a whole number from 1 to 64': [{ concurrency: 65 }],
  'fetch: must be a function': [{ fetch: 'fetch' }],
  'policy: must be true or false': [{ policy: 'yes' }],
  'onRetry: must be a function': [{ onRetry: true }],
  'timeout: is not an option; the options are url, apiKey, policy, fetch, onRetry, timeoutMs': [
    { timeout: 500 },
  ],
};

test.each(
  Object.entries(WRONG).flatMap(([message, all]) => all.map((one) => [one, message] as const)),
)('%o is refused in words', (options, message) => {
  expect(make(options)).toThrow(TypeError);
  expect(make(options)).toThrow(message);
  expect(make(options)).not.toThrow(/hunter2|0123456789ABC/);
});

test.each([
  { url: 'https://standin.example.com' },
  { url: 'http://[::1]:8080/' },
  { apiKey: 'eyJhbGciOiJFUzI1NiJ9.eyJzdWIiOiJhIn0.c2lnbmVk' },
  { apiKey: () => 'eyJhbGciOiJFUzI1NiJ9.eyJzdWIiOiJhIn0.c2lnbmVk' },
  { url: 'https://gateway.example.com/standin/' },
  { timeoutMs: undefined, maxValues: undefined, fetch: undefined },
  { timeoutMs: 2_147_483_647, maxValues: 1, maxBytes: 1, concurrency: 64 },
])('%o are taken', (options) => {
  expect(make(options)).not.toThrow();
});

test('no options at all, and a wrong timeoutMs of a call, are refused', async () => {
  expect(() => new Standin(undefined as never)).toThrow('options: must be an object');
  const call = make({})().tokenize({ a: 'b' }, { timeoutMs: 0 });
  await expect(call).rejects.toThrow(/^timeoutMs: must be a whole number/);
  const defaults = { timeoutMs: 30_000, maxValues: 2_000, maxBytes: 900_000, concurrency: 4 };
  expect(checkOptions({ url, apiKey })).toMatchObject({ ...defaults, policy: false });
});

test('four requests are open at once, if no option says otherwise', async () => {
  const fetch = vi.fn(() => new Promise(() => {}));
  make({ maxValues: 1, fetch })()
    .tokenizeValues([...'abcdef'])
    .catch(() => {});
  await new Promise((resolve) => setImmediate(resolve));
  expect(fetch).toHaveBeenCalledTimes(4);
});

test('the API key is not in the client for others to see', () => {
  const made = make({})();
  for (const shown of [inspect(made, { showHidden: true, depth: 9 }), JSON.stringify(made)])
    expect(shown).not.toContain('stk_');
  expect(Reflect.ownKeys(made)).toEqual([]);
});

describe('browsers', () => {
  const CLIENT = pathToFileURL(join(ROOT, 'dist/client/index.js')).href;
  const REFUSAL =
    'standin/client is not for browsers: anyone who opens the page could read the API key';

  /** What a process writes that imports the client under conditions, which bundlers set. */
  function written(from: string, change: string, ...conditions: string[]): string {
    const code = `
      const { stdout } = process;
      const module = await import('${from}').catch((error) => error);
      ${change}
      try {
        if (!module.Standin) throw module;
        new module.Standin({ url: '${url}', apiKey: '${apiKey}' });
        stdout.write('made');
      } catch (error) {
        stdout.write(error.message);
      }`;
    const set = conditions.map((name) => `--conditions=${name}`);
    const args = [...set, '--input-type=module', '--eval', code];
    return execFileSync(process.execPath, args, { cwd: ROOT, encoding: 'utf8' });
  }

  const PAGE = 'globalThis.window = globalThis; globalThis.document = {};';
  test.each([
    ['a page', `${PAGE} delete globalThis.process;`, REFUSAL],
    ['a page of a bundler', `${PAGE} globalThis.process = { versions: {} };`, REFUSAL],
    ['a page played in Node', PAGE, 'made'],
    ['an app without a page', 'globalThis.window = globalThis; delete globalThis.process;', 'made'],
    ['a document alone', 'globalThis.document = {}; delete globalThis.process;', 'made'],
    ['Bun', `${PAGE} delete globalThis.process; globalThis.Bun = {};`, 'made'],
    ['Deno', `${PAGE} delete globalThis.process; globalThis.Deno = {};`, 'made'],
    ['a worker of the edge', 'delete globalThis.process;', 'made'],
  ])('%s', (_, change, outcome) => {
    expect(written(CLIENT, change)).toContain(outcome);
  });

  test.each([
    [['browser'], REFUSAL],
    [[], 'made'],
    [['workerd', 'browser'], 'made'],
    [['edge-light', 'browser'], 'made'],
  ])('a build under the conditions %j has a Standin only where it is no page', (names, outcome) => {
    expect(written('standin/client', '', ...names)).toContain(outcome);
  });
});
