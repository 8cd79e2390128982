/** Replaces cells of CSV, TSV and NDJSON files of any size. See docs/guides/bulk-files.md. */
export { BadRowError, BulkError, WriteError } from './bulk-error.ts';
export { checkTerms, readState, type Terms } from './checkpoint.ts';
export type { FormatOptions } from './header.ts';
export type { Decode } from './input.ts';
export type { Job, ReplaceJob, TakeJob } from './job.ts';
export { lockOf, nameAtLast, OutputFile, partialOf, replaceFile, writing } from './output.ts';
export { isPolicy, leastRecord, type PolicyFields, valueIn } from './policy-paths.ts';
export { type Ask, RefusedValue } from './replace.ts';
export type { Row } from './row.ts';
export { type RunEnd, runBulk } from './run.ts';
