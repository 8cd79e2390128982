import { spawnSync } from 'node:child_process';
import { copyFileSync, existsSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { describe, expect, test } from 'vitest';
import {
  filesAreShort,
  foldersHaveTheirOwnNames,
  linesByPart,
  namesSaySomething,
  noCycles,
  nothingIsLeft,
  oneReaderOfTheEnvironment,
  type Rule,
  readPackages,
  readSources,
  roomsKeepApart,
  statementsHaveNoName,
  testsDoNotSleep,
  testsRunOnceAndAll,
} from './support/tidy.ts';

const ROOT = fileURLToPath(new URL('../', import.meta.url));
const sources = [...readSources(`${ROOT}src/`), ...readPackages(`${ROOT}packages/`, 'src')];
const testsOfPackages = readPackages(`${ROOT}packages/`, 'test');
const tests = [...readSources(`${ROOT}test/`), ...testsOfPackages].filter(({ path }) =>
  path.endsWith('.test.ts'),
);

/** Texts by path. */
type Canary = Readonly<Record<string, string>>;

/**
 * Every rule with canaries, each of which breaks it: a rule that finds nothing anywhere would be
 * worth nothing.
 */
const RULES: [string, Rule, Canary[]][] = [
  [
    'rooms and our own packages import only what they may',
    roomsKeepApart,
    [
      { 'shape/a.ts': "import { b } from '../crypto/b.ts';" },
      { 'public/a.ts': "import pg from 'pg';" },
      { 'tokens/a.ts': "import { runBulk } from '#bulk';" },
      { 'ops/a.ts': "import { el } from '../../packages/console/src/parts.tsx';" },
      { 'packages/bulk/src/a.ts': "import { b } from '../../../src/errors.ts';" },
      { 'packages/bulk/src/a.ts': "import { b } from '../../client/src/index.ts';" },
      { 'packages/client/src/a.ts': "import { b } from 'undici';" },
    ],
  ],
  [
    'a folder and a file never share a name',
    foldersHaveTheirOwnNames,
    [{ 'config.ts': '', 'config/settings.ts': '' }],
  ],
  [
    'no import cycles, of types neither',
    noCycles,
    [
      {
        'shape/a.ts': "import { b } from './b.ts';",
        'shape/b.ts': "import { a } from './a.ts';",
      },
      {
        'shape/a.ts': "import type { B } from './b.ts';",
        'shape/b.ts': "import {\n  type A,\n} from './a.ts';",
      },
    ],
  ],
  [
    'files are short, and lines but for a text that cannot be broken',
    filesAreShort,
    [{ 'a.ts': '\n'.repeat(401) }, { 'a.ts': `call('a', ${'b, '.repeat(40)}'c');` }],
  ],
  ['names say something', namesSaySomething, [{ 'store/helpers.ts': '' }]],
  [
    'only config/config.ts reads the environment',
    oneReaderOfTheEnvironment,
    [{ 'main.ts': 'process.env.PORT' }],
  ],
  [
    'statements have no name',
    statementsHaveNoName,
    [{ 'store/a.ts': "client.query({ name: 'x', text })" }],
  ],
  ['nothing is left over', nothingIsLeft, [{ 'a.ts': '// TODO' }]],
];

/** The same for files of tests. */
const TEST_RULES: typeof RULES = [
  [
    'tests run once, and all of them',
    testsRunOnceAndAll,
    [
      { 'a.test.ts': "describe('a', { timeout: 5, retry: 2 }, () => {});" },
      { 'a.test.ts': "test.each([1]).only('a', () => {});" },
    ],
  ],
  [
    'tests wait for a condition',
    testsDoNotSleep,
    [{ 'a.test.ts': 'await new Promise((resolve) => setTimeout(resolve, 5));' }],
  ],
];

const others = tests.filter(({ path }) => path !== 'tidy.test.ts');
describe.each([
  ...RULES.map((row) => [...row, sources] as const),
  ...TEST_RULES.map((row) => [...row, others] as const),
])('%s', (_name, rule, canaries, among) => {
  test('everywhere', () => {
    expect(among.length).toBeGreaterThan(100);
    expect(among.flatMap((source) => rule(source, among))).toEqual([]);
  });
  test.each(canaries)('and the canary is caught: %o', (canary) => {
    const all = Object.entries(canary).map(([path, text]) => ({ path, text }));
    expect(all.flatMap((source) => rule(source, all))).not.toEqual([]);
  });
});

test('the tests of our own packages import nothing of the service either', () => {
  expect(testsOfPackages.length).toBeGreaterThan(5);
  expect(testsOfPackages.flatMap((source) => roomsKeepApart(source, testsOfPackages))).toEqual([]);
  const text = "import { b } from '../../../test/support/b.ts';";
  const canary = { path: 'packages/bulk/test/a.ts', text };
  expect(roomsKeepApart(canary, [canary])).not.toEqual([]);
});

/** `npm run lint` looks at all files with these settings. Lines with a brace alone do not count. */
test('functions are short: the linter counts the lines of one with blocks', () => {
  const folder = mkdtempSync(join(tmpdir(), 'standin-tidy-'));
  mkdirSync(join(folder, 'src'));
  copyFileSync(join(ROOT, 'biome.json'), join(folder, 'biome.json'));
  const lint = (blocks: number) => {
    const text = `export function canary() {\n${'  if (a()) {\n    b();\n  }\n'.repeat(blocks)}}\n`;
    writeFileSync(join(folder, 'src/canary.ts'), text);
    const biome = join(ROOT, 'node_modules/.bin/biome');
    const { stderr } = spawnSync(biome, ['lint', '--vcs-enabled=false', 'src'], {
      cwd: folder,
      encoding: 'utf8',
    });
    return stderr.includes('lint/complexity/noExcessiveLinesPerFunction');
  };
  expect([lint(25), lint(26)]).toEqual([false, true]);
  rmSync(folder, { recursive: true });
});

/** Lines of code that each part has at most. To raise one is a decision. */
const MOST_LINES: Readonly<Record<string, number>> = {
  bench: 1400,
  'clients/python': 1500,
  deploy: 30,
  examples: 540,
  migrations: 80,
  'packages/bulk': 1620,
  'packages/client': 1080,
  'packages/console': 3340,
  'packages/model-proxy': 780,
  'packages/paths': 359,
  root: 54,
  src: 1000,
  'src/access': 790,
  'src/audit': 770,
  'src/commands': 3360,
  'src/config': 630,
  'src/crypto': 580,
  'src/detect': 428,
  'src/embedded': 380,
  'src/kek': 580,
  'src/limits': 810,
  'src/observe': 534,
  'src/openapi': 910,
  'src/ops': 2170,
  'src/policy': 1432,
  'src/process': 935,
  'src/public': 3243,
  'src/records': 1290,
  'src/shape': 930,
  'src/store': 2060,
  'src/tokens': 1380,
  'src/vault': 710,
  tests: 45100,
};

// Without a repository, nobody adds a line.
test.skipIf(!existsSync(join(ROOT, '.git')))(
  'no part has more lines of code than were decided',
  () => {
    const lines = Object.entries(linesByPart(ROOT));
    expect(lines.filter(([part, count]) => count > (MOST_LINES[part] ?? 0))).toEqual([]);
  },
);
