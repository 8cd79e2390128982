/** Replaces cells of CSV, TSV and NDJSON files of any size. See docs/guides/bulk-files.md. */
export { isPolicy, leastRecord, type PolicyFields, valueIn } from './header.ts';
export { type Decode, Input } from './input.ts';
export {
  type Ask,
  checkTerms,
  type Job,
  type ReplaceJob,
  readState,
  type TakeJob,
  type Terms,
} from './job.ts';
export { lockOf, nameAtLast, OutputFile, partialOf, replaceFile, writing } from './output.ts';
export { RefusedValue } from './replace.ts';
export { BadRowError, BulkError, type Row, WriteError } from './row.ts';
export { type RunEnd, runBulk } from './run.ts';
