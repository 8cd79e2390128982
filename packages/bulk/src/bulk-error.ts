import { NOT_UTF8, type Problem } from './row.ts';

/** The file or the options end the run. The message is for the person who runs the command. */
export class BulkError extends Error {}

/** A file cannot be written: the disk is full, for example. */
export class WriteError extends BulkError {}

/** A bad row, when bad rows end the run. */
export class BadRowError extends BulkError {
  constructor(line: number, { field, reason }: Problem) {
    const remedy =
      reason === NOT_UTF8 ? ' (convert the file, for example with iconv -f LATIN1 -t UTF-8)' : '';
    super(
      `Line ${line}: the ${field === undefined ? 'row' : `field ${JSON.stringify(field)}`} ${reason}${remedy}`,
    );
  }
}
