import { execFileSync, spawn, spawnSync } from 'node:child_process';
import { join } from 'node:path';
import { beforeAll, describe, expect, test } from 'vitest';
import { newFolder } from '../support/folder.ts';
import { startWithPolicy } from '../support/policy.ts';
import { freePort } from '../support/processes.ts';
import { type Ended, endOf, ROOT } from '../support/program.ts';
import { served, usualService } from '../support/served.ts';
import { call, createClient, kinds, until } from '../support/service.ts';
import { tokenPattern } from '../support/token-rules.ts';

const folder = newFolder('examples');

/** The result of test/clients/install.sh. */
const PYTHON = join(ROOT, 'build/python/bin/python');

const hasServer = kinds().includes('server');
/** No string of the examples is at its path. */
const POLICY = `
version: 1
fields: { order.email: email }
elsewhere: pass
rights: { "*": { "*": full } }
`;

/** `needs`: what has to be installed; the last words make it say its version. */
const LANGUAGES: readonly { name: string; needs: string[]; build?: string[]; run: string[] }[] = [
  { name: 'curl', needs: ['curl', '--version'], run: ['sh', 'standin.sh'] },
  { name: 'python', needs: [PYTHON, '--version'], run: [PYTHON, 'customer.py'] },
  {
    name: 'go',
    needs: ['go', 'version'],
    build: ['go', 'build', '-o', join(folder, 'standin'), '.'],
    run: [join(folder, 'standin')],
  },
  {
    name: 'java',
    needs: ['javac', '-version'],
    build: ['javac', '-Xlint:all,-serial', '-Werror', '-d', folder, 'Standin.java'],
    run: ['java', '-cp', folder, 'Standin'],
  },
];

const service = usualService();
const withPolicy = hasServer ? served(() => startWithPolicy(POLICY)) : service;

const stringsIn = (json: unknown): unknown[] =>
  typeof json === 'object' ? Object.values(json!).flatMap(stringsIn) : [json];

const isThere = ([program, ...words]: readonly string[]) => spawnSync(program!, words).status === 0;

describe.concurrent.each(LANGUAGES.map((one) => [one.name, one] as const))('%s', (name, one) => {
  const installed = isThere(one.needs);
  const cwd = join(ROOT, 'examples', name);

  beforeAll(() => {
    const [program, ...words] = one.build ?? [];
    if (installed && program !== undefined) execFileSync(program, words, { cwd });
  });

  /** Runs the example to its end. */
  function run(env: Record<string, string>): Promise<Ended> {
    const [program, ...words] = one.run;
    const { PATH = '', HOME = '' } = process.env;
    const PYTHONPATH = join(ROOT, 'clients/python/src');
    return endOf(
      spawn(program!, words, {
        cwd,
        env: { PATH, HOME, PYTHONPATH, STANDIN_URL: service.url, ...env },
        stdio: ['ignore', 'pipe', 'pipe'],
      }),
    );
  }

  function expectRoundTrip({ code, stdout, stderr }: Ended): void {
    expect([code, stderr]).toEqual([0, '']);
    // Some print the whole answer.
    const [tokens, values] = stdout
      .trim()
      .split('\n')
      .map((line) => JSON.parse(line))
      .map((line) => stringsIn(line.data ?? line));
    const customer = ['Ann Lee', 'ann@example.com', 'bo@example.org'];
    expect(values).toEqual(customer);
    expect(tokens).toEqual(customer.map((one) => expect.stringMatching(tokenPattern(one))));
  }

  /** The lines that the service logged of its requests. */
  const requestsOf = (clientId: string) =>
    service
      .output()
      .split('\n')
      .filter((line) => line.includes(clientId) && line.includes('"route"') && line.endsWith('}'))
      .map((line) => JSON.parse(line));

  /** A client with this limit, which has used it. */
  async function limited(perSecond: string) {
    const client = await createClient(service.place, '--rate-limit', perSecond);
    expect((await call(service, 'tokenize', {}, client.api_key)).status).toBe(200);
    return client;
  }

  test.skipIf(!installed)('tokenizes values and gets them back', async () => {
    expectRoundTrip(await run({ STANDIN_API_KEY: service.api_key }));
  });

  test.skipIf(!installed || !hasServer)(
    'under a policy that passes what it does not name, it gets no value in clear',
    async () => {
      const { url, api_key: apiKey } = withPolicy;
      expectRoundTrip(await run({ STANDIN_URL: url, STANDIN_API_KEY: apiKey }));
    },
  );

  test.skipIf(!installed)('waits when it is limited, and is served then', async () => {
    // Nothing is left for ten seconds, so that the next one comes too early.
    const { client_id: clientId, api_key: apiKey } = await limited('0.1');
    expectRoundTrip(await run({ STANDIN_API_KEY: apiKey }));
    await until(() => requestsOf(clientId).length >= 4, 'the log of its requests');
    const statuses = requestsOf(clientId).map(({ status }) => status);
    expect(statuses.slice(0, 2)).toEqual([200, 429]);
    expect(statuses.slice(-2)).toEqual([200, 200]);
    // It does not ask again and again.
    expect(statuses.length).toBeLessThanOrEqual(5);
  });

  test.skipIf(!installed)('does not wait for longer than its deadline', async () => {
    const { client_id: clientId, api_key: apiKey } = await limited('0.001');
    const { code, stdout, stderr } = await run({ STANDIN_API_KEY: apiKey });
    expect([code, stdout]).toEqual([1, '']);
    expect(stderr).toMatch(/429.*user_limit/s);
    await until(() => requestsOf(clientId).length >= 2, 'the log of its requests');
    const [, refused, ...more] = requestsOf(clientId);
    expect(stderr).toContain(refused.request_id);
    expect(more).toEqual([]);
  });

  test.skipIf(!installed)(
    'tells what was wrong, with the request id, and never the API key',
    async () => {
      const wrong = `${service.api_key.slice(0, -6)}AAAAAA`;
      const { code, stdout, stderr } = await run({ STANDIN_API_KEY: wrong });
      expect([code, stdout]).toEqual([1, '']);
      expect(stderr).toMatch(/^standin: .*401.*unauthorized/);
      expect(stderr).toMatch(/request id [0-9a-f-]{36}/);
      expect(stderr).not.toContain('stk_');
    },
  );

  test.skipIf(!installed)('ends with what is missing: an API key, a service', async () => {
    const keyless = await run({});
    expect([keyless.code === 0, keyless.stdout]).toEqual([false, '']);
    expect(keyless.stderr).toContain('STANDIN_API_KEY');
    const nowhere = `http://127.0.0.1:${await freePort()}`;
    const lost = await run({ STANDIN_API_KEY: service.api_key, STANDIN_URL: nowhere });
    expect([lost.code, lost.stdout]).toEqual([1, '']);
    expect(lost.stderr).toMatch(/^standin: /);
  });
});
