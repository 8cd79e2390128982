import type { OpsPage } from '../../ops/server.ts';
import { openApiDocument } from './document.ts';
import { referencePage } from './reference.ts';
import { STYLE } from './style.ts';
import type { DocumentSettings } from './text.ts';

/** What the ops listener shows of the interface, by path. */
export function apiPages(settings: DocumentSettings, url: string): Record<string, OpsPage> {
  const page = (type: string, body: string): OpsPage => ({
    content_type: `${type}; charset=utf-8`,
    body,
  });
  return {
    '/openapi.json': page('application/json', documentText(settings, url)),
    '/reference': page('text/html', referencePage(openApiDocument(settings, url))),
    '/reference.css': page('text/css', STYLE),
  };
}

/** The document as it is shown, printed and kept in docs/openapi.json. */
export function documentText(settings: DocumentSettings, url: string): string {
  return `${JSON.stringify(openApiDocument(settings, url), null, 2)}\n`;
}
