import { rm } from 'node:fs/promises';
import { listed, suggested } from '#paths';
import { type Beginning, isPolicy, NoFieldError, noFieldOfPolicy } from './header.ts';
import type { Input } from './input.ts';
import {
  type Checkpoint,
  checkpointFor,
  isResumable,
  type Job,
  outputPaths,
  type Position,
  termsOf,
  writeCheckpoint,
} from './job.ts';
import { withoutComma } from './json.ts';
import { nameAtLast, OutputFile, partialOf, removeReplaced, StandardOutput } from './output.ts';
import type { Replaced } from './replace.ts';
import { BadRowError, type Row, type RowFormat } from './row.ts';

const PRIVATE_MODE = 0o600;
const USUAL_MODE = 0o666;
const CHECKPOINT_INTERVAL_MS = 1_000;
const REJECTS_HEADER = Buffer.from('line,field,reason\n');

/** Before the first byte. */
export const NOWHERE: Position = {
  ...{ input_bytes: 0, line: 1, rows: 0, values: 0, rejected: 0 },
  ...{ fields: [], replaced: [] },
};

/** The files that a run writes: rows, rejects and the checkpoint. */
export class BulkFiles {
  readonly #job: Job;
  readonly #input: Input;
  readonly #format: RowFormat;
  readonly #outputs = new Map<string, OutputFile | StandardOutput>();
  position: Position;
  #savedAtMs = performance.now();
  /** Whether all outputs end at `position`. */
  #isWhole = true;

  private constructor(job: Job, input: Input, format: RowFormat, position: Position) {
    this.#job = job;
    this.#input = input;
    this.#format = format;
    this.position = position;
  }

  /** @param checkpoint of the run to continue */
  static async open(
    job: Job,
    input: Input,
    { bytes: head, lineEnds, format }: Beginning,
    checkpoint: Checkpoint | undefined,
  ): Promise<BulkFiles> {
    const fields = format.fields.map(({ path }) => [path, 0] as const);
    const start = { ...NOWHERE, input_bytes: head.length, line: 1 + lineEnds, fields };
    const files = new BulkFiles(job, input, format, checkpoint?.position ?? start);
    const lengths = checkpoint?.lengths ?? {};
    const isNew = Object.keys(lengths).length === 0;
    try {
      // The checkpoint comes first, so that --resume recognizes the other files.
      if (isNew) await files.#writeCheckpoint({}, false);
      await files.#open(head, lengths);
      return files;
    } catch (error) {
      await files.close();
      if (isNew) await files.#discard();
      throw error;
    }
  }

  async #open(head: Buffer, lengths: Checkpoint['lengths']): Promise<void> {
    const { operation } = this.#job;
    const isPiped = 'outputPath' in this.#job && this.#job.outputPath === '-';
    if (isPiped) this.#outputs.set('--output', new StandardOutput());
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

  /** @throws BadRowError for the first bad row, without --rejects */
  async write(rows: readonly Row[], bytes: Buffer, replaced: Replaced): Promise<void> {
    const { badRows } = replaced;
    const rejects = this.#outputs.get('--rejects');
    const [bad] = badRows;
    if (bad !== undefined && rejects === undefined) throw new BadRowError(bad);
    this.#isWhole = false;
    const output = this.#outputs.get('--output');
    await output?.write(this.#after(this.#goodRows, replaced.bytes));
    if (bad !== undefined) {
      await rejects!.write(Buffer.from(badRows.map(rejectLine).join('')));
      const pieces = badRows.map(({ start, end }) => bytes.subarray(start, end));
      const rejected = this.#after(this.position.rejected, Buffer.concat(pieces));
      await this.#outputs.get('--rejected-rows')?.write(rejected);
    }
    this.#advance(rows, replaced);
    this.#isWhole = true;
    // Nobody mistakes a file for complete while it has its partial name.
    if (output instanceof StandardOutput) {
      if (this.#missing() === undefined) await output.release();
      else if (output.isFull) this.#checkFields();
    }
    if (performance.now() - this.#savedAtMs >= CHECKPOINT_INTERVAL_MS) await this.#save(false);
  }

  get #goodRows(): number {
    return this.position.rows - this.position.rejected;
  }

  /** Rows that are written after others; the first row has no comma before it. */
  #after(rowsBefore: number, bytes: Buffer): Buffer {
    return this.#format.end === undefined || rowsBefore > 0 ? bytes : withoutComma(bytes);
  }

  /** The first field that no row had so far. Of a policy, one field is enough. */
  #missing(): string | undefined {
    const found = new Map(this.position.fields);
    const { fields } = this.#job;
    if (isPolicy(fields)) return [...found.values()].some(Boolean) ? undefined : fields.policy;
    return this.#format.fields.find(({ path, isOptional }) => !isOptional && !found.get(path))
      ?.path;
  }

