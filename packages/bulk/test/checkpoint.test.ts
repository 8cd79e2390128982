import { mkdtempSync, readFileSync, rmSync, utimesSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { Input } from '../src/input.ts';
import { type Checkpoint, checkContinues, readCheckpoint, writeCheckpoint } from '../src/job.ts';

const BEGUN_AT = new Date('2026-01-02T03:04:05.678Z');
const TERMS = { '--fields': 'email' };

let folder: string;
let file: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'standin-checkpoint-'));
  file = join(folder, 'in.csv');
  put(`email\n${'ann@example.com\n'.repeat(1_000)}`);
});
afterEach(() => rmSync(folder, { recursive: true }));

/** Writes the file with the modification time of the original file. */
function put(content: string): void {
  writeFileSync(file, content);
  utimesSync(file, BEGUN_AT, BEGUN_AT);
}

async function identity() {
  return (await Input.open(file)).identity!;
}

describe('a run to resume', () => {
  /** The checkpoint of a run on the current file. */
  async function begun(): Promise<Checkpoint> {
    const counts = { rows: 0, values: 0, rejected: 0, found: [], replaced: [] };
    const position = { input_bytes: 0, line: 2, ...counts };
    const input = await identity();
    return { terms: TERMS, input, position, lengths: {}, is_complete: false };
  }

  test('is not that of a checkpoint of another version, or of no checkpoint', async () => {
    const path = join(folder, 'out.csv.checkpoint');
    const checkpoint = await begun();
    await writeCheckpoint(path, checkpoint);
    expect(await readCheckpoint(path)).toMatchObject(checkpoint);
    const written = JSON.parse(readFileSync(path, 'utf8'));
    const older = { ...written, version: written.version - 1 };
    for (const content of [...[older, checkpoint, null].map((one) => JSON.stringify(one)), '{']) {
      writeFileSync(path, content);
      await expect(readCheckpoint(path)).rejects.toThrow('was not written by this version');
    }
  });

  const text = () => readFileSync(file, 'utf8');
  test.each<[string, () => void]>([
    ['longer, of the same time', () => put(`${text()}bob@example.com\n`)],
    ['as long, with another first KiB', () => put(text().replace('ann@', 'bob@'))],
    [
      'as long, with the same first KiB, written later',
      () => writeFileSync(file, `${text().slice(0, -16)}bob@example.com\n`),
    ],
  ])('does not go on with an input that is %s', async (_how, change) => {
    const checkpoint = await begun();
    checkContinues(checkpoint, TERMS, await identity());
    change();
    const now = await identity();
    expect(() => checkContinues(checkpoint, TERMS, now)).toThrow('The input has changed since');
  });
});
