import { describe, expect, test } from 'vitest';
import { SETTINGS } from '../../src/config/settings.ts';
import { CALLER_ERRORS } from '../../src/errors.ts';
import { documentText, openApiDocument } from '../../src/openapi/document.ts';
import type { Media } from '../../src/openapi/elements.ts';
import { referenceHtml } from '../../src/openapi/reference.ts';
import { adminDocumentOf, adminDocumentText } from '../../src/ops/admin/document.ts';
import { ADMIN_ERRORS } from '../../src/ops/errors.ts';
import { METHODS } from '../../src/public/schema.ts';
import { DocumentSchemas, operationsOf, readText, responseOf, table } from '../support/docs.ts';
import { isOpenApi, lint, whatGeneratorsLose } from '../support/openapi.ts';

const { HOST, PORT, OPS_HOST, OPS_PORT, BODY_LIMIT, VALUES_LIMIT } = SETTINGS;
const settingsOf = (INTERFACE_VERSION: '1.0.5' | '1.0.4') => ({
  ...{ INTERFACE_VERSION, BODY_LIMIT: Number(BODY_LIMIT.default) },
  VALUES_LIMIT: Number(VALUES_LIMIT.default),
});
const publicOf = (version: '1.0.5' | '1.0.4') =>
  [settingsOf(version), `http://${HOST.default}:${PORT.default}`] as const;
const OPS = { OPS_HOST: OPS_HOST.default, OPS_PORT: Number(OPS_PORT.default), OPS_TLS: false };

const WRITTEN = {
  'openapi.json': documentText(...publicOf('1.0.5')),
  'admin-openapi.json': adminDocumentText(OPS),
};

test.each(Object.entries(WRITTEN))('docs/%s is the document of the defaults', (name, text) => {
  const remedy = 'stale: the file is what `standin openapi` prints, with --admin or without';
  expect(readText(`docs/${name}`) === text, remedy).toBe(true);
});

describe.each([
  ['of interface 1.0.5', openApiDocument(...publicOf('1.0.5'))],
  ['of interface 1.0.4', openApiDocument(...publicOf('1.0.4'))],
  ['of the admin API', adminDocumentOf(OPS)],
])('the document %s', (of, document) => {
  const isAdmin = of.includes('admin');
  const text = JSON.stringify(document);
  const schemas = new DocumentSchemas(document);

  test('is OpenAPI 3.1 by its own schema, without what a linter warns of or generators of clients lose', async () => {
    expect(await lint(text)).toEqual([]);
    expect(isOpenApi(JSON.parse(text)), JSON.stringify(isOpenApi.errors)).toBe(true);
    expect([...whatGeneratorsLose(JSON.parse(text))]).toEqual([]);
  });

  test('has every status of its table of errors, and every code of this version', () => {
    const responses = operationsOf(document).map(({ operation }) => operation.responses);
    const statuses = new Set(responses.flatMap((one) => Object.keys(one)));
    const table = isAdmin ? ADMIN_ERRORS : { ...CALLER_ERRORS, internal_error: { status: 500 } };
    const known = Object.values(table).map(({ status }) => String(status));
    const success = isAdmin ? ['200', '201'] : ['200'];
    expect([...statuses].toSorted()).toEqual([...new Set([...success, ...known])].toSorted());
    const others = { 'of interface 1.0.5': 'rate_limit', 'of interface 1.0.4': 'user_limit' };
    const other = others[of as keyof typeof others];
    const codes = Object.values(document.components.schemas).flatMap(({ properties }) => {
      const { error } = (properties ?? {}) as Record<string, { const?: string; enum?: string[] }>;
      return error?.enum ?? error?.const ?? [];
    });
    expect(new Set(codes)).toEqual(new Set(Object.keys(table).filter((code) => code !== other)));
    if (other !== undefined) expect(text).not.toContain(other);
  });

  test('has schemas that are JSON Schemas, and examples that fit them', () => {
    let examples = 0;
    const expectFit = (at: readonly string[], all: readonly unknown[]) => {
      const isFit = schemas.at(...at);
      for (const one of all)
        expect(isFit(one), `${at}: ${JSON.stringify(isFit.errors)}`).toBe(true);
      examples += all.length;
    };
    const checkSchema = (schema: any, at: readonly string[]): void => {
      expectFit(at, schema.examples ?? []);
      for (const [name, property] of Object.entries(schema.properties ?? {}))
        checkSchema(property, [...at, 'properties', name]);
      if (schema.items) checkSchema(schema.items, [...at, 'items']);
    };
    for (const [name, schema] of Object.entries(document.components.schemas))
      checkSchema(schema, ['components', 'schemas', name]);
    const checkMedia = (at: readonly string[], { examples: shown = {} }: Media) => {
      const values = Object.values(shown).map(({ value }) => value);
      expect(values.length > 0, at.join()).toBe(!isAdmin);
      expectFit([...at, 'content', 'application/json', 'schema'], values);
    };
    for (const { path, method, operation } of operationsOf(document)) {
      const body = operation.requestBody?.content['application/json'];
      if (body) checkMedia(['paths', path, method, 'requestBody'], body);
      for (const status of Object.keys(operation.responses)) {
        const { response, at } = responseOf(document, path, method, status);
        checkMedia(at, response.content['application/json']);
      }
    }
    for (const [name, { example }] of Object.entries(document.components.headers ?? {}))
      expectFit(['components', 'headers', name, 'schema'], [example]);
    expect(examples).toBeGreaterThan(isAdmin ? 30 : 50);
  });
});

