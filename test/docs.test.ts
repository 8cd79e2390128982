import { existsSync, readdirSync } from 'node:fs';
import { dirname, join, normalize } from 'node:path';
import { expect, test } from 'vitest';
import * as client from '#client';
import { checkOptions } from '../packages/client/src/options.ts';
import { SETTINGS } from '../src/config/settings.ts';
import { isApiKey } from '../src/crypto/api-key.ts';
import { kekOf } from '../src/crypto/kek.ts';
import { Keyring } from '../src/crypto/keyring.ts';
import { CALLER_ERRORS, INTERNAL_REASONS } from '../src/errors.ts';
import {
  BYTES_A_BODY_NAME,
  BYTES_A_PART,
  MAX_DEPTH,
  MAX_NAME_BYTES,
  MAX_NAMES,
  MAX_PARTS,
  MAX_RESPONSE_BODIES,
  MAX_VALUE_BYTES,
  METHODS,
} from '../src/public/schema.ts';
import { drawToken } from '../src/shape/kind.ts';
import { shapeOf } from '../src/shape/shape.ts';
import type { Token, Value } from '../src/types.ts';
import {
  anchors,
  blocks,
  blocksUnder,
  codePieces,
  documents,
  internalLinks,
  ROOT,
  readText,
  table,
} from './support/docs.ts';

const packageJson = JSON.parse(readText('package.json'));

test('configuration.md has every setting, with its default, what it accepts and its meaning', () => {
  expect(table('docs/configuration.md', ['Setting', 'Default', 'Accepts', 'Meaning'])).toEqual(
    Object.entries(SETTINGS).map(([name, { default: fallback = '', accepts }]) => [
      ...[name, fallback, accepts],
      expect.stringMatching(/^.{10,}\.$/),
    ]),
  );
});

/** The texts of all files below a folder whose names end so. */
const textsBelow = (folder: string, end: RegExp) =>
  readdirSync(join(ROOT, folder), { recursive: true, encoding: 'utf8' })
    .filter((name) => end.test(name))
    .map((name) => readText(join(folder, name)));

test('troubleshooting.md and errors.md quote the program', () => {
  const sources = ['src', 'packages'].flatMap((folder) => textsBelow(folder, /\.ts$/)).join('\n');
  const text = readText('docs/troubleshooting.md') + readText('docs/errors.md');
  const quoted = [...text.matchAll(/^- \*\*`([^`]+)`\*\*(.*)/gm)];
  const ours = quoted.filter(([, , rest]) => !rest!.startsWith(', from PostgreSQL'));
  expect(ours.length).toBeGreaterThan(14);
  for (const [, quote] of ours) expect(sources.includes(quote!), quote).toBe(true);
});

test('the pieces of recipes.md are pieces of the examples, which tests run', () => {
  const files = textsBelow('examples', /\.(?:ts|py|java|yml)$/);
  const pieces = ['ts', 'python', 'java', 'yaml'].flatMap((language) =>
    blocks('docs/guides/recipes.md', language),
  );
  expect(pieces.length).toBeGreaterThan(4);
  const missing = pieces.filter((piece) => !files.some((file) => file.includes(piece.trimEnd())));
  // A model is the reader's own: the test of Django has one such.
  expect(missing).toEqual(['email = TokenField(max_length=84)\n']);
});

test('settings that documents name exist', () => {
  const ours = Object.keys(SETTINGS).join(' ');
  const known =
    `${ours} API_KEY APP_URL OWNER_URL EXTRA_PACKAGES OPENAI_API_KEY OPENAI_BASE_URL STANDIN_API_KEY
    STANDIN_URL TEST_DATABASE_URL TEST_PGBOUNCER TEST_POSTGRES_BIN SAMPLE_DATA_DIR
    TEST_SOCKETS NODE_EXTRA_CA_CERTS NO_COLOR TEST_CITUS TEST_KINDS TEST_RECIPES
    TEST_OPENBAO_BIN LOAD_SECONDS FAULT_LENGTH FAULT_SECONDS FAULT_ROUNDS CHAOS_SEED
    SEARCH_MINUTES ON_ERROR_STOP`.split(/\s+/);
  for (const path of documents()) {
    for (const piece of codePieces(path)) {
      // Those of clouds are read by their libraries.
      const names = /(?<![\w$])(?!AWS_|AZURE_|GOOGLE_)([A-Z]+_[A-Z_]+)(?==|$)/g;
      for (const [, name] of piece.matchAll(names)) expect(known, path).toContain(name);
    }
  }
});

test('errors.md has every error of a caller, with its status and when it comes', () => {
  expect(table('docs/errors.md', ['Status', '`error`', 'When'])).toEqual(
    Object.entries(CALLER_ERRORS).map(([code, { status, when }]) => [String(status), code, when]),
  );
});

test('errors.md has every message of an internal_error', () => {
  const rows = table('docs/errors.md', ['`message`', 'What it means', 'What to do']);
  expect(rows.map(([message]) => message)).toEqual(Object.values(INTERNAL_REASONS));
});

test('the answers that api.md shows have the status of their code', () => {
  const shown = table('docs/api.md', ['Status', 'Example']).flatMap(([status, example]) =>
    example!.startsWith('{') ? [[Number(status), JSON.parse(example!).error]] : [],
  );
  const codes = new Map<unknown, number>([['internal_error', 500]]);
  for (const [code, { status }] of Object.entries(CALLER_ERRORS)) codes.set(code, status);
  const errors = shown.filter(([, code]) => code !== undefined);
  for (const [status, code] of errors) expect(codes.get(code)).toBe(status);
  expect(errors.length).toBeGreaterThan(7);
});

test('api.md has the paths, methods and limits of the program', () => {
  expect(
    table('docs/api.md', ['Path', 'Methods', 'API key', 'What it does']).map(([path, methods]) => [
      path,
      methods,
    ]),
  ).toEqual(Object.entries(METHODS));
  const rows = table('docs/api.md', ['What', 'Limit', 'Beyond it']);
  const shown = (limit: number | string) => Number(limit).toLocaleString('en');
  const has = (text: string) => expect.stringContaining(text);
  expect(SETTINGS.BODY_LIMIT.default).toBe(String(1024 * 1024));
  expect(Object.fromEntries(rows)).toMatchObject({
    'a value': `${shown(MAX_VALUE_BYTES)} bytes of UTF-8`,
    'a field name': `${MAX_NAME_BYTES} bytes of UTF-8`,
    'depth of `data`': has(`${MAX_DEPTH} levels`),
    'objects, lists and names in a body': `${shown(MAX_PARTS)}, or one for each ${BYTES_A_PART} bytes if that is more`,
    'of these, different names': `${shown(MAX_NAMES)}, or one for each ${BYTES_A_BODY_NAME} bytes if that is more`,
    body: has('1 MiB'),
    'the response of a detokenize request, without the names in `data`': has(
      `${MAX_RESPONSE_BODIES} times \`BODY_LIMIT\` bytes of JSON`,
    ),
    'values in a request': has(shown(SETTINGS.VALUES_LIMIT.default!)),
  });
});

