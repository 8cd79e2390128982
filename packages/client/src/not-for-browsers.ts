import { IN_A_BROWSER } from './options.ts';

/** Bundlers for browsers resolve the package to this file, so that the page shows this text. */
throw new Error(IN_A_BROWSER);
