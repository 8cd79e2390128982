import { execFile } from 'node:child_process';
import { existsSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { delimiter, join } from 'node:path';
import { promisify } from 'node:util';
import { describe, expect, onTestFinished, test } from 'vitest';

const VAULT = join(import.meta.dirname, 'vault.pml');
const COMMANDS = join(import.meta.dirname, 'commands.pml');
/** Spin turns the model into a C program, which explores it. */
const canRun = ['spin', 'cc'].every((program) =>
  (process.env.PATH ?? '').split(delimiter).some((folder) => existsSync(join(folder, program))),
);
const TIMEOUT_MS = 1_800_000;
/** No path without a repetition is longer. */
const DEPTH = 4_000_000;
const HASH_BITS = 27;
/** Random order, bounded depth, and a bit a state: finds a loss within seconds, proves nothing. */
const HUNT = { compile: ['-DBITSTATE', '-DT_RAND=7', '-DP_RAND=7'], depth: 250, hashBits: 28 };

/** Of the vault, each with two nodes and two values; everything at once has too many states. */
const PARTS = {
  'rotate, reseal and retire': ['-DALONE', '-DWITHOUT_DAMAGE', '-DWITHOUT_FORGET', VAULT],
  'one node: rotate, reseal and retire of three versions, forget': [
    ...['-DALONE', '-DWITHOUT_DAMAGE', '-DONE_NODE', '-DVERSIONS=3', VAULT],
  ],
  'failover with rotate, reseal and retire': ['-DWITHOUT_DAMAGE', '-DWITHOUT_FORGET', VAULT],
  'failover, forget and damage': ['-DWITHOUT_KEYS', VAULT],
  'failover, forget and damage, values that draw the same token': [
    ...['-DWITHOUT_KEYS', '-DDRAWS', VAULT],
  ],
  'repeated commands: rewrap and policies': [COMMANDS],
  'policies with an asynchronous standby': ['-DASYNC', COMMANDS],
};
type Part = keyof typeof PARTS;

/** Each fence, and a part in which its loss shows. */
const FENCES: readonly (readonly [string, string, Part])[] = [
  ...fences('rotate, reseal and retire', {
    NO_FENCE: 'a write checks its key version',
    NO_LOCK_FIRST: 'its snapshot follows its lock',
    NO_RETIRE_WAIT: 'retire waits for writes under way',
    NO_COUNT: 'retire counts the records',
  }),
  ...fences('one node: rotate, reseal and retire of three versions, forget', {
    NO_OLD_SEALED: 'reseal replaces only what it has read',
    NO_RESEAL_LOCK: 'reseal shares the lock of the vault',
  }),
  ...fences('failover, forget and damage, values that draw the same token', {
    NO_WAIT: 'an answer waits for the standby',
    NO_DURABLE_LOOK: 'a record that was found is as durable as a new one',
    NO_DURABLE_FORGET: 'a value that was forgotten already is forgotten durably',
    NO_TIMELINE: 'a node never goes back to an older primary',
    NO_COLLISION: 'a token that another value has is not taken',
    NO_STUB: 'a forgotten token keeps its row',
    NO_OPENING: 'a record that is found is opened',
  }),
  // A failover amid the work on keys loses in ways of its own.
  ...fences('failover with rotate, reseal and retire', {
    NO_FENCE: 'a write checks its key version',
    NO_TIMELINE: 'a node never goes back to an older primary',
    NO_DURABLE_KEY: 'a node takes a key only when the standby has it',
  }),
  ...fences('repeated commands: rewrap and policies', {
    NO_WAIT: 'an answer waits for the standby',
    NO_DURABLE_REWRAP: 'keys that are wrapped already are wrapped durably',
    NO_DURABLE_APPLY: 'a policy that was applied already is applied durably',
    NO_DURABLE_VERSION: 'a node takes a policy only when the standby has it',
  }),
  ...fences('policies with an asynchronous standby', {
    NO_CONTENT: 'a node compares the content of a version, too',
  }),
];

function fences(part: Part, promises: Record<string, string>) {
  return Object.entries(promises).map(([fence, promise]) => [fence, promise, part] as const);
}

describe.skipIf(!canRun)('the model of the vault', () => {
  test.each(Object.keys(PARTS) as Part[])(
    'loses nothing: %s',
    { timeout: TIMEOUT_MS },
    async (part) => {
      const report = await explore(PARTS[part], {
        compile: [],
        depth: DEPTH,
        hashBits: HASH_BITS,
      });
      expect(report).toMatch(/errors: 0$/m);
      expect(report).not.toMatch(/max search depth too small|out of memory/i);
    },
  );

  test.each(FENCES)(
    'loses something without %s: %s',
    { timeout: TIMEOUT_MS },
    async (fence, _, part) => {
      expect(await explore([`-D${fence}`, '-DWAL_LENGTH=2', ...PARTS[part]], HUNT)).toMatch(
        /assertion violated/,
      );
    },
  );
});

interface Search {
  readonly compile: readonly string[];
  readonly depth: number;
  readonly hashBits: number;
}

/** @param model its file, after the definitions. @returns what the explorer reports of it */
async function explore(model: readonly string[], search: Search): Promise<string> {
  const folder = mkdtempSync(join(tmpdir(), 'standin-model-'));
  onTestFinished(() => rmSync(folder, { recursive: true }));
  const run = async (program: string, args: readonly string[]) =>
    (await promisify(execFile)(program, args, { cwd: folder, maxBuffer: 2 ** 28 })).stdout;
  await run('spin', ['-a', ...model]);
  const size = ['-DSAFETY', '-DVECTORSZ=2048', ...search.compile];
  await run('cc', ['-w', '-O2', ...size, '-o', 'pan', 'pan.c']);
  return run('./pan', [`-m${search.depth}`, `-w${search.hashBits}`]);
}
