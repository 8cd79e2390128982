import { IN_A_BROWSER } from './surroundings.ts';

/** What bundlers for browsers are led to: they find no Standin in here, and browsers this text. */
throw new Error(IN_A_BROWSER);
