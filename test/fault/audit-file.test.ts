import { execFileSync, spawnSync } from 'node:child_process';
import { appendFileSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { type FileHandle, open } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { AuditFile } from '../../src/audit/audit-file.ts';
import { withoutLink } from '../support/audit.ts';
import { testKeyring } from '../support/keys.ts';

const MINUTE_MS = 60_000;
const AUDIT_FILE = new URL('../../dist/audit/audit-file.js', import.meta.url).href;
const keyring = testKeyring();
let folder: string;
let path: string;
let file: AuditFile;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'standin-audit-'));
  path = join(folder, 'audit.log');
  file = new AuditFile(path, (last, line) => keyring.auditMac(last, line));
});
afterEach(async () => {
  await file.close();
  rmSync(folder, { recursive: true });
});

const linesOf = (count: number) => Array.from({ length: count }, (_, i) => `{"line":${i}}\n`);
const append = (lines: readonly string[], timeoutMs = MINUTE_MS) =>
  file.append(lines, performance.now() + timeoutMs);

/** Text of the file without links. */
const plain = (text: string) => text.split('\n').map(withoutLink).join('\n');

test('more lines than go in one write are all there, in order', async () => {
  const lines = linesOf(20_000);
  expect(await append(lines)).toEqual({ lines: 20_000, failure: undefined });
  expect(plain(readFileSync(path, 'utf8'))).toBe(lines.join(''));
});

test('a line longer than a write is written', async () => {
  const line = `{"long":"${'x'.repeat(200_000)}"}\n`;
  expect(await append([line, line])).toEqual({ lines: 2, failure: undefined });
  expect(plain(readFileSync(path, 'utf8'))).toBe(line + line);
});

test('nothing is begun after the deadline', async () => {
  expect(await append(linesOf(1), -1)).toEqual({ lines: 0, failure: 'ETIMEDOUT' });
  expect(await append(linesOf(1))).toEqual({ lines: 1, failure: undefined });
  expect(plain(readFileSync(path, 'utf8'))).toBe('{"line":0}\n');
});

test('half a line at the end, of a process that was killed, stays alone', async () => {
  appendFileSync(path, '{"ha');
  await append(linesOf(2));
  expect(plain(readFileSync(path, 'utf8'))).toBe('{"ha\n{"line":0}\n{"line":1}\n');
});

/** A size no file may go beyond, as a disk that is full; it holds for the process. */
const canLimit = spawnSync('prlimit', ['--version']).status === 0;

test.skipIf(!canLimit)(
  'a write behind half a line that is cut short counts whole lines of its own alone',
  async () => {
    const program = `
      import { AuditFile } from ${JSON.stringify(AUDIT_FILE)};
      process.on('SIGXFSZ', () => {});
      const lines = ['{"line":0}\\n', '{"line":1}\\n'];
      const file = new AuditFile(${JSON.stringify(path)}, () => 'A'.repeat(22));
      const appended = await file.append(lines, performance.now() + ${MINUTE_MS});
      console.log(JSON.stringify({ ...appended, head: file.head.sequence }));
    `;
    const half = '{"ha';
    const place = JSON.stringify({ line: 0, file: path, size: half.length, after: '' });
    const link = JSON.stringify({ chain: '0'.repeat(16), seq: 1, mac: 'A'.repeat(22) });
    // A line feed, the first line with a comma instead of two braces, and half of the second.
    const room = half.length + 1 + `${place}${link}`.length + 5;
    appendFileSync(path, half);
    const command = [`--fsize=${room}`, process.execPath, '--input-type=module', '-e', program];
    const { stdout } = spawnSync('prlimit', command, { encoding: 'utf8' });
    // The chain goes on from the last line that is there.
    expect(JSON.parse(stdout)).toEqual({ lines: 1, failure: 'EFBIG', head: 1 });
    expect(plain(readFileSync(path, 'utf8'))).toBe('{"ha\n{"line":0}\n{"lin');
  },
);

const hasPipes = spawnSync('mkfifo', ['--version']).status === 0;

describe.skipIf(!hasPipes)('a pipe that is full', () => {
  let reader: FileHandle;
  beforeEach(async () => {
    execFileSync('mkfifo', [path]);
    unread = '';
    // For both: so that opening waits for nobody.
    reader = await open(path, 'r+');
  });
  afterEach(() => reader.close());

  let unread = '';
  /** The next lines of the pipe, which have to be there or to come, without their links. */
  async function read(count: number): Promise<string> {
    const chunk = Buffer.alloc(65_536);
    while (unread.split('\n').length <= count)
      unread += chunk.toString('latin1', 0, (await reader.read(chunk, 0)).bytesRead);
    const lines = unread.split('\n');
    unread = lines.slice(count).join('\n');
    return plain(`${lines.slice(0, count).join('\n')}\n`);
  }

  test('is waited for, and every line is in it once', async () => {
    const lines = linesOf(20_000);
    const appended = append(lines);
    const first = await read(1);
    // A pipe holds 64 KiB: the rest can come only when it is waited for.
    const early = await Promise.race([appended, new Promise((resolve) => setImmediate(resolve))]);
    expect(early).toBeUndefined();
    expect(first + (await read(lines.length - 1))).toBe(lines.join(''));
    expect(await appended).toEqual({ lines: 20_000, failure: undefined });
  });

  test('is given up at the deadline, after whole lines', async () => {
    const lines = linesOf(20_000);
    const { lines: count, failure } = await append(lines, 200);
    expect(failure).toBe('ETIMEDOUT');
    expect(count).toBeGreaterThan(0);
    expect(await read(count)).toBe(lines.slice(0, count).join(''));
  });
});
