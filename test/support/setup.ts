import { afterAll } from 'vitest';
import { expectNothingTold } from './secrecy.ts';

/** After the tests of each file, whatever these imported. */
afterAll(expectNothingTold);
