import { expect, test } from 'vitest';
import { SETTINGS } from '../../src/config/settings.ts';
import { CALLER_ERRORS } from '../../src/errors.ts';
import { ADMIN_ERRORS } from '../../src/ops/admin/errors.ts';
import { adminDocumentOf, adminDocumentText } from '../../src/ops/admin/openapi.ts';
import { adminRoutes } from '../../src/ops/admin/routes.ts';
import { DocumentSchemas, readText, table } from '../support/docs.ts';
import { isOpenApi, lint, whatGeneratorsLose } from '../support/openapi.ts';

const ADDRESS = {
  OPS_HOST: SETTINGS.OPS_HOST.default,
  OPS_PORT: Number(SETTINGS.OPS_PORT.default),
  OPS_TLS: false,
};
const document = adminDocumentOf(ADDRESS);
const text = adminDocumentText(ADDRESS);
const operations = Object.entries(document.paths).flatMap(([path, methods]) =>
  Object.entries(methods).map(([method, operation]) => ({
    path,
    method,
    operation: operation as any,
  })),
);

test('docs/admin-openapi.json is the document with the defaults', () => {
  expect(readText('docs/admin-openapi.json')).toBe(text);
});

test('the document has nothing that a linter of OpenAPI warns of, and is OpenAPI 3.1', async () => {
  expect(await lint(text)).toEqual([]);
  expect(isOpenApi(JSON.parse(text)), JSON.stringify(isOpenApi.errors)).toBe(true);
});

test('it has named and complete schemas, without what generators of clients cannot read', () => {
  expect([...whatGeneratorsLose(JSON.parse(text))]).toEqual([]);
});

test('it has the paths and methods of the service', () => {
  const written = operations.map(({ path, method }) => `${method.toUpperCase()} ${path}`);
  // Only its paths are asked for.
  const served = Object.entries(adminRoutes({} as never)).flatMap(([path, methods]) =>
    Object.keys(methods).map((method) => `${method} /admin/v1${path}`),
  );
  expect(written.toSorted()).toEqual(served.toSorted());
});

test('it has every error of the table, and the page those that only it has', () => {
  const statuses = new Set(operations.flatMap(({ operation }) => Object.keys(operation.responses)));
  const known = Object.values(ADMIN_ERRORS).map(({ status }) => String(status));
  expect([...statuses].toSorted()).toEqual([...new Set(['200', '201', ...known])].toSorted());
  expect((document.components.schemas.Refusal as any).properties.error.enum).toEqual(
    Object.keys(ADMIN_ERRORS),
  );
  // The document leaves those to errors.md that the public listener has, too.
  const own = Object.entries(ADMIN_ERRORS).filter(
    ([code]) => !(code in CALLER_ERRORS) && code !== 'internal_error',
  );
  expect(table('docs/operating/admin-api.md', ['Status', '`error`', 'When'])).toEqual(
    own.map(([code, { status, when }]) => [String(status), code, when]),
  );
});

test('its examples fit its schemas', () => {
  const schemas = new DocumentSchemas(document);
  let examples = 0;
  const check = (at: readonly string[], content: any) => {
    const { examples: all } = content['application/json'];
    const isFit = schemas.at(...at, 'content', 'application/json', 'schema');
    expect(Object.keys(all), at.join()).not.toEqual([]);
    for (const { value } of Object.values<any>(all)) {
      expect(isFit(value), `${at}: ${JSON.stringify(isFit.errors)}`).toBe(true);
      examples++;
    }
  };
  for (const { path, method, operation } of operations) {
    const at = ['paths', path, method];
    if (operation.requestBody) check([...at, 'requestBody'], operation.requestBody.content);
    for (const [status, response] of Object.entries<any>(operation.responses)) {
      if (!('$ref' in response)) check([...at, 'responses', status], response.content);
    }
  }
  for (const [name, response] of Object.entries<any>(document.components.responses as object))
    check(['components', 'responses', name], response.content);
  expect(examples).toBeGreaterThan(40);
});
