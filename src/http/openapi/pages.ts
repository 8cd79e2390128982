import { openApiDocument } from './document.ts';
import { referencePage } from './reference.ts';
import { STYLE } from './style.ts';
import type { DocumentSettings } from './text.ts';

/** What the ops listener shows of the interface, by path. */
export function apiPages(settings: DocumentSettings, url: string) {
  return {
    '/openapi.json': {
      content_type: 'application/json; charset=utf-8',
      body: documentText(settings, url),
    },
    '/reference': {
      content_type: 'text/html; charset=utf-8',
      body: referencePage(openApiDocument(settings, url)),
    },
    '/reference.css': { content_type: 'text/css; charset=utf-8', body: STYLE },
  };
}

/** The document as it is shown, printed and kept in docs/openapi.json. */
export function documentText(settings: DocumentSettings, url: string): string {
  return `${JSON.stringify(openApiDocument(settings, url), null, 2)}\n`;
}
