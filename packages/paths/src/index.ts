/** The language of paths, and JSON texts that paths lead into. */
export { pathText, type Steps } from '#client/path';
export * from './json-text.ts';
export * from './near.ts';
export * from './tree.ts';
