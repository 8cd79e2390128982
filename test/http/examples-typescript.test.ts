import { type ChildProcess, execFileSync, spawn } from 'node:child_process';
import { cpSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { blocks, ROOT } from '../support/docs.ts';
import { startWithPolicy } from '../support/policy.ts';
import { endOf } from '../support/program.ts';
import { linkClient } from '../support/recipes.ts';
import {
  createClient,
  kinds,
  leastPrivilegePlace,
  type Place,
  type Service,
  startService,
  until,
} from '../support/service.ts';

const TSC = join(ROOT, 'node_modules/typescript/bin/tsc');
const PROJECT = join(ROOT, 'build/examples');
const children: ChildProcess[] = [];
/** A policy that names none of their strings. */
const POLICY = 'version: 1\nfields: { order.email: email }\nelsewhere: pass\n';
const SURROUNDINGS: [string, boolean][] = [['', false]];
if (kinds().includes('server')) SURROUNDINGS.push([', under a policy that passes others', true]);
let place: Place;
let service: Service;
let withPolicy: Service | undefined;
beforeAll(async () => {
  // In a project of their own, which has the package of the client.
  cpSync(join(ROOT, 'examples/typescript'), PROJECT, { recursive: true });
  linkClient(PROJECT);
  execFileSync(process.execPath, [TSC, '-p', PROJECT]);
  place = await leastPrivilegePlace();
  service = await startService(place);
  if (SURROUNDINGS.length > 1) withPolicy = await startWithPolicy(POLICY);
});
afterAll(async () => {
  for (const child of children) child.kill('SIGKILL');
  await service.stop();
  await withPolicy?.stop();
  place.remove();
});

const envOf = ({ url, api_key: apiKey }: Service) => ({
  STANDIN_URL: url,
  STANDIN_API_KEY: apiKey,
});

/** Starts an example as its reader would. */
function start(name: string, args: string[] = [], env: Record<string, string> = {}): ChildProcess {
  const child = spawn(process.execPath, [join(PROJECT, `dist/${name}.js`), ...args], {
    env: { ...envOf(service), PORT: '0', ...env },
  });
  children.push(child);
  return child;
}

/** Its URL, once it listens; and what it wrote. */
async function listening(child: ChildProcess) {
  let output = '';
  const read = (chunk: Buffer) => {
    output += chunk;
  };
  child.stdout!.on('data', read);
  child.stderr!.on('data', read);
  const port = () => /port: (\d+)/.exec(output)?.[1];
  await until(() => port() !== undefined, 'it listens');
  return { url: `http://127.0.0.1:${port()}`, output: () => output };
}

function add(url: string, customer: object): Promise<Response> {
  const headers = { 'content-type': 'application/json' };
  return fetch(`${url}/customers`, { method: 'POST', headers, body: JSON.stringify(customer) });
}

test('the pieces of client.md compile', () => {
  const folder = join(ROOT, 'build/client-document');
  linkClient(folder);
  const files = blocks('docs/client.md', 'ts').map((text, i) => {
    const file = join(folder, `${i}.ts`);
    writeFileSync(file, text);
    return file;
  });
  expect(files.length).toBeGreaterThan(1);
  const options = [
    '--noEmit',
    '--ignoreConfig',
    '--strict',
    '--module',
    'nodenext',
    '--types',
    'node',
  ];
  execFileSync(process.execPath, [TSC, ...options, ...files], { stdio: 'inherit' });
});

describe.each(['express', 'fastify'])('%s', (name) => {
  const ann = { name: 'Ann Lee', email: 'ann@example.com' };

  test.each(SURROUNDINGS)(
    'keeps tokens, finds by them, and restores what is needed%s',
    async (_, isOn) => {
      const { url } = await listening(start(name, [], isOn ? envOf(withPolicy!) : {}));
      const added = await add(url, ann);
      expect(added.status).toBe(201);
      const { id, ...tokens } = (await added.json()) as any;
      expect(tokens).toEqual({
        name: expect.stringMatching(/^[a-z]{3} [a-z]{3}_tok$/),
        email: expect.stringMatching(/_tok$/),
      });
      const found = await fetch(`${url}/customers?email=${ann.email}`);
      expect(await found.json()).toEqual([[id, tokens]]);
      const restored = await fetch(`${url}/customers/${id}/email`);
      expect(await restored.json()).toEqual({ email: ann.email });
      expect((await fetch(`${url}/customers/other/email`)).status).toBe(404);
    },
  );

  test('400 for what cannot be tokenized', async () => {
    const { url } = await listening(start(name));
    const refused = await add(url, { ...ann, name: '\ud83d' });
    expect(refused.status).toBe(400);
    expect(await refused.text()).toContain('data.name: must be well-formed Unicode');
  });

  test('503 where it is not the fault of the caller, with the time of a limit', async () => {
    const { api_key: apiKey } = await createClient(place, '--rate-limit', '0.01');
    const limited = await listening(start(name, [], { STANDIN_API_KEY: apiKey }));
    expect((await add(limited.url, ann)).status).toBe(201);
    const refused = await add(limited.url, ann);
    expect(refused.status).toBe(503);
    expect(Number(refused.headers.get('retry-after'))).toBeGreaterThan(1);
    const unknown = { STANDIN_API_KEY: 'stk_00000000000000000000000000003W8MOK' };
    const { url, output } = await listening(start(name, [], unknown));
    expect((await add(url, ann)).status).toBe(503);
    await until(() => output().includes('UnauthorizedError'), 'it says why');
    expect(output()).not.toMatch(/Ann Lee|ann@|stk_/);
  });
});

describe('script', () => {
  /** Runs it with this on its standard input. */
  async function run(operation: string, input: string, env: Record<string, string> = {}) {
    const child = start('script', [operation], env);
    child.stdin!.end(input);
    return endOf(child);
  }

  test.each(SURROUNDINGS)('there and back%s', async (_, isOn) => {
    const env = isOn ? envOf(withPolicy!) : {};
    const customers = [{ name: 'Ann Lee', emails: ['ann@example.com'] }, { name: 'Bo Ray' }];
    const tokenized = await run('tokenize', JSON.stringify(customers), env);
    expect(tokenized.stderr).toBe('');
    expect(tokenized.stdout).not.toMatch(/Ann|Bo|example/);
    const restored = await run('detokenize', tokenized.stdout, env);
    expect(JSON.parse(restored.stdout)).toEqual(customers);
    expect(restored.code).toBe(0);
  });

  test('says what is wrong, without a value', async () => {
    const number = await run('tokenize', '[{"age":55555}]');
    expect(number).toMatchObject({ code: 1, stdout: '' });
    expect(number.stderr).toContain('InvalidValueError: data[0].age: must be a string');
    expect(await run('tokenize', '{"Ann Lee')).toMatchObject({
      code: 1,
      stderr: 'standard input is not JSON\n',
    });
  });
});
