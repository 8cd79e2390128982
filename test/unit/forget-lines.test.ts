import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { type Line, tokenLines } from '../../src/commands/forget-lines.ts';

let folder: string;
beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), 'standin-lines-'));
});
afterAll(() => rmSync(folder, { recursive: true, force: true }));

async function read(text: string, batchSize = 100): Promise<Line[][]> {
  const file = join(folder, 'tokens');
  writeFileSync(file, text);
  return batchesOf(file, batchSize);
}

async function batchesOf(file: string, batchSize: number): Promise<Line[][]> {
  const batches: Line[][] = [];
  for await (const batch of tokenLines(file, batchSize)) batches.push(batch);
  return batches;
}

test('a token a line, with its number; blank lines, edges, CR LF and a byte order mark are passed over', async () => {
  expect(await read('\uFEFFa_tok\r\n\r\n  kff qjs_tok \n\n\t\nb_tok')).toEqual([
    [
      { line: 1, text: 'a_tok' },
      { line: 3, text: 'kff qjs_tok' },
      { line: 6, text: 'b_tok' },
    ],
  ]);
});

test.each(['', '\n', ' \r\n\r\n'])('nothing comes of %j', async (text) => {
  expect(await read(text)).toEqual([]);
});

test('batches are full but for the last, over the pieces in which a large file is read', async () => {
  const tokens = Array.from({ length: 25_000 }, (_, i) => `token number ${i}_tok`);
  const batches = await read(`${tokens.join('\n')}\n`, 1_000);
  expect(batches.map((batch) => batch.length)).toEqual(Array(25).fill(1_000));
  expect(batches.flat()).toEqual(tokens.map((text, i) => ({ line: i + 1, text })));
});

test.each([1_001, 1_000_000])(
  'a line of %s characters is refused, by its number only',
  async (length) => {
    const failure = read(`a_tok\n\n${'x'.repeat(length)}`);
    await expect(failure).rejects.toThrow(/^Line 3 of .*tokens is longer than any token/);
  },
);

test('the longest line that could be a token is taken', async () => {
  const text = 'x'.repeat(1_000);
  expect(await read(`${text}\n${text}`)).toEqual([
    [
      { line: 1, text },
      { line: 2, text },
    ],
  ]);
});

test('a file that is not there is named, with what went wrong', async () => {
  await expect(batchesOf(join(folder, 'nothing'), 10)).rejects.toThrow(
    /nothing cannot be read \(ENOENT\)/,
  );
});
