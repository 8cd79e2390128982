import { execFileSync, spawnSync } from 'node:child_process';
import { mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { type FileHandle, open } from 'node:fs/promises';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, onTestFinished, test, vi } from 'vitest';
import { AuditFile } from '../../src/audit/audit-file.ts';
import { type AuditEntry, AuditLog } from '../../src/audit/audit-log.ts';
import { withoutLink } from '../support/audit.ts';
import { folderOfEachTest } from '../support/folder.ts';
import { testKeyring } from '../support/keys.ts';

const MINUTE_MS = 60_000;
const CALM_MS = 1_000;
const keyring = testKeyring();
const inFolder = folderOfEachTest('audit');
const hasPipes = spawnSync('mkfifo', ['--version']).status === 0;

/** A pipe that is open for both, so that it has a reader, which reads later. */
async function newPipe(path: string): Promise<FileHandle> {
  execFileSync('mkfifo', [path]);
  const reader = await open(path, 'r+');
  onTestFinished(() => reader.close());
  return reader;
}

describe('an audit file', () => {
  const AUDIT_FILE = new URL('../../dist/audit/audit-file.js', import.meta.url).href;
  let path: string;
  let file: AuditFile;
  beforeEach(() => {
    path = inFolder('audit.log');
    file = new AuditFile(path, (last, line) => keyring.auditMac(last, line));
  });
  afterEach(() => file.close());

  const linesOf = (count: number) => Array.from({ length: count }, (_, i) => `{"line":${i}}\n`);
  const lineOf = (bytes: number) => `{"long":"${'x'.repeat(bytes - 12)}"}\n`;
  const append = (lines: readonly string[], timeoutMs = MINUTE_MS) =>
    file.append(lines, performance.now() + timeoutMs);
  /** Text without links. */
  const plain = (text: string) => text.split('\n').map(withoutLink).join('\n');
  const written = () => plain(readFileSync(path, 'utf8'));

  test.each([
    ['more lines than go in one write', linesOf(20_000)],
    ['lines that fit only without their links', ['{}\n', ...[65_450, 65_400].map(lineOf)]],
    ['lines longer than a write', Array<string>(2).fill(lineOf(200_000))],
  ])('%s are all there, in order', async (_, lines) => {
    expect(await append(lines)).toEqual({ lines: lines.length, failure: undefined });
    expect(written()).toBe(lines.join(''));
  });

  test('nothing is begun after the deadline', async () => {
    expect(await append(linesOf(1), -1)).toEqual({ lines: 0, failure: 'ETIMEDOUT' });
    expect(await append(linesOf(1))).toEqual({ lines: 1, failure: undefined });
    expect(written()).toBe('{"line":0}\n');
  });

  /** A size no file may go beyond, as a disk that is full; it holds for the process. */
  const canLimit = spawnSync('prlimit', ['--version']).status === 0;

  test.skipIf(!canLimit)(
    'a write that is cut short, also one behind half a line, counts whole lines of its own alone, of which there may be none',
    async () => {
      const program = `
        import { AuditFile } from ${JSON.stringify(AUDIT_FILE)};
        process.on('SIGXFSZ', () => {});
        const lines = ['{"line":0}\\n', '{"line":1}\\n'];
        const file = new AuditFile(${JSON.stringify(path)}, () => 'A'.repeat(22));
        const appended = await file.append(lines, performance.now() + ${MINUTE_MS});
        console.log(JSON.stringify({ ...appended, head: file.head.sequence }));
      `;
      const link = JSON.stringify({ chain: '0'.repeat(16), seq: 1, mac: 'A'.repeat(22) });
      for (const [half, whole, failure, left] of [
        ['{"ha\n', 0, 'ENOSPC', '{"lin'],
        ['{"ha\n', 1, 'EFBIG', '{"line":0}\n{"lin'],
        ['', 1, 'EFBIG', '{"line":0}\n{"lin'],
      ] as const) {
        const cut = half.trimEnd();
        const place = JSON.stringify({ line: 0, file: path, size: cut.length, after: '' });
        // A line feed, the first line with a comma instead of two braces, and half of the second.
        const fits = half.length + 5 + whole * `${place}${link}`.length;
        writeFileSync(path, cut);
        const command = [`--fsize=${fits}`, process.execPath, '--input-type=module', '-e', program];
        const { stdout } = spawnSync('prlimit', command, { encoding: 'utf8' });
        // The chain goes on from the last line that is there.
        expect(JSON.parse(stdout)).toEqual({ lines: whole, failure, head: whole });
        expect(written()).toBe(half + left);
      }
    },
  );

  describe.skipIf(!hasPipes)('that is a full pipe', () => {
    /** Reads the next lines of the pipe, which have to be there or to come, without their links. */
    async function lineReader(): Promise<(count: number) => Promise<string>> {
      const reader = await newPipe(path);
      const chunk = Buffer.alloc(65_536);
      let unread = '';
      return async (count) => {
        while (unread.split('\n').length <= count)
          unread += chunk.toString('latin1', 0, (await reader.read(chunk, 0)).bytesRead);
        const lines = unread.split('\n');
        unread = lines.slice(count).join('\n');
        return plain(`${lines.slice(0, count).join('\n')}\n`);
      };
    }

    test('is waited for, and every line is in it once', async () => {
      const read = await lineReader();
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
      const read = await lineReader();
      const lines = linesOf(20_000);
      const { lines: count, failure } = await append(lines, 200);
      expect(failure).toBe('ETIMEDOUT');
      expect(count).toBeGreaterThan(0);
      expect(await read(count)).toBe(lines.slice(0, count).join(''));
    });
  });
});

