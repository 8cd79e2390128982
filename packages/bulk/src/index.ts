/** Replaces cells of CSV, TSV and NDJSON files of any size. See docs/guides/bulk-files.md. */
export { BadRowError, BulkError, WriteError } from './bulk-error.ts';
export type { FormatOptions } from './header.ts';
export type { Job } from './job.ts';
export { type Ask, RefusedValue } from './replace.ts';
export { type RunEnd, RunFailure, runBulk } from './run.ts';
