import { mkdirSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import type { Encrypter } from 'age-encryption';
import { nameAtLast, OutputFile, partialOf } from '#bulk';
import { OperatorError } from '../errors.ts';

const FILE_MODE = 0o600;
const CHECKPOINT = 'checkpoint.json';
const VERSION = 1;

/** What the parts so far have, and where the next one begins. */
interface ExportPosition {
  readonly parts: number;
  readonly pairs: number;
  readonly without_token: number;
  /** Fingerprint, 32 hex digits; undefined: the first record. */
  readonly next: string | undefined;
}

/** Options that a resumed run must repeat. */
type ExportTerms = Readonly<Record<string, string>>;

const NOWHERE: ExportPosition = { parts: 0, pairs: 0, without_token: 0, next: undefined };

/**
 * The files of an export, in a private folder. A part has its name only when it is whole, so an
 * interrupted run loses at most one part: the end of an encrypted file cannot be moved.
 */
export class ExportParts {
  position: ExportPosition;
  readonly #folder: string;
  readonly #terms: ExportTerms;
  readonly #encrypter: Encrypter | undefined;
  #part: Part | undefined;
  #pairs = 0;
  #withoutToken = 0;

  /**
   * @param encrypter undefined: the parts are in clear
   * @throws OperatorError when the folder has other files, or a run that this one does not continue
   */
  constructor(
    folder: string,
    terms: ExportTerms,
    encrypter: Encrypter | undefined,
    isResume: boolean,
  ) {
    this.#folder = folder;
    this.#terms = terms;
    this.#encrypter = encrypter;
    mkdirSync(folder, { recursive: true, mode: 0o700 });
    const names = readdirSync(folder);
    if (!isResume && names.length > 0)
      throw new OperatorError(
        `The folder ${folder} is not empty. Name a new one, or continue the run in it with --resume.`,
      );
    this.position = names.includes(CHECKPOINT) ? this.#read() : NOWHERE;
  }

  /** Pairs in the part that is not complete yet. */
  get pending(): number {
    return this.#pairs;
  }

  async write(text: string, pairs: number, withoutToken: number): Promise<void> {
    this.#part ??= await Part.open(this.#pathOf(this.position.parts + 1), this.#encrypter);
    await this.#part.write(Buffer.from(text));
    this.#pairs += pairs;
    this.#withoutToken += withoutToken;
  }

  /**
   * Completes the part, if there is one.
   * @param next where the next part begins; undefined: the export is complete
   */
  async complete(next: string | undefined): Promise<void> {
    const { parts, pairs, without_token: withoutToken } = this.position;
    const added = this.#part === undefined ? 0 : 1;
    await this.#part?.complete();
    this.#part = undefined;
    this.position = {
      parts: parts + added,
      pairs: pairs + this.#pairs,
      without_token: withoutToken + this.#withoutToken,
      next,
    };
    this.#pairs = 0;
    this.#withoutToken = 0;
    const path = join(this.#folder, CHECKPOINT);
    if (next === undefined) return rmSync(path, { force: true });
    const file = await OutputFile.open(path, FILE_MODE, 0);
    const text = JSON.stringify({ version: VERSION, terms: this.#terms, ...this.position });
    await file.write(Buffer.from(`${text}\n`));
    await file.settle();
    await file.close();
    await nameAtLast(path);
  }

  /** Removes a part that is not complete. */
  async close(): Promise<void> {
    await this.#part?.discard();
    this.#part = undefined;
  }

  #pathOf(part: number): string {
    const ending = this.#encrypter === undefined ? '' : '.age';
    return join(this.#folder, `pairs-${String(part).padStart(4, '0')}.ndjson${ending}`);
  }

  #read(): ExportPosition {
    const path = join(this.#folder, CHECKPOINT);
    const { version, terms, ...position } = JSON.parse(readFileSync(path, 'utf8'));
    if (version !== VERSION)
      throw new OperatorError(`${path} is of another version: export into a new folder.`);
    for (const [name, before] of Object.entries(terms)) {
      if (this.#terms[name] !== before)
        throw new OperatorError(
          `The run to continue had another ${name}. Use the same, or export into a new folder.`,
        );
    }
    return position;
  }
}

/** A file that is encrypted as it is written. */
class Part {
  readonly #path: string;
  readonly #file: OutputFile;
  readonly #input: WritableStreamDefaultWriter<Uint8Array> | undefined;
  /** Ends with everything in the file. */
  readonly #written: Promise<void>;

  private constructor(
    path: string,
    file: OutputFile,
    input?: WritableStreamDefaultWriter<Uint8Array>,
    output?: ReadableStream<Uint8Array>,
  ) {
    this.#path = path;
    this.#file = file;
    this.#input = input;
    this.#written = output === undefined ? Promise.resolve() : pour(output, file);
    // The failure is thrown where the next write is awaited.
    this.#written.catch(() => {});
  }

  static async open(path: string, encrypter: Encrypter | undefined): Promise<Part> {
    const file = await OutputFile.open(path, FILE_MODE, 0);
    if (encrypter === undefined) return new Part(path, file);
    const { readable, writable } = new TransformStream<Uint8Array, Uint8Array>();
    const input = writable.getWriter();
    return new Part(path, file, input, await encrypter.encrypt(readable));
  }

  async write(bytes: Buffer): Promise<void> {
    if (this.#input === undefined) return this.#file.write(bytes);
    await this.#input.write(bytes).catch(async (error) => {
      await this.#written;
      throw error;
    });
  }

  async complete(): Promise<void> {
    await this.#input?.close();
    await this.#written;
    await this.#file.settle();
    await this.#file.close();
    await nameAtLast(this.#path);
  }

  async discard(): Promise<void> {
    await this.#input?.abort().catch(() => {});
    await this.#written.catch(() => {});
    await this.#file.close();
    rmSync(partialOf(this.#path), { force: true });
  }
}

async function pour(output: ReadableStream<Uint8Array>, file: OutputFile): Promise<void> {
  for await (const chunk of output) await file.write(Buffer.from(chunk));
}
