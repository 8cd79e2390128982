import { execFile } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { describe, expect, onTestFinished, test } from 'vitest';
import { has } from '../support/deploy.ts';
import { FENCES, PARTS } from './fences.ts';

/** Spin turns the model into a C program, which explores it. */
const canRun = ['spin', 'cc'].every((program) => has('which', program));
const TIMEOUT_MS = 1_800_000;
/** No path without a repetition is longer. */
const DEPTH = 4_000_000;
const HASH_BITS = 27;
/** Random order, bounded depth, and a bit a state: finds a loss within seconds, proves nothing. */
const HUNT = { compile: ['-DBITSTATE', '-DT_RAND=7', '-DP_RAND=7'], depth: 250, hashBits: 28 };

const LOSSES = FENCES.flatMap(({ name, promise, parts }) =>
  parts.map((part) => [name, promise, PARTS[part]![1]] as const),
);

describe.skipIf(!canRun)('the model of the vault', { timeout: TIMEOUT_MS }, () => {
  test.each(Object.values(PARTS))('loses nothing: %s', async (_, command) => {
    const report = await explore(command, { compile: [], depth: DEPTH, hashBits: HASH_BITS });
    expect(report).toMatch(/errors: 0$/m);
    expect(report).not.toMatch(/max search depth too small|out of memory/i);
  });

  test.each(LOSSES)('loses something without %s: %s', async (fence, _, command) => {
    const report = await explore(`-D${fence} -DWAL_LENGTH=2 ${command}`, HUNT);
    expect(report).toMatch(/assertion violated/);
  });
});

interface Search {
  readonly compile: readonly string[];
  readonly depth: number;
  readonly hashBits: number;
}

/** @param command definitions, then the file of the model. @returns what the explorer reports of it */
async function explore(command: string, search: Search): Promise<string> {
  const model = command.split(' ');
  const folder = mkdtempSync(join(tmpdir(), 'standin-model-'));
  onTestFinished(() => rmSync(folder, { recursive: true }));
  const run = async (program: string, args: readonly string[]) =>
    (await promisify(execFile)(program, args, { cwd: folder, maxBuffer: 2 ** 28 })).stdout;
  await run('spin', ['-a', ...model.slice(0, -1), join(import.meta.dirname, model.at(-1)!)]);
  const size = ['-DSAFETY', '-DVECTORSZ=2048', ...search.compile];
  await run('cc', ['-w', '-O2', ...size, '-o', 'pan', 'pan.c']);
  return run('./pan', [`-m${search.depth}`, `-w${search.hashBits}`]);
}
