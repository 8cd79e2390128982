import { createReadStream, type ReadStream } from 'node:fs';
import { open, stat } from 'node:fs/promises';
import { pipeline, Readable } from 'node:stream';
import { crc32, createGunzip } from 'node:zlib';
import { BulkError } from './bulk-error.ts';

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
export type Decode = (chunks: AsyncIterable<Buffer>) => AsyncIterator<Buffer>;

/** Reads a file or standard input. Decompresses gzip, which the first two bytes show. */
export class Input {
  /** For messages. */
  readonly name: string;
  readonly #path: string | undefined;
  /** undefined: a pipe, which can be read only once. */
  readonly identity: InputIdentity | undefined;
  readonly #isGzip: boolean | undefined;
  readonly #decode: Decode | undefined;
  #from = 0;
  #stream: Readable | undefined;
  #chunks: AsyncIterator<Buffer> | undefined;
  #unread: Buffer | undefined;

  private constructor(
    path: string,
    identity: InputIdentity | undefined,
    decode: Decode | undefined,
    isGzip?: boolean,
  ) {
    this.#decode = decode;
    this.name = path === '-' ? 'standard input' : path;
    this.#path = path === '-' ? undefined : path;
    this.identity = identity;
    this.#isGzip = isGzip;
  }

  /** @param path "-": standard input @throws BulkError */
  static async open(path: string, decode?: Decode): Promise<Input> {
    if (path === '-') return new Input(path, undefined, decode);
    return reading(path, async () => {
      const status = await stat(path);
      if (status.isDirectory()) throw new BulkError(`${path} is a folder: name a file`);
      // Do not open a pipe twice: closing it would tell the writer that the reader is gone.
      if (!status.isFile()) return new Input(path, undefined, decode);
      const head = await readHead(path);
      const identity = { bytes: status.size, mtime_ms: status.mtimeMs, head: crc32(head) };
      return new Input(path, identity, decode, decode === undefined ? isGzip(head) : undefined);
    });
  }

  /** The next bytes; undefined: the end of the input. @throws BulkError */
  async read(): Promise<Buffer | undefined> {
    if (this.#unread !== undefined) {
      const bytes = this.#unread;
      this.#unread = undefined;
      return bytes;
    }
    return reading(this.name, async () => {
      this.#chunks ??= await this.#start();
      const { value, done } = await this.#chunks.next();
      return done ? undefined : value;
    });
  }

  /** Puts bytes back: the next `read` returns them. */
  unread(bytes: Buffer): void {
    if (bytes.length > 0) this.#unread = bytes;
  }

  /** Continues at an offset in the decompressed bytes. Files only. */
  async seek(offset: number): Promise<void> {
    this.close();
    this.#unread = undefined;
    if (!this.#isGzip && this.#decode === undefined) {
      this.#from = offset;
      return;
    }
    for (let left = offset; left > 0; ) {
      const bytes = await this.read();
      if (bytes === undefined) throw new BulkError(`${this.name} ends before byte ${offset}`);
      if (bytes.length > left) this.unread(bytes.subarray(left));
      left -= bytes.length;
    }
  }

  /**
   * The share of the file before an offset in the decompressed bytes, 0 to 1. Of gzip it is the
   * share that was read, which is ahead. undefined: the size is not known.
   */
  shareBefore(offset: number): number | undefined {
    if (this.identity === undefined || this.#stream === undefined) return undefined;
    const { bytes } = this.identity;
    const isPacked = this.#isGzip || this.#decode !== undefined;
    const done = isPacked ? (this.#stream as ReadStream).bytesRead : offset;
    return bytes === 0 ? 1 : done / bytes;
  }

  close(): void {
    this.#stream?.destroy();
    this.#stream = undefined;
    this.#chunks = undefined;
  }

  async #start(): Promise<AsyncIterator<Buffer>> {
    // With `start`, Node reads at offsets, which fails on a pipe.
    const start = this.#from === 0 ? {} : { start: this.#from };
    const options = { highWaterMark: CHUNK_BYTES, ...start };
    this.#stream = this.#path === undefined ? process.stdin : createReadStream(this.#path, options);
    const raw: AsyncIterator<Buffer> =
      this.#decode?.(this.#stream) ?? this.#stream[Symbol.asyncIterator]();
    if (this.#isGzip !== undefined) return this.#isGzip ? unzipped(raw) : raw;
    const head = await atLeast(raw, 2);
    const all = prepend(head, raw);
    return isGzip(head) ? unzipped(all) : all;
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

function unzipped(chunks: AsyncIterator<Buffer>): AsyncIterator<Buffer> {
  const gunzip = createGunzip({ chunkSize: CHUNK_BYTES });
  const source = Readable.from(prepend(Buffer.alloc(0), chunks), { objectMode: false });
  // Reading gunzip reports every failure of the pipeline.
  pipeline(source, gunzip, () => {});
  return gunzip[Symbol.asyncIterator]();
}

async function* prepend(
  head: Buffer,
  rest: AsyncIterator<Buffer>,
): AsyncGenerator<Buffer, undefined> {
  if (head.length > 0) yield head;
  for (let next = await rest.next(); !next.done; next = await rest.next()) yield next.value;
  return undefined;
}

async function atLeast(chunks: AsyncIterator<Buffer>, bytes: number): Promise<Buffer> {
  let head: Buffer = Buffer.alloc(0);
  while (head.length < bytes) {
    const { value, done } = await chunks.next();
    if (done) break;
    head = Buffer.concat([head, value]);
  }
  return head;
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
