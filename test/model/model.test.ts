import { execFile } from 'node:child_process';
import { existsSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { delimiter, join } from 'node:path';
import { promisify } from 'node:util';
import { describe, expect, onTestFinished, test } from 'vitest';

const MODEL = join(import.meta.dirname, 'vault.pml');
/** Spin turns the model into a C program, which explores it. */
const can_run = ['spin', 'cc'].every((program) =>
  (process.env.PATH ?? '').split(delimiter).some((folder) => existsSync(join(folder, program))),
);
const TIMEOUT_MS = 1_800_000;
/** No path without a repetition is longer. */
const DEPTH = 4_000_000;
const HASH_BITS = 26;
/** Random order, bounded depth, and a bit a state: finds a loss within seconds, proves nothing. */
const HUNT = { compile: ['-DBITSTATE', '-DT_RAND=7', '-DP_RAND=7'], depth: 250, hash_bits: 28 };

/** Parts of the model that are explored whole: all of it at once would take days. */
const PARTS = {
  'rotate, reseal, retire and forget': ['-DALONE', '-DWITHOUT_DAMAGE'],
  'three key versions, rotate, reseal and retire': [
    '-DALONE',
    '-DWITHOUT_DAMAGE',
    '-DWITHOUT_FORGET',
    '-DVERSIONS=3',
  ],
  'failover, forget and damage, values that draw the same token': ['-DWITHOUT_KEYS', '-DDRAWS'],
  'failover with rotate, reseal and retire': ['-DWITHOUT_FORGET', '-DWITHOUT_DAMAGE'],
};
type Part = keyof typeof PARTS;

/** Each fence, and a part in which its loss shows. */
const FENCES: readonly (readonly [string, string, Part])[] = [
  ['NO_FENCE', 'a write checks its key version', 'rotate, reseal, retire and forget'],
  ['NO_LOCK_FIRST', 'its snapshot follows its lock', 'rotate, reseal, retire and forget'],
  ['NO_RETIRE_WAIT', 'retire waits for writes under way', 'rotate, reseal, retire and forget'],
  ['NO_COUNT', 'retire counts the records', 'rotate, reseal, retire and forget'],
  ['NO_OLD_SEALED', 'reseal replaces only what it has read', 'rotate, reseal, retire and forget'],
  [
    'NO_RESEAL_LOCK',
    'reseal shares the lock of the vault',
    'three key versions, rotate, reseal and retire',
  ],
  ...(
    [
      ['NO_WAIT', 'an answer waits for the standby'],
      ['NO_DURABLE_LOOK', 'a record that was found is as durable as a new one'],
      ['NO_DURABLE_FORGET', 'a value that was forgotten already is forgotten durably'],
      ['NO_TIMELINE', 'a node never goes back to an older primary'],
      ['NO_COLLISION', 'a token that another value has is not taken'],
      ['NO_STUB', 'a forgotten token keeps its row'],
      ['NO_OPENING', 'a record that is found is opened'],
    ] as const
  ).map(
    ([name, words]) =>
      [name, words, 'failover, forget and damage, values that draw the same token'] as const,
  ),
];

describe.skipIf(!can_run)('the model of the vault', () => {
  test.each(Object.keys(PARTS) as Part[])(
    'loses nothing: %s',
    { timeout: TIMEOUT_MS },
    async (part) => {
      const report = await explore([...PARTS[part]], {
        compile: ['-DCOLLAPSE'],
        depth: DEPTH,
        hash_bits: HASH_BITS,
      });
      expect(report).toMatch(/errors: 0$/m);
      expect(report).not.toMatch(/max search depth too small|out of memory/i);
    },
  );

  test.each(FENCES)(
    'loses something without %s: %s',
    { timeout: TIMEOUT_MS },
    async (fence, _, part) => {
      expect(await explore([...PARTS[part], `-D${fence}`], HUNT)).toMatch(/assertion violated/);
    },
  );
});

interface Search {
  readonly compile: readonly string[];
  readonly depth: number;
  readonly hash_bits: number;
}

/** What the explorer reports of the model with these definitions. */
async function explore(definitions: readonly string[], search: Search): Promise<string> {
  const folder = mkdtempSync(join(tmpdir(), 'standin-model-'));
  onTestFinished(() => rmSync(folder, { recursive: true }));
  const run = async (program: string, args: readonly string[]) =>
    (await promisify(execFile)(program, args, { cwd: folder, maxBuffer: 2 ** 28 })).stdout;
  await run('spin', ['-a', ...definitions, MODEL]);
  const size = ['-DSAFETY', '-DVECTORSZ=2048', ...search.compile];
  await run('cc', ['-w', '-O2', ...size, '-o', 'pan', 'pan.c']);
  return run('./pan', [`-m${search.depth}`, `-w${search.hash_bits}`]);
}
