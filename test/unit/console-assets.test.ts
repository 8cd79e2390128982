import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { afterAll, expect, test } from 'vitest';
import { readAssets } from '../../src/ops/console/routes.ts';

const folder = mkdtempSync(join(tmpdir(), 'standin-assets-'));
afterAll(() => rmSync(folder, { recursive: true }));
const url = pathToFileURL(`${folder}/`);

test('the files of the page are those of its folder that a browser uses, and of uPlot', () => {
  for (const name of ['index.html', 'main.js', 'console.css', 'main.js.map', 'main.d.ts', 'key'])
    writeFileSync(join(folder, name), name);
  mkdirSync(join(folder, 'folder'));
  const assets = readAssets(url);
  expect([...assets.keys()].toSorted()).toEqual([
    '/',
    '/assets/console.css',
    '/assets/main.js',
    '/assets/uplot.css',
    '/assets/uplot.js',
  ]);
  expect(assets.get('/')).toMatchObject({
    content_type: 'text/html; charset=utf-8',
    body: Buffer.from('index.html'),
    isOpen: true,
  });
  expect(assets.get('/assets/uplot.js')!.body.toString()).toContain('export { uPlot as default }');
});

test('without a page there is none', () => {
  expect(readAssets(new URL('nowhere/', url)).size).toBe(0);
});
