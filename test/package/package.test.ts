import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { publint } from 'publint';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { ROOT, readText } from '../support/docs.ts';
import { PACK_TIMEOUT_MS, type Packed, pack, run } from '../support/package.ts';

let folder: string;
let packed: Packed;
beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), 'standin-package-'));
  packed = await pack(folder);
}, PACK_TIMEOUT_MS);
afterAll(() => rmSync(folder, { recursive: true, force: true }));

const MAX_TARBALL_BYTES = 500_000;
const MAX_UNPACKED_BYTES = 2_000_000;

function filesOf(path: string): string[] {
  return readdirSync(join(ROOT, path), { recursive: true, encoding: 'utf8' }).map((name) =>
    join(path, name),
  );
}

describe('the package', () => {
  test('is small', () => {
    expect(packed.size).toBeLessThan(MAX_TARBALL_BYTES);
    expect(packed.unpackedSize).toBeLessThan(MAX_UNPACKED_BYTES);
  });

  test('has the program, migrations and documents, and nothing that only its authors need', () => {
    const paths = packed.files.map(({ path }) => path);
    const of_root = paths.filter((path) => !path.includes('/'));
    expect(of_root.sort()).toEqual([
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
    const left_over = paths.filter((path) =>
      /\.(map|tsbuildinfo|test|tgz|log|env|png)|(?<!\.d)\.ts$/.test(path),
    );
    expect(left_over).toEqual([]);
  });

  test('has what was compiled of each source file, of no other, and declarations of the client alone', () => {
    const sources = filesOf('src').filter((path) => path.endsWith('.ts'));
    const compiled = sources.map((path) => path.replace('src/', 'dist/').replace(/\.ts$/, '.js'));
    const scripts = packed.files
      .map(({ path }) => path)
      .filter((path) => /^dist.*\.js$/.test(path));
    expect(scripts.sort()).toEqual(compiled.sort());
    const others = filesOf('src').filter((path) => /\.(?!ts$)\w+$/.test(path));
    const copied = others.map((path) => path.replace('src/', 'dist/'));
    expect(packed.files.map(({ path }) => path)).toEqual(expect.arrayContaining(copied));
    const declarations = packed.files
      .map(({ path }) => path)
      .filter((path) => path.endsWith('.d.ts'));
    const client = compiled.filter((path) => path.startsWith('dist/client/'));
    expect(declarations.sort()).toEqual(
      client.map((path) => path.replace(/\.js$/, '.d.ts')).sort(),
    );
  });

  test('has the documents that its messages name', () => {
    const messages = filesOf('src')
      .filter((path) => path.endsWith('.ts'))
      .map(readText)
      .join();
    const named = new Set([...messages.matchAll(/\bdocs\/[\w/-]+\.md/g)].map(([path]) => path));
    expect(named.size).toBeGreaterThan(3);
    const paths = new Set(packed.files.map(({ path }) => path));
    expect([...named].filter((path) => !paths.has(path))).toEqual([]);
  });

  test('has a program that can be executed, and cannot be published by accident', () => {
    const { bin, private: is_private } = JSON.parse(readText('package.json'));
    const program = packed.files.find(({ path }) => path === bin.standin)!;
    expect(program.mode & 0o111).toBe(0o111);
    expect(is_private).toBe(true);
  });

  test('publint has nothing to say of it', async () => {
    const { buffer, byteOffset, byteLength } = readFileSync(packed.tarball);
    const tarball = buffer.slice(byteOffset, byteOffset + byteLength);
    const { messages } = await publint({ pack: { tarball } });
    expect(messages).toEqual([]);
  });

  test('Are the types wrong? finds nothing wrong for ES modules and bundlers', async () => {
    const attw = join(ROOT, 'node_modules/@arethetypeswrong/cli/dist/index.js');
    const args = [attw, packed.tarball, '--profile', 'esm-only', '--format', 'json'];
    const { code, stdout } = await run(process.execPath, args, { cwd: folder });
    const { analysis, problems } = JSON.parse(stdout);
    expect(analysis.types.kind).toBe('included');
    expect(Object.keys(analysis.entrypoints)).toContain('./client');
    // Node 20.19 requires ES modules, and old ways of resolution know no exports.
    const kinds = (Object.values(problems) as { resolutionKind: string }[][]).flat();
    const forgiven = ['node10', 'node16-cjs'];
    expect(kinds.filter(({ resolutionKind: kind }) => !forgiven.includes(kind))).toEqual([]);
    expect(code).toBe(0);
  });
});
