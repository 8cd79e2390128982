import { write } from 'node:fs';
import { Socket } from 'node:net';

/** How long a line may wait for others, so that they share a write. */
const FLUSH_INTERVAL_MS = 20;
/** PIPE_BUF of Linux: up to this size writes to a pipe are whole, also beside those of others. */
const PIPE_CHUNK_BYTES = 4_096;
/** To anything else, a write wakes a thread: the fewer, the better. */
const CHUNK_BYTES = 65_536;
/** Lines that wait for standard output to take them; more are dropped and counted. */
const MAX_WAITING_BYTES = 4_194_304;
/** A disk that is full is tried again. */
const RETRY_PAUSE_MS = 500;
/** At the end of the process, for lines that wait. */
const FLUSH_TIMEOUT_MS = 1_000;

/**
 * Standard output for lines, in memory that has a bound: nobody has to read it, and its disk may be
 * full. Our own instead of pino's, whose last flush waits for a reader for ever.
 */
export class LogOutput {
  /** Lines that nobody will see. */
  dropped = 0;
  readonly #onBack: (dropped: number) => void;
  #onWaiting: (bytes: number) => void = () => {};
  readonly #chunkBytes = isPipe() ? PIPE_CHUNK_BYTES : CHUNK_BYTES;
  #chunk = '';
  #bytes = 0;
  #isPassDue = false;
  #waiting: Buffer[] = [];
  #waitingBytes = 0;
  #isWriting = false;
  /** A write to a file or a terminal is under way. */
  #isInThread = false;
  /** Whoever read it has gone, and nobody else can come. */
  #isClosed = false;
  #told = 0;
  #onEmpty: (() => void) | undefined;

  /** @param onBack standard output takes lines again; so many were dropped since the last time */
  constructor(onBack: (dropped: number) => void) {
    this.#onBack = onBack;
    // What became of a write is told to its callback, too.
    process.stdout.on('error', () => {});
  }

  /** @param onWaiting from now on told how many bytes more wait, or fewer */
  countWaiting(onWaiting: (bytes: number) => void): void {
    this.#onWaiting = onWaiting;
    onWaiting(this.#waitingBytes);
  }

  write(line: string): void {
    const lineBytes = Buffer.byteLength(line);
    if (this.#bytes + lineBytes > this.#chunkBytes) this.#pass();
    this.#chunk += line;
    this.#bytes += lineBytes;
    if (this.#isPassDue) return;
    this.#isPassDue = true;
    setTimeout(() => {
      this.#isPassDue = false;
      this.#pass();
    }, FLUSH_INTERVAL_MS);
  }

  /** Ends the process when all lines are written, or cannot be. */
  end(exitCode: number): void {
    this.#pass();
    setTimeout(() => this.#leave(exitCode), FLUSH_TIMEOUT_MS);
    this.#onEmpty = () => process.exit(exitCode);
    if (!this.#isWriting) this.#onEmpty();
  }

  #pass(): void {
    if (this.#bytes === 0) return;
    const chunk = Buffer.from(this.#chunk);
    this.#chunk = '';
    this.#bytes = 0;
    if (this.#isClosed || this.#waitingBytes + chunk.length > MAX_WAITING_BYTES) {
      this.dropped += linesIn(chunk);
      return;
    }
    this.#waiting.push(chunk);
    this.#wait(chunk.length);
    if (!this.#isWriting) this.#next();
  }

  /** One write at a time: together, those to a pipe would not be whole. */
  #next(): void {
    const chunk = this.#waiting[0];
    this.#isWriting = chunk !== undefined;
    if (chunk !== undefined) this.#write(chunk);
    else this.#empty();
  }

  #empty(): void {
    this.#onEmpty?.();
    const dropped = this.dropped - this.#told;
    this.#told = this.dropped;
    if (dropped > 0) this.#onBack(dropped);
  }

  #write(chunk: Buffer): void {
    if (isPipe()) {
      process.stdout.write(chunk, (error) => (error ? this.#close() : this.#taken(chunk.length)));
      return;
    }
    this.#isInThread = true;
    write(1, chunk, (error, written) => {
      this.#isInThread = false;
      if (error === null) this.#taken(written);
      else setTimeout(() => this.#next(), RETRY_PAUSE_MS);
    });
  }

  #taken(bytes: number): void {
    const chunk = this.#waiting[0]!;
    if (bytes < chunk.length) this.#waiting[0] = chunk.subarray(bytes);
    else this.#waiting.shift();
    this.#wait(-bytes);
    this.#next();
  }

  #wait(bytes: number): void {
    this.#waitingBytes += bytes;
    this.#onWaiting(bytes);
  }

  #close(): void {
    this.#isClosed = true;
    this.dropped += this.#waiting.reduce((lines, chunk) => lines + linesIn(chunk), 0);
    this.#told = this.dropped;
    this.#waiting = [];
    this.#wait(-this.#waitingBytes);
    this.#next();
  }

  /**
   * A write that does not return, as to a terminal that is held, keeps its thread. Node waits for
   * its threads before it ends: then only the kernel can end the process.
   */
  #leave(exitCode: number): void {
    if (this.#isInThread) process.kill(process.pid, 'SIGKILL');
    process.exit(exitCode);
  }
}

/** Node writes to a pipe or a socket without a thread that would wait in the kernel. */
function isPipe(): boolean {
  return process.stdout instanceof Socket && !process.stdout.isTTY;
}

function linesIn(chunk: Buffer): number {
  let lines = 0;
  for (const byte of chunk) if (byte === 10) lines++;
  return lines;
}
