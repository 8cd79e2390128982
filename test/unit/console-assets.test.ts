import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { afterAll, expect, test } from 'vitest';
import { readAssets } from '../../src/ops/console/routes.ts';

const folder = mkdtempSync(join(tmpdir(), 'standin-assets-'));
afterAll(() => rmSync(folder, { recursive: true }));
const url = pathToFileURL(`${folder}/`);

test('the files of the page are those of its folder that a browser uses, and of the packages that it uses', () => {
  for (const name of ['index.html', 'main.js', 'console.css', 'main.js.map', 'main.d.ts', 'key'])
    writeFileSync(join(folder, name), name);
  writeFileSync(join(folder, 'main.js'), 'import { render } from "preact";');
  mkdirSync(join(folder, 'folder'));
  const assets = readAssets(url);
  expect([...assets.keys()].toSorted()).toEqual([
    '/',
    '/assets/client/path.js',
    '/assets/console.css',
    '/assets/main.js',
    '/assets/paths/json-text.js',
    '/assets/preact.js',
    '/assets/preact/hooks.js',
    '/assets/preact/jsx-runtime.js',
    '/assets/uplot.css',
    '/assets/uplot.js',
  ]);
  expect(assets.get('/')).toMatchObject({
    content_type: 'text/html; charset=utf-8',
    body: Buffer.from('index.html'),
    isOpen: true,
  });
  const text = (name: string) => assets.get(`/assets/${name}`)!.body.toString();
  expect(text('uplot.js')).toContain('export { uPlot as default }');
  // A browser finds packages at paths only.
  expect(text('main.js')).toBe('import { render } from "/assets/preact.js";');
  expect(text('preact/hooks.js')).toContain('from "/assets/preact.js"');
});

test('without a page there is none', () => {
  expect(readAssets(new URL('nowhere/', url)).size).toBe(0);
});
