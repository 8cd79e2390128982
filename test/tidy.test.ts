import { fileURLToPath } from 'node:url';
import { describe, expect, test } from 'vitest';
import {
  filesAreShort,
  functionsAreShort,
  namesSaySomething,
  noCycles,
  nothingIsLeft,
  oneReaderOfTheEnvironment,
  type Rule,
  readSources,
  roomsKeepApart,
  type Source,
  statementsHaveNoName,
} from './support/tidy.ts';

const sources = readSources(fileURLToPath(new URL('../src/', import.meta.url)));

/** Every rule with a canary that breaks it: a rule that finds nothing anywhere would be worth nothing. */
const RULES: [string, Rule, Source[]][] = [
  [
    'rooms import only what they may',
    roomsKeepApart,
    [{ path: 'shape/a.ts', text: "import { b } from '../crypto/b.ts';" }],
  ],
  [
    'packages stay in their rooms',
    roomsKeepApart,
    [{ path: 'http/a.ts', text: "import pg from 'pg';" }],
  ],
  [
    'no import cycles',
    noCycles,
    [
      { path: 'shape/a.ts', text: "import { b } from './b.ts';" },
      { path: 'shape/b.ts', text: "import { a } from './a.ts';" },
    ],
  ],
  ['files and lines are short', filesAreShort, [{ path: 'a.ts', text: '\n'.repeat(301) }]],
  [
    'functions are short',
    functionsAreShort,
    [{ path: 'a.ts', text: `function a() {\n${'  b();\n'.repeat(70)}}` }],
  ],
  ['names say something', namesSaySomething, [{ path: 'store/helpers.ts', text: '' }]],
  [
    'only config.ts reads the environment',
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

describe.each(RULES)('%s', (_name, rule, canary) => {
  test('in all of src/', () => {
    expect(sources.length).toBeGreaterThan(30);
    expect(sources.flatMap((source) => rule(source, sources))).toEqual([]);
  });
  test('and the canary is caught', () => {
    expect(canary.flatMap((source) => rule(source, canary))).not.toEqual([]);
  });
});