describe('an audit log', () => {
  let changes: [boolean, string | undefined][];
  let lost: number;
  let waiting: number;
  beforeEach(() => {
    [changes, lost, waiting] = [[], 0, 0];
  });
  afterEach(() => void vi.useRealTimers());

  function logAt(path: string): AuditLog {
    return new AuditLog({
      ...{ path, isRequired: true, node: 'a' },
      macOf: (last, line) => keyring.auditMac(last, line),
      onHead: () => {},
      onWaiting: (bytes) => (waiting += bytes),
      onLost: (lines) => (lost += lines),
      onChange: (isAvailable, failure) => changes.push([isAvailable, failure]),
    });
  }

  const entryOf = (outcome: string) =>
    ({ event: 'detokenize', outcome, client_id: 'client_1' }) as AuditEntry;
  /** @returns `written`, or the reason of the error that the request gets */
  const recorded = (log: AuditLog): Promise<string> =>
    log.record(entryOf('success'))!.then(
      () => 'written',
      (error) => error.reason,
    );

  test('F12: a destination that comes and goes is told once, and its end after a second without loss', async () => {
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
    const place = inFolder('place');
    const log = logAt(join(place, 'audit.log'));
    for (let round = 0; round < 10; round++) {
      expect(await recorded(log)).toBe('audit_unavailable');
      mkdirSync(place);
      expect(await recorded(log)).toBe('written');
      await vi.advanceTimersByTimeAsync(CALM_MS - 1);
      rmSync(place, { recursive: true });
      // The next line looks whether the file is still there.
      log.refresh();
    }
    expect(await recorded(log)).toBe('audit_unavailable');
    expect(changes).toEqual([[false, 'ENOENT']]);
    await vi.advanceTimersByTimeAsync(CALM_MS);
    expect(changes).toHaveLength(1);
    mkdirSync(place);
    expect(await recorded(log)).toBe('written');
    await vi.advanceTimersByTimeAsync(CALM_MS);
    expect(changes.slice(1)).toEqual([[true, undefined]]);
    expect(lost).toBe(11);
    await log.close();
  });

  test('lines that were written leave their bytes and their places to others, refusals too', async () => {
    const log = logAt(inFolder('audit.log'));
    for (let round = 0; round < 4; round++) {
      for (let i = 0; i < 2_000; i++) void log.record(entryOf('forbidden'));
      expect(waiting).toBeGreaterThan(0);
      expect(await recorded(log)).toBe('written');
    }
    await log.close();
    expect([lost, waiting]).toEqual([0, 0]);
  });

  test.runIf(hasPipes)(
    'F12: more lines than a pipe takes are told once, before a write has failed',
    async () => {
      const path = inFolder('pipe');
      await newPipe(path);
      const log = logAt(path);
      const lines = Array.from({ length: 25_000 }, () => recorded(log));
      expect(await Promise.race(lines.slice(-1))).toBe('audit_unavailable');
      expect(changes).toEqual([[false, 'ETIMEDOUT']]);
      const outcomes = await Promise.all(lines);
      expect(outcomes.filter((one) => one !== 'written')).toHaveLength(lost);
      expect(changes).toHaveLength(1);
      await log.close();
    },
  );
});
