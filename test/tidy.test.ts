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
  type Source,
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

/** Every rule with a canary that breaks it: a rule that finds nothing anywhere would be worth nothing. */
const RULES: [string, Rule, Source[]][] = [
  [
    'rooms import only what they may',
    roomsKeepApart,
    [{ path: 'shape/a.ts', text: "import { b } from '../crypto/b.ts';" }],
  ],
  [
    'a folder and a file never share a name',
    foldersHaveTheirOwnNames,
    [
      { path: 'config.ts', text: '' },
      { path: 'config/settings.ts', text: '' },
    ],
  ],
  [
    'packages of others stay in their rooms',
    roomsKeepApart,
    [{ path: 'public/a.ts', text: "import pg from 'pg';" }],
  ],
  [
    'only some rooms use our own packages',
    roomsKeepApart,
    [{ path: 'tokens/a.ts', text: "import { runBulk } from '#bulk';" }],
  ],
  [
    'our own packages are imported by their names',
    roomsKeepApart,
    [{ path: 'ops/a.ts', text: "import { el } from '../../packages/console/src/parts.tsx';" }],
  ],
  [
    'our own packages import nothing of the service',
    roomsKeepApart,
    [{ path: 'packages/bulk/src/a.ts', text: "import { b } from '../../../src/errors.ts';" }],
  ],
  [
    'our own packages import nothing of each other',
    roomsKeepApart,
    [{ path: 'packages/bulk/src/a.ts', text: "import { b } from '../../client/src/index.ts';" }],
  ],
  [
    'our own packages need no other',
    roomsKeepApart,
    [{ path: 'packages/client/src/a.ts', text: "import { b } from 'undici';" }],
  ],
  [
    'no import cycles',
    noCycles,
    [
      { path: 'shape/a.ts', text: "import { b } from './b.ts';" },
      { path: 'shape/b.ts', text: "import { a } from './a.ts';" },
    ],
  ],
  [
    'no cycles of types',
    noCycles,
    [
      { path: 'shape/a.ts', text: "import type { B } from './b.ts';" },
      { path: 'shape/b.ts', text: "import {\n  type A,\n} from './a.ts';" },
    ],
  ],
  ['files and lines are short', filesAreShort, [{ path: 'a.ts', text: '\n'.repeat(401) }]],
  [
    'a line is long only for a text that cannot be broken',
    filesAreShort,
    [{ path: 'a.ts', text: `call('a', ${'b, '.repeat(40)}'c');` }],
  ],
  ['names say something', namesSaySomething, [{ path: 'store/helpers.ts', text: '' }]],
  [
    'only config/config.ts reads the environment',
    oneReaderOfTheEnvironment,
    [{ path: 'main.ts', text: 'process.env.PORT' }],
  ],
  [
    'statements have no name',
    statementsHaveNoName,
    [{ path: 'store/a.ts', text: "client.query({ name: 'x', text })" }],
  ],
  ['nothing is left over', nothingIsLeft, [{ path: 'a.ts', text: '// TODO' }]],
];

/** Imports that were there once, and made a circle of two rooms or a room know too much. */
const WRONG_WAYS: [string, string][] = [
  ['config/kek.ts', '../vault/open-keys.ts'],
  ['public/exchange.ts', '../ops/server.ts'],
  ['observe/log.ts', '../store/database-error.ts'],
  ['commands/forget.ts', '../store/removal.ts'],
  ['batcher.ts', './store/pool.ts'],
  ['timeouts.ts', './vault/vault.ts'],
  ['observe/metrics.ts', '../limits/client-limits.ts'],
];

test.each(WRONG_WAYS)('%s must not import %s', (path, target) => {
  expect(roomsKeepApart({ path, text: `import { a } from '${target}';` }, [])).not.toEqual([]);
});

/** The same for files of tests. */
const TEST_RULES: [string, Rule, Source[]][] = [
  [
    'tests run once',
    testsRunOnceAndAll,
    [{ path: 'a.test.ts', text: "describe('a', { timeout: 5, retry: 2 }, () => {});" }],
  ],
  [
    'no test runs alone',
    testsRunOnceAndAll,
    [{ path: 'a.test.ts', text: "test.each([1]).only('a', () => {});" }],
  ],
  [
    'tests wait for a condition',
    testsDoNotSleep,
    [{ path: 'a.test.ts', text: 'await new Promise((resolve) => setTimeout(resolve, 5));' }],
  ],
];

const others = tests.filter(({ path }) => path !== 'tidy.test.ts');
describe.each([
  ...RULES.map((row) => [...row, sources] as const),
  ...TEST_RULES.map((row) => [...row, others] as const),
])('%s', (_name, rule, canary, among) => {
  test('everywhere', () => {
    expect(among.length).toBeGreaterThan(100);
    expect(among.flatMap((source) => rule(source, among))).toEqual([]);
  });
  test('and the canary is caught', () => {
    expect(canary.flatMap((source) => rule(source, canary))).not.toEqual([]);
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
  bench: 1570,
  'clients/python': 1520,
  deploy: 30,
  examples: 540,
  migrations: 80,
  'packages/bulk': 1640,
  'packages/client': 1080,
  'packages/console': 3680,
  'packages/model-proxy': 830,
  'packages/paths': 340,
  root: 50,
  src: 1010,
  'src/access': 840,
  'src/audit': 770,
  'src/commands': 3450,
  'src/config': 630,
  'src/crypto': 590,
  'src/detect': 470,
  'src/embedded': 380,
  'src/kek': 580,
  'src/limits': 820,
  'src/observe': 530,
  'src/openapi': 910,
  'src/ops': 2280,
  'src/policy': 1440,
  'src/process': 940,
  'src/public': 3300,
  'src/records': 1290,
  'src/shape': 930,
  'src/store': 2080,
  'src/tokens': 1370,
  'src/vault': 720,
  tests: 45300,
};

// Without a repository, nobody adds a line.
test.skipIf(!existsSync(join(ROOT, '.git')))(
  'no part has more lines of code than were decided',
  () => {
    const lines = Object.entries(linesByPart(ROOT));
    expect(lines.filter(([part, count]) => count > (MOST_LINES[part] ?? 0))).toEqual([]);
  },
);
