import { execFileSync } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { isApiKey } from '../src/crypto/api-key.ts';
import { blocks, ROOT, readText, table } from './support/docs.ts';

const packageJson = JSON.parse(readText('package.json'));
const lock: Record<string, any> = JSON.parse(readText('package-lock.json')).packages;
/** Of others: the packages of this repository are its folders, and links to them. */
const packages = Object.entries(lock).filter(
  ([path, one]) => path.startsWith('node_modules/') && one.link !== true,
);
const production = packages.filter(([, one]) => one.dev !== true);
const DOCUMENT = 'docs/internals/supply-chain.md';
/** What npm runs by itself when a package is installed. */
const INSTALL_SCRIPTS = ['preinstall', 'install', 'postinstall', 'prepare', 'prepublish'];

function purlOf([path, { version }]: [string, any]): string {
  const name = path.slice(path.lastIndexOf('node_modules/') + 'node_modules/'.length);
  return `pkg:npm/${name}@${version}`;
}

describe('packages', () => {
  test('S02, S03: none has an install script, neither has the program', () => {
    expect(packages.filter(([, one]) => one.hasInstallScript)).toEqual([]);
    const own = Object.keys(packageJson.scripts);
    expect(own.filter((name) => INSTALL_SCRIPTS.includes(name))).toEqual([]);
    // The lock file says it of others; what is installed says it of itself.
    const installed = packages.filter(([path]) => existsSync(join(ROOT, path, 'package.json')));
    expect(installed.length).toBeGreaterThan(production.length / 2);
    for (const [path] of installed) {
      const scripts = Object.keys(JSON.parse(readText(join(path, 'package.json'))).scripts ?? {});
      const runs = scripts.filter((name) => /^(pre|post)?install$/.test(name));
      expect([path, runs]).toEqual([path, []]);
    }
  });

  test('each is an archive of the registry, with its hash', () => {
    for (const [path, one] of packages) {
      expect(one.resolved ?? 'https://registry.npmjs.org/', path).toMatch(
        /^https:\/\/registry\.npmjs\.org\//,
      );
      expect(one.integrity, path).toMatch(/^sha512-/);
    }
  });

  test('supply-chain.md has those that the program asks for, and how many there are in all', () => {
    const rows = table(DOCUMENT, ['Package', 'What for']);
    expect(rows.map(([name]) => name)).toEqual(Object.keys(packageJson.dependencies));
    for (const [, reason] of rows) expect(reason).not.toBe('');
    const [optional] = /(`[^`]+`(,| and)?\s)+come only where you install them/.exec(
      readText(DOCUMENT),
    )!;
    const named = [...optional.matchAll(/`([^`]+)`/g)].map(([, name]) => name);
    expect(named).toEqual(Object.keys(packageJson.peerDependencies));
    expect(readText(DOCUMENT)).toContain(`has ${production.length} packages for production`);
  });

  test('S04: npm sbom makes a CycloneDX document, with all of production and what is not', () => {
    const command = blocks(DOCUMENT, 'sh').find((one) => one.startsWith('npm sbom'))!;
    const args = command
      .trim()
      .replace(/^npm | > .*/g, '')
      .split(' ');
    const made = execFileSync('npm', args, {
      cwd: ROOT,
      encoding: 'utf8',
      stdio: ['ignore', 'pipe', 'ignore'],
      maxBuffer: 1 << 26,
    });
    const { bomFormat, components } = JSON.parse(made);
    expect(bomFormat).toBe('CycloneDX');
    const marked = ({ properties = [] }: any) =>
      properties.some(({ name }: any) => name === 'cdx:npm:package:development');
    const locked = new Set(production.map(purlOf));
    // Of a package that is there twice, for production and for development, npm lists one.
    const twice = new Set(
      packages
        .filter(([, one]) => one.dev)
        .map(purlOf)
        .filter((purl) => locked.has(purl)),
    );
    const listed = components
      .filter((one: any) => !marked(one) || twice.has(decodeURIComponent(one.purl)))
      .map(({ purl }: any) => decodeURIComponent(purl));
    expect(new Set(listed)).toEqual(locked);
  });
});

