import { join } from 'node:path';
import { afterAll } from 'vitest';
import { expectNothingTold } from './secrecy.ts';

const QUICK = join(import.meta.dirname, 'quick-embedded.cjs');
process.env.NODE_OPTIONS = `--require=${JSON.stringify(QUICK)}`;

/** After the tests of each file, whatever these imported. */
afterAll(expectNothingTold);