  /** @throws NoFieldError, because rows without a field would be in the output as they were */
  #checkFields(): void {
    const missing = this.#missing();
    if (missing === undefined || this.#goodRows === 0 || 'take' in this.#job) return;
    const { fields } = this.#job;
    const { sample } = this.#format;
    const { name } = this.#input;
    if (isPolicy(fields)) throw noFieldOfPolicy(name, sample, fields);
    const { rows } = this.position;
    const counted = rows === 1 ? 'its only row' : `any of ${rows.toLocaleString('en-US')} rows`;
    const has = sample.length === 0 ? '' : `; the first row has: ${listed(sample)}`;
    throw new NoFieldError(
      `${name} has no field ${suggested(missing, sample)} in ${counted}${has}. A field that a file may lack has a question mark after it: --fields "${missing}?"`,
    );
  }

  #advance(rows: readonly Row[], { values, badRows }: Replaced): void {
    const last = rows.at(-1)!;
    const { position } = this;
    const replaced = new Map(position.replaced);
    for (const { field } of rows.flatMap(({ cells, problem }) => (problem ? [] : cells)))
      replaced.set(field, (replaced.get(field) ?? 0) + 1);
    const fields = position.fields.map(([path, found]) => {
      const more = rows.filter(({ paths }) => paths.includes(path)).length;
      return [path, found + more] as const;
    });
    this.position = {
      input_bytes: position.input_bytes + last.end - rows[0]!.start,
      line: last.line + last.lineEnds,
      rows: position.rows + rows.filter((row) => !row.isBlank).length,
      values: position.values + values,
      rejected: position.rejected + badRows.length,
      fields,
      replaced: [...replaced],
    };
  }

  /** Syncs all files to the disk. A resumed run begins here. */
  async #save(isComplete: boolean): Promise<void> {
    const lengths: Record<string, number> = {};
    for (const [option, output] of this.#outputs) lengths[option] = await output.flush();
    await this.#writeCheckpoint(lengths, isComplete);
    this.#savedAtMs = performance.now();
  }

  async #writeCheckpoint(lengths: Checkpoint['lengths'], isComplete: boolean): Promise<void> {
    if (!isResumable(this.#job, this.#input)) return;
    await writeCheckpoint(checkpointFor(this.#job)!, {
      terms: termsOf(this.#job),
      input: this.#input.identity!,
      position: this.position,
      lengths,
      is_complete: isComplete,
    });
  }

  /** Call after the last row. @throws NoFieldError */
  async finish(): Promise<void> {
    this.#checkFields();
    const output = this.#outputs.get('--output');
    if (output instanceof StandardOutput) await output.release();
    // From here on, only a complete checkpoint is right: a resumed run would write this end again.
    this.#isWhole = false;
    const { end } = this.#format;
    if (end !== undefined) await this.#outputs.get('--rejected-rows')?.write(end);
    await this.#save(true);
    await nameFiles(this.#job);
  }

  /**
   * Ends the run early. Removes the files if no run can resume from them, or has anything to gain.
   * @returns whether a run can resume
   */
  async leave(error: unknown): Promise<boolean> {
    const canResume = isResumable(this.#job, this.#input);
    const isKept = canResume && this.position.rows > 0 && !(error instanceof NoFieldError);
    try {
      if (!isKept) await this.#discard();
      // After a failed write, the previous checkpoint stays valid.
      else if (this.#isWhole) await this.#save(false);
      return isKept;
    } catch {
      return canResume;
    }
  }

  async #discard(): Promise<void> {
    for (const path of outputPaths(this.#job).values()) await rm(partialOf(path), { force: true });
    await removeCheckpoint(this.#job);
  }

  async close(): Promise<void> {
    for (const output of this.#outputs.values()) await output.close();
  }
}

/** Gives complete files their final names. Skips files that have them already. */
export async function nameFiles(job: Job): Promise<void> {
  for (const path of outputPaths(job).values()) await nameAtLast(path);
  await removeCheckpoint(job);
}

async function removeCheckpoint(job: Job): Promise<void> {
  const path = checkpointFor(job);
  if (path !== undefined) await removeReplaced(path);
}

function rejectLine({ line, problem }: Row): string {
  const { field = '', reason } = problem!;
  const cells = [String(line), field, reason];
  return `${cells.map((cell) => (/[",\r\n]/.test(cell) ? `"${cell.replaceAll('"', '""')}"` : cell)).join(',')}\n`;
}
