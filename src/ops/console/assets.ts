import { createHash } from 'node:crypto';
import { readdirSync, readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import type { OpsPage } from '../server.ts';

/** The built page. The path holds for src/ and for dist/. */
const FOLDER = new URL('../../../dist/console/', import.meta.url);
const CONTENT_TYPES: Readonly<Record<string, string>> = {
  html: 'text/html; charset=utf-8',
  js: 'text/javascript; charset=utf-8',
  css: 'text/css; charset=utf-8',
  svg: 'image/svg+xml',
  png: 'image/png',
};

/**
 * Reads all files of the console once, by path. The listener serves no other file. Empty if the
 * page was not built.
 */
export function readAssets(folder = FOLDER): Map<string, OpsPage> {
  const assets = new Map<string, OpsPage>();
  for (const name of namesIn(folder)) {
    const contentType = CONTENT_TYPES[name.slice(name.lastIndexOf('.') + 1)];
    if (contentType === undefined) continue;
    const path = name === 'index.html' ? '/' : `/assets/${name}`;
    assets.set(path, asset(contentType, new URL(name, folder)));
  }
  if (assets.size === 0) return assets;
  const require = createRequire(import.meta.url);
  assets.set(
    '/assets/uplot.js',
    asset(CONTENT_TYPES.js!, require.resolve('uplot/dist/uPlot.esm.js')),
  );
  assets.set(
    '/assets/uplot.css',
    asset(CONTENT_TYPES.css!, require.resolve('uplot/dist/uPlot.min.css')),
  );
  return assets;
}

function namesIn(folder: URL): string[] {
  try {
    return readdirSync(folder);
  } catch {
    return [];
  }
}

function asset(contentType: string, file: URL | string): OpsPage {
  const body = readFileSync(file);
  const etag = `"${createHash('sha256').update(body).digest('base64url')}"`;
  return { content_type: contentType, body, etag, isOpen: true };
}
