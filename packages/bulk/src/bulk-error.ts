import type { Problem } from './row.ts';

/** The file, or what was asked for, ends the run: in words for who runs it. */
export class BulkError extends Error {}

/** A file cannot be written: the disk is full, for example. */
export class WriteError extends BulkError {}

/** A bad row, where bad rows end the run. */
export class BadRowError extends BulkError {
  constructor(line: number, { field, reason }: Problem) {
    super(`Line ${line}: ${field === undefined ? 'the row' : `the field ${field}`} ${reason}`);
  }
}
