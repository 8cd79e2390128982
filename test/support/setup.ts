import { join } from 'node:path';
import { afterAll } from 'vitest';
import { expectNothingTold } from './secrecy.ts';

const QUICK = join(import.meta.dirname, 'quick-embedded.cjs');
process.env.NODE_OPTIONS = `--require=${JSON.stringify(QUICK)}`;

/** Runs after the tests of every file, regardless of their imports. */
afterAll(expectNothingTold);
