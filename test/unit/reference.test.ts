import { readFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import type { OpenApiDocument } from '../../src/openapi/document.ts';
import { referenceHtml } from '../../src/openapi/reference.ts';

const written = readFileSync(new URL('../../docs/openapi.json', import.meta.url), 'utf8');
const documentOf = (text: string) => JSON.parse(text) as OpenApiDocument;

test('the page has every operation, no script, and nothing from elsewhere', () => {
  const page = referenceHtml(documentOf(written));
  expect(page).not.toMatch(/<script|\son\w+=|style=|javascript:|<img|<iframe/i);
  const addresses = [...page.matchAll(/(?:href|src)="([^"]*)"/g)].map(([, address]) => address!);
  const inner = addresses.filter((address) => address.startsWith('#'));
  const outer = addresses.filter((address) => !address.startsWith('#'));
  expect(outer).toEqual(['/openapi.json']);
  const ids = [...page.matchAll(/ id="([^"]*)"/g)].map(([, id]) => `#${id}`);
  expect(ids).toHaveLength(new Set(ids).size);
  expect(ids).toEqual(expect.arrayContaining(inner));
  const operations = Object.entries(documentOf(written).paths);
  expect(operations).toHaveLength(8);
  for (const [path, methods] of operations) {
    expect(page).toContain(path);
    for (const { summary } of Object.values(methods)) expect(page).toContain(summary);
  }
  expect(page).not.toMatch(/undefined|\[object/);
});

test('the page escapes every text of the document', () => {
  const hostile = 'http://a/"><script>&\'';
  const page = referenceHtml(
    documentOf(
      written.replaceAll('http://127.0.0.1:8080', () => JSON.stringify(hostile).slice(1, -1)),
    ),
  );
  expect(page).toContain('http://a/&quot;&gt;&lt;script&gt;&amp;&#39;');
  expect(page).not.toContain('<script>');
});
