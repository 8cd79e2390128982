import { createConfig, lintFromString } from '@redocly/openapi-core';
import { Ajv2020 } from 'ajv/dist/2020.js';
import { readText } from './docs.ts';

/** Places of schemas that generators drop, or give a name like InlineObject1. */
export function* whatGeneratorsLose(json: unknown, at = ''): Generator<string> {
  if (typeof json !== 'object' || json === null) return;
  const part = json as Record<string, any>;
  if ('$ref' in part && Object.keys(part).length > 1) yield `${at}: beside a reference`;
  if ('oneOf' in part || 'anyOf' in part || 'allOf' in part) yield `${at}: several schemas in one`;
  for (const [name, schema] of Object.entries(part.properties ?? {}))
    if ('properties' in (schema as object)) yield `${at}/${name}: no name`;
  const media = part['application/json'];
  if (media !== undefined && !('$ref' in media.schema)) yield `${at}: no name`;
  for (const [name, inner] of Object.entries(part))
    if (name !== 'examples') yield* whatGeneratorsLose(inner, `${at}/${name}`);
}

/** The warnings of a linter of OpenAPI. */
export async function lint(text: string): Promise<string[]> {
  const config = await createConfig({ extends: ['recommended'] });
  const problems = await lintFromString({ source: text, config, absoluteRef: 'openapi.json' });
  return problems.map(({ ruleId, message }) => `${ruleId}: ${message}`);
}

// Ajv takes this reference for one to the whole; without another dialect, it means that.
const metaSchema = JSON.parse(
  readText('test/vectors/openapi-3.1.json').replaceAll(
    '"$dynamicRef": "#meta"',
    '"$ref": "#/$defs/schema"',
  ),
);
export const isOpenApi = new Ajv2020({ strict: false, validateFormats: false }).compile(metaSchema);
