import { expect, test } from 'vitest';
import { SETTINGS } from '../../src/config/settings.ts';
import { CALLER_ERRORS } from '../../src/errors.ts';
import { adminDocumentOf, adminDocumentText } from '../../src/ops/admin/document.ts';
import { ADMIN_ERRORS } from '../../src/ops/errors.ts';
import { DocumentSchemas, readText, table } from '../support/docs.ts';
import { isOpenApi, lint, whatGeneratorsLose } from '../support/openapi.ts';

const ADDRESS = {
  OPS_HOST: SETTINGS.OPS_HOST.default,
  OPS_PORT: Number(SETTINGS.OPS_PORT.default),
  OPS_TLS: false,
};
const document = adminDocumentOf(ADDRESS);
const text = adminDocumentText(ADDRESS);

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

test('it has every error of the table, and the page those that only it has', () => {
  const operations = Object.values(document.paths).flatMap((one) => Object.values<any>(one));
  const statuses = new Set(operations.flatMap(({ responses }) => Object.keys(responses)));
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

test('its examples fit their schemas', () => {
  const schemas = new DocumentSchemas(document);
  let examples = 0;
  const check = (schema: any, at: readonly string[]): void => {
    for (const example of schema.examples ?? []) {
      const isFit = schemas.at(...at);
      expect(isFit(example), `${at}: ${JSON.stringify(isFit.errors)}`).toBe(true);
      examples++;
    }
    for (const [name, property] of Object.entries(schema.properties ?? {}))
      check(property, [...at, 'properties', name]);
    if (schema.items) check(schema.items, [...at, 'items']);
  };
  for (const [name, schema] of Object.entries(document.components.schemas))
    check(schema, ['components', 'schemas', name]);
  expect(examples).toBeGreaterThan(30);
});
