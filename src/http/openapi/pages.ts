import { type OpenApiDocument, openApiDocument } from './document.ts';
import { referencePage } from './reference.ts';
import { STYLE } from './style.ts';
import type { DocumentSettings } from './text.ts';

interface ApiPage {
  readonly content_type: string;
  readonly body: string;
}

/** The pages of the ops listener about the interface, by path. */
export function apiPages(settings: DocumentSettings, url: string): Record<string, ApiPage> {
  const page = (type: string, body: string): ApiPage => ({
    content_type: `${type}; charset=utf-8`,
    body,
  });
  const document = openApiDocument(settings, url);
  return {
    '/openapi.json': page('application/json', textOf(document)),
    '/reference': page('text/html', referencePage(document)),
    '/reference.css': page('text/css', STYLE),
  };
}

/** The document as text, as it is shown, printed and kept in docs/openapi.json. */
export function documentText(settings: DocumentSettings, url: string): string {
  return textOf(openApiDocument(settings, url));
}

function textOf(document: OpenApiDocument): string {
  return `${JSON.stringify(document, null, 2)}\n`;
}
