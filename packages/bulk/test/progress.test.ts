import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { type Job, runBulk } from '../src/index.ts';

test('the share is what was written, not what was read ahead', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'standin-bulk-'));
  onTestFinished(() => rmSync(folder, { recursive: true }));
  const inputPath = join(folder, 'in.csv');
  const rows = Array.from({ length: 9_000 }, (_, i) => `ann${i}@example.com\n`);
  writeFileSync(inputPath, `email\n${rows.join('')}`);
  const shares: (number | undefined)[] = [];
  const job: Job = {
    ...{ operation: 'tokenize', format: 'csv', fields: 'email', hasHeader: true },
    ...{ inputPath, outputPath: join(folder, 'out.csv'), delimiter: undefined },
    ...{ rejectsPath: undefined, rejectedRowsPath: undefined, isResume: false, isForced: false },
    ask: async (values) => values.map((value) => `${value}_tok`),
    onProgress: (_, share) => shares.push(share),
  };
  await runBulk(job, new AbortController().signal);
  expect(shares.length).toBeGreaterThan(3);
  expect(shares[0]).toBeLessThan(0.5);
  expect(shares).toEqual(shares.toSorted((a, b) => a! - b!));
  expect(shares.at(-1)).toBe(1);
});
