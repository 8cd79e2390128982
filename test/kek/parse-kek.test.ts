import { readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { describe, expect, test } from 'vitest';
import { kekFile } from '../../src/kek/file.ts';
import { parseKek } from '../../src/kek/source.ts';
import { folderOfEachTest } from '../support/folder.ts';

const inFolder = folderOfEachTest('kek');

test('a new KEK file has 32 bytes in hex that nobody else can read; what is there stays, and no draft', async () => {
  const path = inFolder('kek');
  // Of a process that ended before it had written it.
  writeFileSync(`${path}.${process.pid}`, 'half');
  const source = kekFile(path, true);
  await source.create!();
  const text = readFileSync(path, 'utf8');
  expect(text).toMatch(/^[0-9a-f]{64}\n$/);
  expect(statSync(path).mode & 0o777).toBe(0o600);
  await source.create!();
  expect([readFileSync(path, 'utf8'), readdirSync(inFolder('.'))]).toEqual([text, ['kek']]);
  await expect(kekFile(`${path}/a`, true).create!()).rejects.toThrow(
    `written to ${path}/a (ENOTDIR)`,
  );
  expect(kekFile(path, false).create).toBeUndefined();
});

describe('the content of a KEK file', () => {
  const bytes = Buffer.from(Array.from({ length: 32 }, (_, i) => 255 - i));
  const hex = bytes.toString('hex');

  test.each([
    ['32 raw bytes', bytes],
    ['64 hex digits', Buffer.from(hex)],
    ['64 capital hex digits', Buffer.from(hex.toUpperCase())],
    ['hex digits and a line end', Buffer.from(`${hex}\n`)],
    ['hex digits and a DOS line end', Buffer.from(`${hex}\r\n`)],
    ['hex digits with white space around', Buffer.from(`\n\t ${hex} \n`)],
  ])('may be %s', (_, content) => {
    expect(parseKek(content)).toEqual(bytes);
  });

  test('may be 32 raw bytes that begin or end in white space', () => {
    const spaced = Buffer.concat([Buffer.from(' \n'), bytes.subarray(0, 28), Buffer.from('\n ')]);
    expect(parseKek(spaced)).toEqual(spaced);
  });

  test.each([
    ['nothing', ''],
    ['31 bytes', 'x'.repeat(31)],
    ['33 bytes', 'x'.repeat(33)],
    ['64 characters that are not all hex digits', `${hex.slice(1)}g`],
    ['63 hex digits', hex.slice(1)],
    ['65 hex digits', `${hex}0`],
    ['hex digits with white space between', `${hex.slice(0, 32)} ${hex.slice(32)}`],
    ['hex digits after 0x', `0x${hex}`],
    ['base64', bytes.toString('base64')],
  ])('may not be %s', (_, content) => {
    expect(parseKek(Buffer.from(content))).toBeUndefined();
  });
});
