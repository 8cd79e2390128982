import type { Problem } from './row.ts';

/** The file or the options end the run. The message is for the person who runs the command. */
export class BulkError extends Error {}

/** A file cannot be written: the disk is full, for example. */
export class WriteError extends BulkError {}

/** A bad row, when bad rows end the run. */
export class BadRowError extends BulkError {
  constructor(line: number, { field, reason }: Problem) {
    super(`Line ${line}: ${field === undefined ? 'the row' : `the field ${field}`} ${reason}`);
  }
}
