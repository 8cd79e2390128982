import { execFileSync, spawn } from 'node:child_process';
import { cpSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest';
import { blocks, ROOT } from '../support/docs.ts';
import { startWithPolicy } from '../support/policy.ts';
import { endOf } from '../support/program.ts';
import { linkClient, start } from '../support/recipes.ts';
import { usualService } from '../support/served.ts';
import { createClient, kinds, type Service } from '../support/service.ts';

const TSC = join(ROOT, 'node_modules/typescript/bin/tsc');
const PROJECT = join(ROOT, 'build/examples');
/** A policy that names none of their strings. */
const POLICY = 'version: 1\nfields: { order.email: email }\nelsewhere: pass\n';
const SURROUNDINGS: [string, boolean][] = [['', false]];
if (kinds().includes('server')) SURROUNDINGS.push([', under a policy that passes others', true]);
const service = usualService();
let withPolicy: Service | undefined;
beforeAll(async () => {
  // In a project of their own, which has the package of the client.
  cpSync(join(ROOT, 'examples/typescript'), PROJECT, { recursive: true });
  linkClient(PROJECT);
  execFileSync(process.execPath, [TSC, '-p', PROJECT]);
  if (SURROUNDINGS.length > 1) withPolicy = await startWithPolicy(POLICY);
});
afterAll(async () => withPolicy?.stop());

const envOf = (isUnderPolicy: boolean, env: Record<string, string> = {}) => {
  const { url, api_key: apiKey } = isUnderPolicy ? withPolicy! : service;
  return { STANDIN_URL: url, STANDIN_API_KEY: apiKey, PORT: '0', ...env };
};
const programOf = (name: string) => join(PROJECT, `dist/${name}.js`);

/** Starts an example as its reader would. Resolves when it listens. */
async function listening(name: string, env: Record<string, string>) {
  const running = start([process.execPath, programOf(name)], PROJECT, env);
  onTestFinished(async () => void (await running.stop()));
  return { ...running, url: `http://127.0.0.1:${await running.wrote(/port: (\d+)/)}` };
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
  const options = ['--noEmit', '--ignoreConfig', '--strict'];
  options.push('--module', 'nodenext', '--types', 'node');
  execFileSync(process.execPath, [TSC, ...options, ...files], { stdio: 'inherit' });
});

describe.each(['express', 'fastify'])('%s', (name) => {
  const ann = { name: 'Ann Lee', email: 'ann@example.com' };

  test.each(SURROUNDINGS)(
    'keeps tokens, finds by them, and restores what is needed%s',
    async (_, isOn) => {
      const { url } = await listening(name, envOf(isOn));
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
    const { url } = await listening(name, envOf(false));
    const refused = await add(url, { ...ann, name: '\ud83d' });
    expect(refused.status).toBe(400);
    expect(await refused.text()).toContain('data.name: must be well-formed Unicode');
  });

  test('503 where it is not the fault of the caller, with the time of a limit', async () => {
    const { api_key: apiKey } = await createClient(service.place, '--rate-limit', '0.01');
    const limited = await listening(name, envOf(false, { STANDIN_API_KEY: apiKey }));
    expect((await add(limited.url, ann)).status).toBe(201);
    const refused = await add(limited.url, ann);
    expect(refused.status).toBe(503);
    expect(Number(refused.headers.get('retry-after'))).toBeGreaterThan(1);
    const unknown = { STANDIN_API_KEY: 'stk_00000000000000000000000000003W8MOK' };
    const { url, wrote, output } = await listening(name, envOf(false, unknown));
    expect((await add(url, ann)).status).toBe(503);
    await wrote(/UnauthorizedError/);
    expect(output()).not.toMatch(/Ann Lee|ann@|stk_/);
  });
});

describe('script', () => {
  /** Runs it with this on its standard input. */
  async function run(operation: string, input: string, isUnderPolicy = false) {
    const env = { ...process.env, ...envOf(isUnderPolicy) };
    const child = spawn(process.execPath, [programOf('script'), operation], { env });
    child.stdin.end(input);
    return endOf(child);
  }

  test.each(SURROUNDINGS)('there and back%s', async (_, isOn) => {
    const customers = [{ name: 'Ann Lee', emails: ['ann@example.com'] }, { name: 'Bo Ray' }];
    const tokenized = await run('tokenize', JSON.stringify(customers), isOn);
    expect(tokenized.stderr).toBe('');
    expect(tokenized.stdout).not.toMatch(/Ann|Bo|example/);
    const restored = await run('detokenize', tokenized.stdout, isOn);
    expect(JSON.parse(restored.stdout)).toEqual(customers);
    expect(restored.code).toBe(0);
  });

  test('says what is wrong, without a value', async () => {
    const number = await run('tokenize', '[{"age":55555}]');
    expect(number).toMatchObject({ code: 1, stdout: '' });
    expect(number.stderr).toContain('InvalidValueError: data[0].age: must be a string');
    const broken = { code: 1, stderr: 'standard input is not JSON\n' };
    expect(await run('tokenize', '{"Ann Lee')).toMatchObject(broken);
  });
});
