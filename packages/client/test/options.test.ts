import { execFileSync } from 'node:child_process';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { inspect } from 'node:util';
import { describe, expect, test } from 'vitest';
import { Standin, type StandinOptions } from '../src/index.ts';

/** The root of the repository, which contains the build. */
const ROOT = join(import.meta.dirname, '../../..');
const url = 'http://127.0.0.1:8080';
const apiKey = 'stk_0123456789ABCDEFGHIJKLMNOPQR1KnaxG';
const make = (options: object) => () => new Standin({ url, apiKey, ...options } as StandinOptions);

describe('options', () => {
  test.each<[object, string]>([
    [{ url: '' }, 'url: must be like'],
    [{ url: undefined }, 'url: must be like'],
    [{ url: '127.0.0.1:8080' }, 'url: must be like'],
    [{ url: 'ftp://127.0.0.1' }, 'url: must be like'],
    [{ url: 'http://ann:hunter2@127.0.0.1' }, 'url: must not contain a user or password'],
    [{ url: `${url}/api/v1` }, 'url: must be the base address; the client adds /api/v1 itself'],
    [{ url: `${url}/a/api/v1/tokenize` }, 'url: must be the base address'],
    [{ url: `${url}/health/` }, 'url: must be the base address'],
    [{ url: `${url}/?a=b` }, 'url: must not contain a query or fragment'],
    [{ url: `${url}/#a` }, 'url: must not contain a query or fragment'],
    [{ apiKey: undefined }, 'apiKey: is missing'],
    [{ apiKey: '' }, 'apiKey: is missing'],
    [{ apiKey: 'hunter2' }, 'apiKey: must be stk_ and 34 letters and digits'],
    [{ apiKey: `${apiKey}\n` }, 'without spaces or line ends'],
    [{ apiKey: 5 }, 'apiKey: must be'],
    [{ timeoutMs: 0 }, 'timeoutMs: must be a whole number from 1 to 2147483647'],
    [{ timeoutMs: 1.5 }, 'timeoutMs: '],
    [{ timeoutMs: Infinity }, 'timeoutMs: '],
    [{ timeoutMs: '500' }, 'timeoutMs: '],
    [{ maxValues: 0 }, 'maxValues: must be a whole number from 1 to 1000000'],
    [{ maxBytes: -1 }, 'maxBytes: must be a whole number from 1 to 67108864'],
    [{ concurrency: 65 }, 'concurrency: must be a whole number from 1 to 64'],
    [{ fetch: 'fetch' }, 'fetch: must be a function'],
    [{ policy: 'yes' }, 'policy: must be true or false'],
    [{ onRetry: true }, 'onRetry: must be a function'],
    [
      { timeout: 500 },
      'timeout: is not an option; the options are url, apiKey, policy, fetch, onRetry, timeoutMs',
    ],
  ])('%o is refused in words', (options, message) => {
    expect(make(options)).toThrow(TypeError);
    expect(make(options)).toThrow(message);
    expect(make(options)).not.toThrow(/hunter2|0123456789ABC/);
  });

  test('none at all are refused, too', () => {
    expect(() => new Standin(undefined as never)).toThrow('options: must be an object');
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

  test('a wrong timeoutMs of a call is refused', async () => {
    await expect(make({})().tokenize({ a: 'b' }, { timeoutMs: 0 })).rejects.toThrow(
      /^timeoutMs: must be a whole number/,
    );
  });
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

  /** The outcome of making a client in a process whose globals were changed first. */
  function madeAfter(change: string): string {
    const code = `
      const { Standin } = await import('${CLIENT}');
      const { stdout } = process;
      ${change}
      try {
        new Standin({ url: '${url}', apiKey: '${apiKey}' });
        stdout.write('made');
      } catch (error) {
        stdout.write(error.message);
      }`;
    const args = ['--input-type=module', '--eval', code];
    return execFileSync(process.execPath, args, { encoding: 'utf8' });
  }

  const PAGE = 'globalThis.window = globalThis; globalThis.document = {};';
  test.each([
    ['a page', `${PAGE} delete globalThis.process;`, REFUSAL],
    [
      'a page with the process of a bundler',
      `${PAGE} globalThis.process = { versions: {} };`,
      REFUSAL,
    ],
    ['a page played in Node', PAGE, 'made'],
    ['Deno', `${PAGE} delete globalThis.process; globalThis.Deno = {};`, 'made'],
    ['a worker of the edge', 'delete globalThis.process;', 'made'],
  ])('%s', (_, change, outcome) => {
    expect(madeAfter(change)).toContain(outcome);
  });

  /** The file that the package name resolves to under these conditions, which bundlers set. */
  function imported(...conditions: string[]): string {
    const code = `
      const module = await import('standin/client').catch((error) => error);
      process.stdout.write(String(module.Standin ?? module.message));`;
    const set = conditions.map((name) => `--conditions=${name}`);
    const args = [...set, '--input-type=module', '--eval', code];
    return execFileSync(process.execPath, args, { cwd: ROOT, encoding: 'utf8' });
  }

  test('a build for them has no Standin, and the text that says why', () => {
    expect(imported('browser')).toContain(REFUSAL);
    expect(imported()).toContain('class Standin');
    expect(imported('workerd', 'browser')).toContain('class Standin');
    expect(imported('edge-light', 'browser')).toContain('class Standin');
  });
});