/** Forms of secrets that must not be in a repository. Written so that this file has none of them. */
const SECRETS = [
  /-----BEGIN (?:[A-Z]+ )?PRIVATE KEY-----\n(?:.*\n){2}/g,
  /\bAKIA(?![0-9A-Z]*(?:TEST|EXAMPLE))[0-9A-Z]{16}\b/g,
  /\bAIza[0-9A-Za-z_-]{35}\b/g,
  /\bgh[pousr]_[0-9A-Za-z]{36}\b/g,
  /\bgithub_pat_[0-9A-Za-z_]{60,}/g,
  /\bglpat-[0-9A-Za-z_-]{20}\b/g,
  /\bnpm_[0-9A-Za-z]{36}\b/g,
  /\bxox[abprs]-[0-9A-Za-z-]{20,}/g,
  /\bsk_live_[0-9A-Za-z]{20,}/g,
  /\bhvs\.[0-9A-Za-z_-]{24,}/g,
  /\beyJ[\w-]{20,}\.eyJ[\w-]{20,}\.[\w-]{40,}/g,
  /\bpostgres(?:ql)?:\/\/[^\s:@/'"`$]+:(?!PASSWORD@)[^\s@'"`${}]{8,}@(?!127\.0\.0\.1)[\w-]+\.[\w.-]*(?<!example)\b/g,
];
/** No vault knows them: of the README, the guides, the record format, the tests and their vectors. */
const EXAMPLES = new Set([
  'stk_m0sdE2c65u3jXhNXPMSFFMbCJjRX4C5AqR',
  'stk_mxldYX7kM5UwRS4hq2lGh0qJDM8Z38w5lP',
  'stk_Z5M7DghKrxOb7tCrGWqh6CsgwtrH3KTuL3',
  'stk_8vzMMhkL0wd2yTv5tbsQdDN0K6cW4OTrTR',
  'stk_ZhrVyTBK44zmkvnsfL0iE5yDIyMA31flxV',
  'stk_0123456789ABCDEFGHIJKLMNOPQR1KnaxG',
  'stk_00000000000000000000000000003W8MOK',
  'stk_zzzzzzzzzzzzzzzzzzzzzzzzzzzz0Umsc2',
]);

function secretsIn(text: string): string[] {
  const ours = [...text.matchAll(/\bstk_[0-9A-Za-z]{34}\b/g)].map(([apiKey]) => apiKey);
  return [
    ...SECRETS.flatMap((form) => [...text.matchAll(form)].map(([found]) => found)),
    ...ours.filter((apiKey) => isApiKey(apiKey) && !EXAMPLES.has(apiKey)),
  ];
}

function git(...args: string[]): string {
  return execFileSync('git', args, { cwd: ROOT, encoding: 'utf8', maxBuffer: 1 << 30 });
}

describe.runIf(existsSync(join(ROOT, '.git')))('S07: secrets', () => {
  test('are in no file', () => {
    const files = git('ls-files').trimEnd().split('\n');
    expect(files.length).toBeGreaterThan(100);
    const found = files.flatMap((path) => {
      const file = join(ROOT, path);
      return existsSync(file)
        ? secretsIn(readFileSync(file, 'utf8')).map((one) => [path, one])
        : [];
    });
    expect(found).toEqual([]);
  });

  test('were in none, ever: in what every commit added, and in its message', () => {
    const log = git('log', '--patch', '--no-color', '--unified=0');
    const added = log.split('\n').filter((line) => /^(\+| {4})/.test(line));
    const text = added.map((line) => line.replace(/^(\+| {4})/, '')).join('\n');
    const known = new Set(EXAMPLES);
    expect(secretsIn(text).filter((one) => !known.has(one))).toEqual([]);
  });

  test('are found where they are', () => {
    const planted = [
      `AKIA${'A'.repeat(16)}`,
      `ghp_${'a'.repeat(36)}`,
      ['-----BEGIN', 'PRIVATE KEY-----\nabc\ndef\n'].join(' '),
      `postgres://standin:${'x'.repeat(12)}@db.internal`,
    ];
    for (const one of planted) expect(secretsIn(`key = ${one}`)).toHaveLength(1);
  });
});
