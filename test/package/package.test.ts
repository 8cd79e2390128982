import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { publint } from 'publint';
import { beforeAll, describe, expect, test } from 'vitest';
import { ROOT, readText } from '../support/docs.ts';
import { newFolder } from '../support/folder.ts';
import { PACK_TIMEOUT_MS, type Packed, pack, run } from '../support/package.ts';

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

  publishes(() => packed, './client');
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

  publishes(() => alone, '.');
});

/** @param entry what its users import */
function publishes(tarballOf: () => Packed, entry: string): void {
  test('publint has nothing to say of it', async () => {
    const { buffer, byteOffset, byteLength } = readFileSync(tarballOf().tarball);
    const tarball = buffer.slice(byteOffset, byteOffset + byteLength);
    const { messages } = await publint({ pack: { tarball } });
    expect(messages).toEqual([]);
  });

  test('Are the types wrong? finds nothing wrong for ES modules and bundlers', async () => {
    const attw = join(ROOT, 'node_modules/@arethetypeswrong/cli/dist/index.js');
    const args = [attw, tarballOf().tarball, '--profile', 'esm-only', '--format', 'json'];
    const { code, stdout } = await run(process.execPath, args, { cwd: folder });
    const { analysis, problems } = JSON.parse(stdout);
    expect(analysis.types.kind).toBe('included');
    expect(Object.keys(analysis.entrypoints)).toContain(entry);
    // Node 20.19 requires ES modules, and old ways of resolution know no exports.
    const kinds = (Object.values(problems) as { resolutionKind: string }[][]).flat();
    const forgiven = ['node10', 'node16-cjs'];
    expect(kinds.filter(({ resolutionKind: kind }) => !forgiven.includes(kind))).toEqual([]);
    expect(code).toBe(0);
  });
}
