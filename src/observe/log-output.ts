import { write } from 'node:fs';
import { Socket } from 'node:net';

/** Longest wait of a line for other lines, so that they share a write. */
const FLUSH_INTERVAL_MS = 20;
/**
 * PIPE_BUF of Linux. Writes to a pipe up to this size are never mixed with the writes of other
 * processes.
 */
const PIPE_CHUNK_BYTES = 4_096;
/** For all other outputs: each write wakes a thread, so large writes cost less. */
const CHUNK_BYTES = 65_536;
/** The most bytes of a UTF-16 unit as UTF-8. */
const MAX_UNIT_BYTES = 3;
/** Bytes that wait for standard output. Further lines are dropped and counted. */
const MAX_WAITING_BYTES = 4_194_304;
/** Pause before another attempt to write to a full disk. */
const RETRY_PAUSE_MS = 500;
/** Time for the waiting lines at the end of the process. */
const FLUSH_TIMEOUT_MS = 1_000;

/**
 * Writes lines to standard output from bounded memory: the reader may be slow or gone, and the disk
 * may be full. Replaces pino's own output, whose last flush can wait for a reader for ever.
 */
export class LogOutput {
  /** Number of lines that were lost. */
  dropped = 0;
  readonly #onBack: (dropped: number) => void;
  #onWaiting: (bytes: number) => void = () => {};
  readonly #chunk = Buffer.alloc(isPipe() ? PIPE_CHUNK_BYTES : CHUNK_BYTES);
  #bytes = 0;
  #isPassDue = false;
  #waiting: Buffer[] = [];
  #waitingBytes = 0;
  #isWriting = false;
  /** A thread is writing to a file or a terminal. */
  #isInThread = false;
  /** The reader of the pipe has gone, and no other can come. */
  #isClosed = false;
  #told = 0;
  #onEmpty: (() => void) | undefined;

  /**
   * @param onBack called when standard output takes lines again, with the number of lines dropped
   * since the last call
   */
  constructor(onBack: (dropped: number) => void) {
    this.#onBack = onBack;
    // The callback of each write reports its error too.
    process.stdout.on('error', () => {});
  }

  /** @param onWaiting called now with the bytes that wait, then with each change of that number */
  countWaiting(onWaiting: (bytes: number) => void): void {
    this.#onWaiting = onWaiting;
    onWaiting(this.#waitingBytes);
  }

  write(line: string): void {
    const room = this.#chunk.length;
    // The exact number of bytes costs as much as the copy.
    if (this.#bytes + MAX_UNIT_BYTES * line.length > room) {
      const lineBytes = Buffer.byteLength(line);
      if (this.#bytes + lineBytes > room) this.#flush();
      if (lineBytes > room) {
        this.#send(Buffer.from(line));
        return;
      }
    }
    this.#bytes += this.#chunk.write(line, this.#bytes);
    if (this.#isPassDue) return;
    this.#isPassDue = true;
    setTimeout(() => {
      this.#isPassDue = false;
      this.#flush();
    }, FLUSH_INTERVAL_MS);
  }

  /** Ends the process when all lines are written, or after FLUSH_TIMEOUT_MS. */
  end(exitCode: number): void {
    this.#flush();
    setTimeout(() => this.#leave(exitCode), FLUSH_TIMEOUT_MS);
    this.#onEmpty = () => process.exit(exitCode);
    if (!this.#isWriting) this.#onEmpty();
  }

  #flush(): void {
    if (this.#bytes === 0) return;
    // A copy, because what waits must hold no more than the bytes that are counted.
    const chunk = Buffer.from(this.#chunk.subarray(0, this.#bytes));
    this.#bytes = 0;
    this.#send(chunk);
  }

  #send(chunk: Buffer): void {
    if (this.#isClosed || this.#waitingBytes + chunk.length > MAX_WAITING_BYTES) {
      this.dropped += linesIn(chunk);
      return;
    }
    this.#waiting.push(chunk);
    this.#wait(chunk.length);
    if (!this.#isWriting) this.#next();
  }

  /** One write at a time: parallel writes to a pipe could be mixed. */
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
   * A write that never returns, for example to a paused terminal, blocks its thread. Node waits for
   * its threads at exit, so only the kernel can end the process.
   */
  #leave(exitCode: number): void {
    if (this.#isInThread) process.kill(process.pid, 'SIGKILL');
    process.exit(exitCode);
  }
}

/** Node writes to a pipe or a socket without a thread, so no write can block. */
function isPipe(): boolean {
  return process.stdout instanceof Socket && !process.stdout.isTTY;
}

function linesIn(chunk: Buffer): number {
  let lines = 0;
  for (const byte of chunk) if (byte === 10) lines++;
  return lines;
}
