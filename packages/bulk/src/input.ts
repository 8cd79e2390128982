import { createReadStream, type ReadStream } from 'node:fs';
import { open, stat } from 'node:fs/promises';
import { pipeline, Readable } from 'node:stream';
import { crc32, createGunzip } from 'node:zlib';
import { BulkError } from './row.ts';

const CHUNK_BYTES = 256 * 1024;
const HEAD_BYTES = 1024;

/** Shows whether the input file has changed since the run began. */
export interface InputIdentity {
  readonly bytes: number;
  readonly mtime_ms: number;
  /** CRC-32 of the first KiB. */
  readonly head: number;
}

/** Turns the bytes of a file into those that are read, such as decrypted ones. @throws BulkError */
export type Decode = (chunks: AsyncIterable<Buffer>) => AsyncIterable<Buffer>;

/** Reads a file or standard input. Decompresses gzip, which the first two bytes show. */
export class Input {
  /** For messages. */
  readonly name: string;
  /** undefined: a pipe, which can be read only once. */
  readonly identity: InputIdentity | undefined;
  readonly #path: string;
  readonly #decode: Decode | undefined;
  /** Offsets in the file are not those in its bytes. */
  readonly #isPacked: boolean;
  #stream: Readable | undefined;
  #chunks: AsyncIterator<Buffer, undefined> | undefined;
  #unread: Buffer | undefined;

  private constructor(
    path: string,
    decode: Decode | undefined,
    identity?: InputIdentity,
    isGzipped = false,
  ) {
    this.name = path === '-' ? 'standard input' : path;
    this.identity = identity;
    this.#path = path;
    this.#decode = decode;
    this.#isPacked = isGzipped || decode !== undefined;
  }

  /** @param path "-": standard input @throws BulkError */
  static async open(path: string, decode?: Decode): Promise<Input> {
    if (path === '-') return new Input(path, decode);
    return reading(path, async () => {
      const status = await stat(path);
      if (status.isDirectory()) throw new BulkError(`${path} is a folder: name a file`);
      // Do not open a pipe twice: closing it would tell the writer that the reader is gone.
      if (!status.isFile()) return new Input(path, decode);
      const head = await readHead(path);
      const identity = { bytes: status.size, mtime_ms: status.mtimeMs, head: crc32(head) };
      return new Input(path, decode, identity, isGzip(head));
    });
  }

  /** The next bytes; undefined: the end of the input. @throws BulkError */
  async read(): Promise<Buffer | undefined> {
    const unread = this.#unread;
    this.#unread = undefined;
    if (unread !== undefined) return unread;
    this.#chunks ??= this.#from(0);
    const { value } = await reading(this.name, () => this.#chunks!.next());
    return value;
  }

  /** Puts bytes back: the next `read` returns them. */
  unread(bytes: Buffer): void {
    this.#unread = bytes;
  }

  /** Continues at an offset in the decompressed bytes. Files only. */
  async seek(offset: number): Promise<void> {
    this.close();
    this.#unread = undefined;
    if (!this.#isPacked) this.#chunks = this.#from(offset);
    for (let left = this.#isPacked ? offset : 0; left > 0; ) {
      const bytes = await this.read();
      if (bytes === undefined) throw new BulkError(`${this.name} ends before byte ${offset}`);
      if (bytes.length > left) this.unread(bytes.subarray(left));
      left -= bytes.length;
    }
  }

  /**
   * The share of the file before an offset in the decompressed bytes, 0 to 1. For packed input it
   * counts the bytes read, so it runs ahead. undefined: the size is not known.
   */
  shareBefore(offset: number): number | undefined {
    if (this.identity === undefined) return undefined;
    const { bytes } = this.identity;
    const done = this.#isPacked ? (this.#stream as ReadStream).bytesRead : offset;
    return done / bytes;
  }

  close(): void {
    this.#stream?.destroy();
    this.#chunks = undefined;
  }

  /** The bytes from an offset in the file. */
  async *#from(start: number): AsyncGenerator<Buffer, undefined> {
    // With `start`, Node reads at offsets, which fails on a pipe.
    const options = { highWaterMark: CHUNK_BYTES, ...(start > 0 && { start }) };
    this.#stream = this.#path === '-' ? process.stdin : createReadStream(this.#path, options);
    const stream: AsyncIterable<Buffer> = this.#stream;
    if (start > 0) yield* stream;
    else yield* unzipped(this.#decode?.(stream) ?? stream);
    return undefined;
  }
}

async function readHead(path: string): Promise<Buffer> {
  const file = await open(path);
  try {
    const { buffer, bytesRead } = await file.read(Buffer.alloc(HEAD_BYTES), 0, HEAD_BYTES, 0);
    return buffer.subarray(0, bytesRead);
  } finally {
    await file.close();
  }
}

function isGzip(head: Buffer): boolean {
  return head[0] === 0x1f && head[1] === 0x8b;
}

/** The chunks, decompressed if they are gzip. */
async function* unzipped(chunks: AsyncIterable<Buffer>): AsyncIterable<Buffer> {
  const all = chunks[Symbol.asyncIterator]();
  let head: Buffer = Buffer.alloc(0);
  while (head.length < 2) {
    const { value, done } = await all.next();
    if (done) break;
    head = Buffer.concat([head, value]);
  }
  const rest = { [Symbol.asyncIterator]: () => all };
  async function* whole() {
    yield head;
    yield* rest;
  }
  if (!isGzip(head)) return yield* whole();
  const gunzip = createGunzip({ chunkSize: CHUNK_BYTES });
  // Reading gunzip reports every failure of the pipeline.
  pipeline(Readable.from(whole(), { objectMode: false }), gunzip, () => {});
  yield* gunzip;
}

async function reading<T>(name: string, work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    const { code = '' } = error as NodeJS.ErrnoException;
    if (code.startsWith('Z_')) {
      throw new BulkError(`The gzip data of ${name} is damaged or cut off (${code})`);
    }
    if (!/^E[A-Z]+$/.test(code)) throw error;
    throw new BulkError(`${name} cannot be read (${code})`);
  }
}
