import { rm } from 'node:fs/promises';
import { BadRowError } from './bulk-error.ts';
import {
  type Checkpoint,
  checkpointOf,
  type Position,
  removeCheckpoint,
  writeCheckpoint,
} from './checkpoint.ts';
import type { Input } from './input.ts';
import { isResumable, type Job, outputPaths, termsOf } from './job.ts';
import { nameAtLast, type Output, OutputFile, partialOf, StandardOutput } from './output.ts';
import type { Replaced } from './replace.ts';
import type { Row } from './row.ts';

const PRIVATE_MODE = 0o600;
const USUAL_MODE = 0o666;
const CHECKPOINT_INTERVAL_MS = 1_000;
const REJECTS_HEADER = Buffer.from('line,field,reason\n');

/** What a run writes: rows, rejects, and how far it is. */
export class BulkFiles {
  readonly #job: Job;
  readonly #input: Input;
  readonly #outputs = new Map<string, Output>();
  position: Position;
  #savedAtMs = performance.now();
  /** Whether what was written ends where `position` says. */
  #isWhole = true;

  private constructor(job: Job, input: Input, position: Position) {
    this.#job = job;
    this.#input = input;
    this.position = position;
  }

  /**
   * @param head what stands before the rows
   * @param position of the first row to be written
   */
  static async open(
    job: Job,
    input: Input,
    head: Buffer,
    position: Position,
    lengths: Checkpoint['lengths'],
  ): Promise<BulkFiles> {
    const files = new BulkFiles(job, input, position);
    const isNew = Object.keys(lengths).length === 0;
    try {
      // First of all: from now on --resume knows what the other files are.
      if (isNew && files.#isResumable) await files.#save({}, false);
      await files.#open(head, lengths);
      return files;
    } catch (error) {
      await files.close();
      if (isNew) await files.#discard();
      throw error;
    }
  }

  async #open(head: Buffer, lengths: Checkpoint['lengths']): Promise<void> {
    const { operation, outputPath } = this.#job;
    if (outputPath === '-') this.#outputs.set('--output', new StandardOutput());
    for (const [option, path] of outputPaths(this.#job)) {
      const isPrivate = operation === 'detokenize' || option === '--rejected-rows';
      const mode = isPrivate ? PRIVATE_MODE : USUAL_MODE;
      this.#outputs.set(option, await OutputFile.open(path, mode, lengths[option] ?? 0));
    }
    for (const [option, output] of this.#outputs) {
      if ((lengths[option] ?? 0) === 0)
        await output.write(option === '--rejects' ? REJECTS_HEADER : head);
    }
  }

  get #isResumable(): boolean {
    return isResumable(this.#job, this.#input);
  }

  /** @throws BadRowError for the first bad row, when nothing is to be rejected */
  async write(rows: readonly Row[], bytes: Buffer, replaced: Replaced): Promise<void> {
    const { badRows } = replaced;
    const rejects = this.#outputs.get('--rejects');
    const [bad] = badRows;
    if (bad !== undefined && rejects === undefined) throw new BadRowError(bad.line, bad.problem!);
    this.#isWhole = false;
    await this.#outputs.get('--output')!.write(replaced.bytes);
    if (bad !== undefined) {
      await rejects!.write(Buffer.from(badRows.map(rejectLine).join('')));
      const pieces = badRows.map(({ start, end }) => bytes.subarray(start, end));
      await this.#outputs.get('--rejected-rows')?.write(Buffer.concat(pieces));
    }
    this.#advance(rows, replaced);
    this.#isWhole = true;
    if (performance.now() - this.#savedAtMs >= CHECKPOINT_INTERVAL_MS) await this.save();
  }

  #advance(rows: readonly Row[], { values, badRows }: Replaced): void {
    const last = rows.at(-1)!;
    const { position } = this;
    this.position = {
      input_bytes: position.input_bytes + last.end - rows[0]!.start,
      line: last.line + last.lineEnds,
      rows: position.rows + rows.filter((row) => !row.isBlank).length,
      values: position.values + values,
      rejected: position.rejected + badRows.length,
    };
  }

  /** Everything so far is on the disk, and a run that goes on begins here. */
  async save(isComplete = false): Promise<void> {
    // After a write that failed, the checkpoint before it stands.
    if (!this.#isWhole) return;
    const lengths: Record<string, number> = {};
    for (const [option, output] of this.#outputs) lengths[option] = await output.settle();
    if (this.#isResumable) await this.#save(lengths, isComplete);
    this.#savedAtMs = performance.now();
  }

  async #save(lengths: Checkpoint['lengths'], isComplete: boolean): Promise<void> {
    await writeCheckpoint(checkpointOf(this.#job.outputPath), {
      terms: termsOf(this.#job),
      input: this.#input.identity!,
      position: this.position,
      lengths,
      is_complete: isComplete,
    });
  }

  /** All rows are written. */
  async finish(): Promise<void> {
    await this.save(true);
    // From here on, a run that goes on has only names to give.
    this.#isWhole = false;
    await nameFiles(this.#job);
    if (this.#job.outputPath !== '-') await removeCheckpoint(checkpointOf(this.#job.outputPath));
  }

  /** The run ends early. Files that nobody can go on with are removed. */
  async leave(): Promise<void> {
    return this.#isResumable ? this.save() : this.#discard();
  }

  async #discard(): Promise<void> {
    for (const path of outputPaths(this.#job).values()) await rm(partialOf(path), { force: true });
    if (this.#isResumable) await rm(checkpointOf(this.#job.outputPath), { force: true });
  }

  async close(): Promise<void> {
    for (const output of this.#outputs.values()) await output.close();
  }
}

/** Gives complete files their names; for one that has it already, there is nothing to do. */
export async function nameFiles(job: Job): Promise<void> {
  for (const path of outputPaths(job).values()) await nameAtLast(path);
}

function rejectLine({ line, problem }: Row): string {
  const { field = '', reason } = problem!;
  const cells = [String(line), field, reason];
  return `${cells.map((cell) => (/[",\r\n]/.test(cell) ? `"${cell.replaceAll('"', '""')}"` : cell)).join(',')}\n`;
}