const example = JSON.parse(blocks('docs/record-format.md', 'json')[0]!);
const hex = (latin1: string) => Buffer.from(latin1, 'latin1').toString('hex');
const latin1 = (digits: string) => Buffer.from(digits, 'hex').toString('latin1');
const keyring = new Keyring(
  (['dek', 'fingerprint', 'token', 'api-key'] as const).map((purpose) => ({
    id: '',
    purpose,
    version: 1,
    bytes: Buffer.from(example[`${purpose.replace('-', '_')}_key`] ?? example.dek, 'hex'),
  })),
);

test('the example of record-format.md is what the program makes and opens', () => {
  const { draws, value_fingerprint: valueFingerprint } = keyring.deterministicDraws(example.value);
  expect(hex(draws(0, 0))).toBe(example.draw_0_block_0);
  expect(hex(valueFingerprint)).toBe(example.value_fingerprint);
  expect(drawToken(example.value, 'tok', draws, 0)?.token).toBe(example.token);
  const tokenFingerprint = keyring.tokenFingerprint(example.token as Token);
  expect(hex(tokenFingerprint)).toBe(example.token_fingerprint);
  const sealed = Buffer.from(example.sealed, 'hex');
  const fingerprints = { token_fingerprint: tokenFingerprint, value_fingerprint: valueFingerprint };
  expect(keyring.open({ ...fingerprints, key_version: 1, sealed } as never)).toEqual({
    value: example.value,
  });
  const kek = kekOf(Buffer.from(example.kek, 'hex'));
  expect(kek.id).toBe(example.kek_id);
  const wrapped = Buffer.from(example.wrapped_dek, 'hex');
  expect(kek.unwrap('dek', 1, wrapped)?.toString('hex')).toBe(example.dek);
  expect(isApiKey(example.api_key)).toBe(true);
  expect(keyring.apiKeyDigest(example.api_key)).toBe(latin1(example.api_key_digest));
});

test('the tokens of tokens.md are those that the program draws', () => {
  const rows = table('docs/tokens.md', ['Value', 'Shape', 'Token']);
  expect(rows.length).toBeGreaterThan(15);
  for (const [written, shape, token] of rows) {
    const value = JSON.parse(written!) as Value;
    expect([written, shapeOf(value)]).toEqual([written, shape]);
    const { draws } = keyring.deterministicDraws(value);
    expect(drawToken(value, 'tok', draws, 0)?.token).toBe(token);
  }
});

