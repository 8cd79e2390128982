import { readdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { formatFor } from '../../src/commands/bulk-options.ts';
import { tableText } from '../../src/commands/command.ts';
import { openParts } from '../../src/commands/export-parts.ts';
import { readText } from '../../src/commands/text-file.ts';
import { openIn } from '../support/audit.ts';
import { folderOfEachTest } from '../support/folder.ts';
import { until } from '../support/service.ts';

const pathOf = folderOfEachTest('files');

test.each([
  ['a file of the most bytes', '0123456789', '0123456789'],
  ['a file whose last character is cut', '012345678\xe9', undefined],
  ['a file of 3 bytes more', `${'0'.repeat(12)}\xe9`, undefined],
  ['a character that is cut behind them', `${'0'.repeat(13)}\xe9`, '0'.repeat(13)],
])('of %s no more is read than tells that it is too long', async (_, content, text) => {
  writeFileSync(pathOf('file'), content, 'latin1');
  const read = await readText(pathOf('file'), 10).catch(({ message }) => message);
  expect(read).toEqual(text ?? expect.stringContaining('is not UTF-8'));
});

test('a long file is not read to its end, and is closed', async () => {
  writeFileSync(pathOf('long'), 'x'.repeat(2 ** 20));
  expect((await readText(pathOf('long'), 9)).length).toBeLessThan(2 ** 20);
  await until(() => openIn(pathOf('.')).length === 0, 'the file is closed');
});

test('a part of an export has its name when it is whole; one that is given up leaves nothing', async () => {
  const folder = pathOf('pairs');
  const begin = (isResume: boolean) => openParts(folder, {}, undefined, isResume);
  const parts = await begin(false);
  await parts.write('a\n', 1, 1);
  expect(parts.pending).toBe(1);
  await parts.complete('0f');
  expect(parts.manifest).toMatchObject({ pairs: 1, without_token: 1, is_complete: false });
  await parts.write('b\n', 2, 0);
  const now = ['manifest.json', 'manifest.json.lock', 'pairs-0001.ndjson'];
  const lock = join(folder, now[1]!);
  expect(readdirSync(folder)).toEqual([...now, 'pairs-0002.ndjson.partial']);
  await parts.close();
  expect([readdirSync(folder), openIn(folder)]).toEqual([now, [lock]]);
});

test.each([
  ['a.csv', {}, 'csv'],
  ['A.TSV.GZ', { delimiter: ',' }, 'tsv'],
  ['a.jsonl', {}, 'ndjson'],
  ['a.xlsx', { format: 'json' }, 'json'],
  ['a.json', { header: false }, /leave them out/],
  ['a.ndjson', { delimiter: ',' }, /leave them out/],
  ['a.pdf', {}, /^a.pdf is not a text file/],
  ['-', {}, /^Standard input does not show/],
  ['a', {}, /^a does not show/],
] as const)('the format of %s with %j', (path, options, format) => {
  const found = () => formatFor(path, { header: true, ...options });
  if (typeof format === 'string') expect(found()).toBe(format);
  else expect(found).toThrow(format);
});

test.each([
  [undefined, 'A  B\n1  wide cell'],
  [12, 'A  B\n1  wide cell'],
  [11, 'A  1\nB  wide cell'],
])('in %s columns a list with a row of 12 is a table, else a block a row', (columns, text) => {
  const { columns: before } = process.stdout;
  process.stdout.columns = columns as number;
  expect(tableText({ headings: ['A', 'B'], rows: [['1', 'wide cell']] })).toBe(text);
  process.stdout.columns = before;
});
