import { execFileSync, spawnSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, rmSync } from 'node:fs';
import { open } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest';
import { type AuditEntry, AuditLog } from '../../src/audit/audit-log.ts';
import { testKeyring } from '../support/keys.ts';

const keyring = testKeyring();
const CALM_MS = 1_000;
let folder: string;
let changes: [boolean, string | undefined][];
let lost: number;
let waiting: number;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'standin-audit-'));
  changes = [];
  lost = 0;
  waiting = 0;
});
afterEach(() => {
  vi.useRealTimers();
  rmSync(folder, { recursive: true });
});

function logAt(path: string): AuditLog {
  return new AuditLog({
    ...{ path, isRequired: true, node: 'a' },
    macOf: (last, line) => keyring.auditMac(last, line),
    onHead: () => {},
    onWaiting: (bytes) => {
      waiting += bytes;
    },
    onLost: (lines) => {
      lost += lines;
    },
    onChange: (isAvailable, failure) => changes.push([isAvailable, failure]),
  });
}

/** @returns `written`, or the reason of the error that the request gets */
async function recorded(log: AuditLog): Promise<string> {
  const entry = { event: 'detokenize', outcome: 'success', client_id: 'client_1' } as AuditEntry;
  return log.record(entry)!.then(
    () => 'written',
    (error) => error.reason,
  );
}

test('F12: a destination that comes and goes is told once, and its end after a second without loss', async () => {
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
  const place = join(folder, 'place');
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
  const log = logAt(join(folder, 'audit.log'));
  const refused = {
    event: 'detokenize',
    outcome: 'forbidden',
    client_id: 'client_1',
  } as AuditEntry;
  for (let round = 0; round < 4; round++) {
    for (let i = 0; i < 2_000; i++) log.record(refused);
    expect(waiting).toBeGreaterThan(0);
    expect(await recorded(log)).toBe('written');
  }
  await log.close();
  expect([lost, waiting]).toEqual([0, 0]);
});

describe.runIf(spawnSync('mkfifo', ['--version']).status === 0)('a pipe', () => {
  test('F12: more lines than it takes are told once, before a write has failed', async () => {
    const path = join(folder, 'pipe');
    execFileSync('mkfifo', [path]);
    // For both, so that it has a reader, which reads later.
    const reader = await open(path, 'r+');
    const log = logAt(path);
    const lines = Array.from({ length: 25_000 }, () => recorded(log));
    expect(await Promise.race(lines.slice(-1))).toBe('audit_unavailable');
    expect(changes).toEqual([[false, 'ETIMEDOUT']]);
    const outcomes = await Promise.all(lines);
    expect(outcomes.filter((one) => one !== 'written')).toHaveLength(lost);
    expect(changes).toHaveLength(1);
    await log.close();
    await reader.close();
  });
});