test('links between documents lead to files and headings that exist', () => {
  let links = 0;
  for (const path of documents()) {
    for (const link of internalLinks(path)) {
      const [file, anchor] = link.split('#');
      const target = file === '' ? path : normalize(join(dirname(path), file!));
      expect(existsSync(join(ROOT, target)), `${path}: ${link}`).toBe(true);
      if (anchor !== undefined) expect(anchors(target), `${path}: ${link}`).toContain(anchor);
      links++;
    }
  }
  expect(links).toBeGreaterThan(20);
});

test('README leads to a list of every document, and the list of decisions to every decision', () => {
  expect(internalLinks('README.md')).toContain('docs/README.md');
  const docs = documents().filter((path) => /^docs\/(?!README)/.test(path));
  const listed = internalLinks('docs/README.md').map((link) => join('docs', link));
  expect(listed).toEqual(
    expect.arrayContaining(docs.filter((path) => !/^docs\/decisions\/\d/.test(path))),
  );
  const decisions = readdirSync(join(ROOT, 'docs/decisions')).filter((name) => /^\d/.test(name));
  expect(internalLinks('docs/decisions/README.md')).toEqual(decisions.sort());
  for (const name of decisions)
    expect(readText(join('docs/decisions', name))).toMatch(new RegExp(`^# ${name.slice(0, 4)}: `));
});

test('README shows the two commands: one to try it, one to run its tests', () => {
  expect(blocksUnder('README.md', 'Try it')[0]).toBe('npm ci && npm start\n');
  const [, review] = readText('README.md').split('To review or change it:\n');
  expect(review).toMatch(/^\n- `npm cit` .*\(CONTRIBUTING\.md#tests\)\n/);
});

test('npm commands and files of the source that documents name exist', () => {
  for (const path of documents()) {
    for (const piece of codePieces(path)) {
      for (const [, script] of piece.matchAll(/npm run (?:-s )?([\w:-]+)/g))
        expect(Object.keys(packageJson.scripts), path).toContain(script);
      const file = /^(?:src|packages|test|migrations|docs)\/[\w./-]*$/.exec(piece)?.[0];
      if (file !== undefined) expect(existsSync(join(ROOT, file)), `${path}: ${file}`).toBe(true);
    }
  }
  expect(Object.keys(packageJson.scripts)).toEqual(expect.arrayContaining(['start', 'test']));
});

test('LICENSE, package.json and README name the same license; CHANGELOG has the version', () => {
  expect(packageJson.license).toBe('Apache-2.0');
  expect(readText('LICENSE')).toMatch(/Apache License\s+Version 2\.0, January 2004/);
  expect(readText('README.md')).toContain('Apache License 2.0');
  expect(readText('CHANGELOG.md')).toMatch(new RegExp(`^## ${packageJson.version} - `, 'm'));
  expect(packageJson.engines.node).toBe('>=20.19');
  expect(readText('README.md')).toContain('Node 20.19 or newer');
});

test.each(['docs/internals/threat-model.md', 'docs/internals/asvs.md'])(
  'the tests that %s names exist, by id or by file',
  (path) => {
    const register = readText('test/register.md');
    const ids = [...readText(path).matchAll(/\b[AFLCS]\d\d\b/g)].map(([id]) => id);
    expect(ids.length).toBeGreaterThan(30);
    for (const id of ids) expect(register, path).toMatch(new RegExp(`^\\| ${id} .*\`\\w`, 'm'));
    const named = [...readText(path).matchAll(/`(test\/[\w./-]+)`/g)];
    expect(named.length).toBeGreaterThan(10);
    for (const [, file] of named) expect(existsSync(join(ROOT, file!)), file).toBe(true);
  },
);

test('client.md has every option with its default, and every error', () => {
  const defaults: Record<string, unknown> = checkOptions({
    url: 'http://127.0.0.1:8080',
    apiKey: 'stk_0123456789ABCDEFGHIJKLMNOPQR1KnaxG',
  });
  const rows = table('docs/client.md', ['Option', 'Default', 'Meaning']);
  expect(rows.map(([name]) => name).sort()).toEqual(Object.keys(defaults).sort());
  for (const [name, text] of rows)
    if (/^\d/.test(text!)) expect([name, text]).toEqual([name, String(defaults[name!])]);
  const errors = Object.keys(client).filter((name) => name.endsWith('Error'));
  const told = table('docs/client.md', ['Class', 'When', 'What to do']).map(([name]) => name);
  expect(told.sort()).toEqual(errors.sort());
});
