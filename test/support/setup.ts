import { join } from 'node:path';
import { afterAll } from 'vitest';
import { nameWorker } from './leftovers.ts';
import { expectNothingTold } from './secrecy.ts';

const QUICK = join(import.meta.dirname, 'quick-embedded.cjs');
process.env.NODE_OPTIONS = `--require=${JSON.stringify(QUICK)}`;

// This file runs before every test file. A hook after the file would not do: where another fails, it is left out.
nameWorker();

/** Runs after the tests of every file, regardless of their imports. */
afterAll(expectNothingTold);
