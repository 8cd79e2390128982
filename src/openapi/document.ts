import type { DocumentSettings } from './errors.ts';
import { introduction } from './introduction.ts';
import { type Operation, pathsOf } from './operations.ts';
import { errorResponses, HEADERS, type Response } from './responses.ts';
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
  readonly paths: Readonly<Record<string, Readonly<Record<string, Operation>>>>;
  readonly components: {
    readonly securitySchemes: Schema;
    readonly headers: typeof HEADERS;
    readonly responses: Readonly<Record<string, Response>>;
    readonly schemas: Readonly<Record<string, Schema>>;
  };
}

/** The OpenAPI document of a service that listens on `url`: JSON as plain data. */
export function openApiDocument(settings: DocumentSettings, url: string): OpenApiDocument {
  return {
    openapi: '3.1.0',
    info: {
      title: 'Standin',
      version: settings.INTERFACE_VERSION,
      summary: 'Tokens that keep the shape of the strings they stand for',
      description: introduction(settings),
      license: { name: 'Apache License 2.0', identifier: 'Apache-2.0' },
    },
    servers: [{ url, description: 'Where the service listens; a proxy may be before it.' }],
    tags: [
      { name: 'Vault', description: 'Values to tokens and back.' },
      { name: 'Text', description: 'Values in running text to tokens and back.' },
      { name: 'Health', description: 'For probes and load balancers.' },
    ],
    paths: pathsOf(settings),
    components: {
      securitySchemes: {
        apiKey: {
          type: 'http',
          scheme: 'bearer',
          description:
            'An API key of a client: `stk_` and 34 letters and digits. `standin client create` and `standin api-key issue` make one, which is shown once.',
        },
      },
      headers: HEADERS,
      responses: errorResponses(settings),
      schemas: schemasOf(settings),
    },
  };
}

/** The document as text, as it is shown, printed and kept in docs/openapi.json. */
export function documentText(settings: DocumentSettings, url: string): string {
  return `${JSON.stringify(openApiDocument(settings, url), null, 2)}\n`;
}
