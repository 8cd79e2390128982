import { describe, expect, test } from 'vitest';
import { SETTINGS } from '../../src/config/settings.ts';
import { CALLER_ERRORS } from '../../src/errors.ts';
import { documentText, openApiDocument } from '../../src/openapi/document.ts';
import { DocumentSchemas, operationsOf, readText, responseOf } from '../support/docs.ts';
import { isOpenApi, lint, whatGeneratorsLose } from '../support/openapi.ts';

const URL_OF_DEFAULTS = `http://${SETTINGS.HOST.default}:${SETTINGS.PORT.default}`;
const settingsOf = (INTERFACE_VERSION: '1.0.5' | '1.0.4') => ({
  INTERFACE_VERSION,
  BODY_LIMIT: Number(SETTINGS.BODY_LIMIT.default),
  VALUES_LIMIT: Number(SETTINGS.VALUES_LIMIT.default),
});

test('docs/openapi.json is the document of the defaults', () => {
  const remedy = 'stale: npm run -s standin -- openapi > docs/openapi.json';
  const isSame =
    readText('docs/openapi.json') === documentText(settingsOf('1.0.5'), URL_OF_DEFAULTS);
  expect(isSame, remedy).toBe(true);
});

describe.each(['1.0.5', '1.0.4'] as const)('the document of interface %s', (version) => {
  const document = openApiDocument(settingsOf(version), URL_OF_DEFAULTS);
  const text = documentText(settingsOf(version), URL_OF_DEFAULTS);

  test('has nothing that a linter of OpenAPI warns of', async () => {
    expect(await lint(text)).toEqual([]);
  });

  test('is OpenAPI 3.1 by its own schema, and all of its schemas are JSON Schemas', () => {
    expect(isOpenApi(JSON.parse(text)), JSON.stringify(isOpenApi.errors)).toBe(true);
    const schemas = new DocumentSchemas(document);
    const names = Object.keys(document.components.schemas);
    for (const name of names) schemas.at('components', 'schemas', name);
    expect(names.length).toBeGreaterThan(5);
  });

  test('has every status of the table of errors, and every code of this version', () => {
    const statuses = new Set(
      operationsOf(document).flatMap(({ operation }) => Object.keys(operation.responses)),
    );
    const known = Object.values(CALLER_ERRORS).map(({ status }) => String(status));
    expect([...statuses].toSorted()).toEqual([...new Set(['200', '500', ...known])].toSorted());
    const other = version === '1.0.5' ? 'rate_limit' : 'user_limit';
    const codes = [...Object.keys(CALLER_ERRORS), 'internal_error'];
    const ofSchemas = Object.values(document.components.schemas).flatMap(({ properties }) => {
      const { error } = (properties ?? {}) as Record<string, { const?: string; enum?: string[] }>;
      return error?.enum ?? error?.const ?? [];
    });
    expect(new Set(ofSchemas)).toEqual(new Set(codes.filter((code) => code !== other)));
    expect(text).not.toContain(other);
  });

  test('has named and complete schemas, without what generators of clients cannot read', () => {
    const problems = (json: unknown) => [...whatGeneratorsLose(json)];
    expect(problems(JSON.parse(text))).toEqual([]);
    const { Values, Healthy } = document.components.schemas;
    const inline = { 'application/json': { schema: Healthy } };
    const canaries = [
      { a: { $ref: '#/components/schemas/Healthy', description: 'b' } },
      { oneOf: [Values, Healthy] },
      { a: { type: 'object', properties: { b: { type: 'object', properties: {} } } } },
      { content: inline },
    ];
    for (const canary of canaries) expect(problems(canary)).toHaveLength(1);
  });

  test('has examples in every request and response, and they fit its schemas', () => {
    const schemas = new DocumentSchemas(document);
    let examples = 0;
    const check = (at: string[], media: { examples: object }) => {
      const isFit = schemas.at(...at, 'content', 'application/json', 'schema');
      expect(Object.keys(media.examples), at.join()).not.toEqual([]);
      for (const { value } of Object.values(media.examples)) {
        expect(isFit(value), `${at}: ${JSON.stringify(isFit.errors)}`).toBe(true);
        examples++;
      }
    };
    for (const { path, method, operation } of operationsOf(document)) {
      const body = operation.requestBody;
      if (body) check(['paths', path, method, 'requestBody'], body.content['application/json']);
      for (const status of Object.keys(operation.responses)) {
        const { response, at } = responseOf(document, path, method, status);
        check(at, response.content['application/json']);
      }
    }
    expect(examples).toBeGreaterThan(50);
  });
});

test('the linter and the schema of OpenAPI see what is wrong', async () => {
  const document = JSON.parse(documentText(settingsOf('1.0.5'), URL_OF_DEFAULTS));
  document.paths['/health'].get.operationId = 'tokenize';
  document.components.schemas.Unused = { type: 'object' };
  const problems = (await lint(JSON.stringify(document))).join('\n');
  expect(problems).toContain('operation-operationId-unique');
  expect(problems).toContain('no-unused-components');
  delete document.info.title;
  expect(isOpenApi(document)).toBe(false);
});
