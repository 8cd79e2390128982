import { ref, type Schema } from './schemas.ts';

/** Examples by name. */
export type Examples = Readonly<
  Record<string, { readonly summary: string; readonly value: unknown }>
>;

interface Reference {
  readonly $ref: string;
}

/** A body of JSON. The admin API shows no examples. */
export type Media = ReturnType<typeof mediaOf>;
const mediaOf = (schema: string, examples?: Examples) => ({
  schema: ref(schema),
  ...(examples && { examples }),
});

export type Response = ReturnType<typeof response>;

/** @param headers besides those of every response */
export const response = (
  description: string,
  schema: string,
  examples?: Examples,
  headers: readonly string[] = [],
) => ({
  description,
  headers: Object.fromEntries(
    [...Object.keys(HEADERS_OF_ALL), ...headers].map((name) => [
      ...[name, { $ref: `#/components/headers/${name}` }],
    ]),
  ),
  content: { 'application/json': mediaOf(schema, examples) },
});

/** References to responses of the document, by status. */
export const references = (all: readonly { readonly status: number; readonly name: string }[]) =>
  Object.fromEntries(
    all.map(({ status, name }) => [status, { $ref: `#/components/responses/${name}` }]),
  );

/** A text that a request has in a header or in its path. */
export const parameter = (
  name: string,
  description: string,
  example?: string,
  place: 'header' | 'path' = 'header',
): Schema => ({
  ...{ name, in: place, description, ...(place === 'path' && { required: true }) },
  ...{ schema: { type: 'string' }, ...(example !== undefined && { example }) },
});

/** A header that such a response may have. */
export const headerAtTimes = (description: string, schema: Schema, example: unknown) => ({
  ...{ description, schema, example },
});

/** A header that every such response has. */
export const header = (...of: Parameters<typeof headerAtTimes>) => ({
  ...{ ...headerAtTimes(...of), required: true as const },
});

export const HEADERS_OF_ALL = {
  'X-Request-Id': header(
    'Identifies the request in the log of the service.',
    { type: 'string', format: 'uuid' },
    '63dc01d5-b356-45b6-8fc3-4853079f7d45',
  ),
  'Cache-Control': header(
    'Caches must not keep the answer.',
    { type: 'string', const: 'no-store' },
    'no-store',
  ),
  'X-Content-Type-Options': header(
    'The body is JSON, whatever it looks like.',
    { type: 'string', const: 'nosniff' },
    'nosniff',
  ),
};

/** Headers of answers to known clients. */
export const OF_LIMITS: readonly string[] = ['RateLimit-Policy', 'RateLimit'];

interface OperationContent {
  readonly id: string;
  readonly tag: string;
  readonly summary: string;
  readonly description: string;
  /** Its security scheme; undefined: it needs none. */
  readonly bearer?: string;
  readonly parameters?: readonly Schema[];
  readonly body?: {
    readonly schema: string;
    readonly description: string;
    readonly isOptional?: boolean | undefined;
    readonly examples?: Examples;
  };
  readonly responses: Readonly<Record<string, Response | Reference>>;
}

export type PathOperation = ReturnType<typeof operationOf>;
export function operationOf({ id, tag, bearer, parameters = [], body, ...of }: OperationContent) {
  return {
    ...{ operationId: id, tags: [tag], summary: of.summary, description: of.description },
    security: bearer === undefined ? [] : [{ [bearer]: [] }],
    ...(parameters.length > 0 && { parameters }),
    ...(body && {
      requestBody: {
        ...{ description: body.description, required: !body.isOptional },
        content: { 'application/json': mediaOf(body.schema, body.examples) },
      },
    }),
    responses: of.responses,
  };
}

type Words = Readonly<Record<string, string>>;
interface Content {
  readonly info: Readonly<Record<'title' | 'version' | 'summary' | 'description', string>>;
  readonly server: { readonly url: string; readonly description: string };
  /** Descriptions by name. */
  readonly tags: Words;
  readonly bearers: Words;
  readonly paths: Readonly<Record<string, Readonly<Record<string, PathOperation>>>>;
  readonly components: {
    readonly headers: Readonly<Record<string, Schema>>;
    readonly responses: Readonly<Record<string, Response>>;
    readonly schemas: Readonly<Record<string, Schema>>;
  };
}

/** An OpenAPI document of the service: JSON as plain data. */
export type OpenApiDocument = ReturnType<typeof documentOf>;
export function documentOf({ info, server, tags, bearers, paths, components }: Content) {
  const schemes = Object.entries(bearers).map(([name, description]) => [
    ...[name, { type: 'http', scheme: 'bearer', description }],
  ]);
  return {
    openapi: '3.1.0',
    info: { ...info, license: { name: 'Apache License 2.0', identifier: 'Apache-2.0' } },
    servers: [server],
    tags: Object.entries(tags).map(([name, description]) => ({ name, description })),
    paths,
    components: { securitySchemes: Object.fromEntries(schemes), ...components },
  };
}

/** The document as text, as it is shown, printed and kept in docs/. */
export const textOf = (document: OpenApiDocument): string =>
  `${JSON.stringify(document, null, 2)}\n`;
