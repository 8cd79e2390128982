import type { DocumentSettings } from './errors.ts';
import { introduction } from './introduction.ts';
import { type PathOperation, pathsOf } from './operations.ts';
import { errorResponses, HEADERS, type Header, type Response } from './responses.ts';
import { type Schema, schemasOf } from './schemas.ts';

export interface OpenApiDocument {
  readonly openapi: '3.1.0';
  readonly info: {
    readonly title: string;
    readonly version: string;
    readonly summary: string;
    readonly description: string;
    readonly license: { readonly name: string; readonly identifier: string };
  };
  readonly servers: readonly { readonly url: string; readonly description: string }[];
  readonly tags: readonly { readonly name: string; readonly description: string }[];
  readonly paths: Readonly<Record<string, Readonly<Record<string, PathOperation>>>>;
  readonly components: {
    readonly securitySchemes: Schema;
    readonly headers: Readonly<Record<string, Header>>;
    readonly responses: Readonly<Record<string, Response>>;
    readonly schemas: Readonly<Record<string, Schema>>;
  };
}

type Words = Readonly<Record<string, string>>;
type Info = Omit<OpenApiDocument['info'], 'license'>;
interface Content extends Info, Pick<OpenApiDocument, 'paths'> {
  readonly server: OpenApiDocument['servers'][number];
  /** Descriptions by name. */
  readonly tags: Words;
  readonly bearers: Words;
  readonly components: Omit<OpenApiDocument['components'], 'securitySchemes'>;
}

/** An OpenAPI document of the service: JSON as plain data. */
export function documentOf(content: Content): OpenApiDocument {
  const { server, tags, bearers, paths, components, ...info } = content;
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

/** The document of the public listener. */
export function openApiDocument(settings: DocumentSettings, url: string): OpenApiDocument {
  return documentOf({
    title: 'Standin',
    version: settings.INTERFACE_VERSION,
    summary: 'Tokens that keep the shape of the strings they stand for',
    description: introduction(settings),
    server: { url, description: 'Where the service listens; a proxy may be before it.' },
    tags: {
      Vault: 'Values to tokens and back.',
      Text: 'Values in running text to tokens and back.',
      Health: 'For probes and load balancers.',
    },
    paths: pathsOf(settings),
    bearers: {
      apiKey:
        'An API key of a client: `stk_` and 34 letters and digits. `standin client create` and `standin api-key issue` make one, which is shown once.',
    },
    components: {
      ...{ headers: HEADERS, responses: errorResponses(settings), schemas: schemasOf(settings) },
    },
  });
}

/** The document as text, as it is shown, printed and kept in docs/openapi.json. */
export function documentText(settings: DocumentSettings, url: string): string {
  return `${JSON.stringify(openApiDocument(settings, url), null, 2)}\n`;
}