test('the answer of an unknown path names every path', () => {
  const named = CALLER_ERRORS.not_found.message.split(/[ ,]+/);
  expect(named).toEqual(expect.arrayContaining(Object.keys(METHODS)));
});

test('the page of the admin API has the errors that only it has', () => {
  const own = Object.entries(ADMIN_ERRORS).filter(
    ([code]) => !(code in CALLER_ERRORS) && code !== 'internal_error',
  );
  expect(table('docs/operating/admin-api.md', ['Status', '`error`', 'When'])).toEqual(
    own.map(([code, { status, when }]) => [String(status), code, when]),
  );
});

test('the checks of a document see what is wrong', async () => {
  const document = JSON.parse(documentText(...publicOf('1.0.5')));
  const { Values, Healthy } = document.components.schemas;
  for (const canary of [
    { a: { $ref: '#/components/schemas/Healthy', description: 'b' } },
    { oneOf: [Values, Healthy] },
    { a: { type: 'object', properties: { b: { type: 'object', properties: {} } } } },
    { content: { 'application/json': { schema: Healthy } } },
  ])
    expect([...whatGeneratorsLose(canary)]).toHaveLength(1);
  document.paths['/health'].get.operationId = 'tokenize';
  document.components.schemas.Unused = { type: 'object' };
  const problems = (await lint(JSON.stringify(document))).join('\n');
  expect(problems).toContain('operation-operationId-unique');
  expect(problems).toContain('no-unused-components');
  delete document.info.title;
  expect(isOpenApi(document)).toBe(false);
});

test('the page has every operation, escapes every text, and has no script and nothing from elsewhere', () => {
  const document = openApiDocument(settingsOf('1.0.5'), 'http://a/"><script>&\'');
  const page = referenceHtml(document);
  expect(page).toContain('http://a/&quot;&gt;&lt;script&gt;&amp;&#39;');
  expect(page).not.toMatch(/<script|\son\w+=|style=|javascript:|<img|<iframe|undefined|\[object/i);
  const addresses = [...page.matchAll(/(?:href|src)="([^"]*)"/g)].map(([, address]) => address!);
  const inner = addresses.filter((address) => address.startsWith('#'));
  const outer = addresses.filter((address) => !address.startsWith('#'));
  expect(outer).toEqual([expect.stringMatching(/^data:application\/json,%7B/)]);
  const ids = [...page.matchAll(/ id="([^"]*)"/g)].map(([, id]) => `#${id}`);
  expect(ids).toHaveLength(new Set(ids).size);
  expect(ids).toEqual(expect.arrayContaining(inner));
  for (const path of Object.keys(document.paths)) expect(page).toContain(path);
  const shown = referenceHtml(openApiDocument(...publicOf('1.0.5')));
  const parts = [
    '<h2>Headers</h2>\n<p>Send <code>Authorization: Bearer</code> with',
    '<ul><li><code>pass</code>: they go through unchanged, in clear</li><li><code>refuse</code>: ',
    '<h2 id="tokenize"><span class="method">POST</span> /api/v1/tokenize</h2>\n<p><strong>Values to tokens.</strong> ',
    `curl &#39;http://127.0.0.1:8080/api/v1/policy&#39; \\\n  -H &quot;Authorization: Bearer $API_KEY&quot;</pre>`,
    `/api/v1/detokenize&#39; \\\n  -H &quot;Authorization: Bearer $API_KEY&quot; -H &#39;Content-Type: application/json&#39; \\\n  -d &#39;{&quot;data&quot;:{&quot;name&quot;:`,
    '<details open>\n<summary><strong>200</strong> Values in the places of the tokens.</summary>',
    '<details>\n<summary><strong>404</strong> ',
    'Schema: <a href="#Limited">Limited</a>. Headers: X-Request-Id, Cache-Control, ',
    '<h3 id="Values">Values</h3>\n<pre tabindex="0">{\n  &quot;description&quot;',
  ];
  expect(parts.filter((part) => !shown.includes(part))).toEqual([]);
});
