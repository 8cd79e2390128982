import * as fs from 'node:fs';
import { access, lstat, realpath, stat } from 'node:fs/promises';
import { dirname, resolve } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { promisify } from 'node:util';
import { errorCode, OperatorError } from '../errors.ts';
import { shownLines } from '../terminal.ts';
import {
  type Link,
  type LinkMac,
  linkedLine,
  linkText,
  mostBytes,
  newChain,
  openingText,
  otherText,
  writeLine,
} from './audit-link.ts';

const { O_APPEND, O_CREAT, O_NOFOLLOW, O_NONBLOCK, O_RDWR, O_WRONLY } = fs.constants;
const [open, close, fstat] = [promisify(fs.open), promisify(fs.close), promisify(fs.fstat)];
const write = promisify(fs.write);

/** The AUDIT_LOG setting for standard output. */
export const STANDARD_OUTPUT = 'stdout';
const FILE_MODE = 0o600;
/** The shortest time between checks for a rename. */
const REFRESH_INTERVAL_MS = 1_000;
const WRITE_BYTES = 65_536;
/** PIPE_BUF of Linux: a write to a pipe up to this size is whole or fails. */
const WHOLE_WRITE_BYTES = 4_096;
/** Pause before another try on a full pipe. */
const FULL_PIPE_PAUSE_MS = 5;
/** Time for another process to finish a write, which takes microseconds. */
const SECOND_READ_MS = 2;
const LINE_FEED = 0x0a;
/** How often a line names the last link of another chain. */
const OTHER_INTERVAL_MS = 60_000;
/** The end of a file that is searched for its last link: lines have some 500 bytes. */
const TAIL_BYTES = 65_536;

/** The result of an append: how many lines were written whole, from the first on. */
export interface Appended {
  readonly lines: number;
  /** Why the other lines were not written: an errno name. */
  readonly failure: string | undefined;
}

interface OpenFile {
  readonly fd: number;
  readonly device: bigint;
  readonly inode: bigint;
  /** Not a pipe or a device, so its last byte can be read. */
  readonly isRegular: boolean;
}

type End = ReturnType<typeof endOf>;

/**
 * The destination of audit lines: standard output, a pipe, or a file that several processes append
 * to and log rotation renames. It opens itself, and opens again after every failure.
 */
export class AuditFile {
  readonly #path: string;
  readonly #macOf: LinkMac;
  /** The lines of the write that is under way. */
  readonly #buffer = Buffer.allocUnsafeSlow(WRITE_BYTES);
  /** The last link that was written. */
  #head = newChain();
  /** Whether the next line is the first of the chain in the file, and tells the place. */
  #isOpening = true;
  #file: OpenFile | undefined;
  #refreshAtMs = 0;
  /** Whether the last write to a pipe or device ended inside a line. */
  #torn = false;
  /** Where the file ended after the last write. */
  #end = 0;
  /** The last link of another chain that was found in the file and is not named yet. */
  #other: Link | undefined;
  #nameOtherAtMs = 0;

  /** @param path a file, a pipe, or `stdout` for standard output */
  constructor(path: string, macOf: LinkMac) {
    this.#path = path;
    this.#macOf = macOf;
  }

  /** The link of the last line that was written; its sequence is 0 before the first. */
  get head(): Link {
    return this.#head;
  }

  /**
   * Appends lines, each a JSON object and a line feed, with their links. Never rejects. The caller
   * must wait for one append before the next. A line is written whole or counted as not written; a
   * line that was cut short is written again. Lines that were not written leave no gap.
   * @param deadlineMs a performance.now() time after which no write starts
   */
  async append(given: readonly string[], deadlineMs: number): Promise<Appended> {
    // Ids come from the database, which other programs can write, so they may contain line ends.
    const lines = given.map(shownLines);
    let appended = 0;
    try {
      const file = await this.#current();
      while (appended < lines.length) {
        if (performance.now() > deadlineMs) throw withCode('ETIMEDOUT');
        appended += await this.#write(file, lines, appended);
      }
      return { lines: appended, failure: undefined };
    } catch (error) {
      await this.close();
      return { lines: appended, failure: errorCode(error) ?? 'EIO' };
    }
  }

  /** Makes the next append check for a rename. */
  refresh(): void {
    this.#refreshAtMs = 0;
  }

  /** @returns the number of lines written whole: at least one, or 0 when a pipe is full */
  async #write(file: OpenFile, lines: readonly string[], from: number): Promise<number> {
    const end = await this.#endOf(file);
    const other = this.#otherAt(file, end.size);
    const { bytes: text, links } = this.#chunkOf(lines, from, file, end, other);
    try {
      const { bytesWritten: bytes } = await write(file.fd, text, 0, text.length, null);
      this.#torn = text[bytes - 1] !== LINE_FEED;
      const isAll = bytes === text.length;
      const whole = isAll ? links.length : wholeLinesIn(text.subarray(0, bytes));
      if (whole === 0) throw withCode('ENOSPC');
      this.#head = links[whole - 1]!;
      this.#isOpening = false;
      this.#end = end.size + bytes;
      if (other !== '') {
        this.#other = undefined;
        this.#nameOtherAtMs = performance.now() + OTHER_INTERVAL_MS;
      }
      return whole;
    } catch (error) {
      if (errorCode(error) !== 'EAGAIN') throw error;
      await sleep(FULL_PIPE_PAUSE_MS);
      return 0;
    }
  }

  /** Links as many lines, beginning at `from`, as fit into one write: at least one. */
  #chunkOf(
    lines: readonly string[],
    from: number,
    file: OpenFile,
    { size, isTorn }: End,
    other: string,
  ) {
    const most = file.isRegular ? WRITE_BYTES : WHOLE_WRITE_BYTES;
    const links: Link[] = [];
    let opening = other + this.#openingAt(file, size);
    const needed = mostBytes(lines[from]!, opening) + 1;
    const buffer = needed > WRITE_BYTES ? Buffer.allocUnsafe(needed) : this.#buffer;
    // A full disk or a killed process may have left part of a line. It stays on a line of its own.
    let end = isTorn ? buffer.write('\n') : 0;
    for (let i = from; i < lines.length; i++) {
      const line = lines[i]!;
      if (i > from && end + mostBytes(line, opening) > most) break;
      const previous = links.at(-1) ?? this.#head;
      const written = writeLine(buffer, end, line, opening, previous, this.#macOf);
      links.push(written.link);
      end = written.end;
      opening = '';
    }
    return { bytes: buffer.subarray(0, end), links };
  }

  /**
   * What the next line says about another chain, once a minute while others write: without it,
   * nobody could see that all lines of a run are gone.
   */
  #otherAt(file: OpenFile, size: number): string {
    // The first line of a chain names the last one of the file anyway.
    if (this.#head.sequence === 0) return '';
    this.#other = this.#lastLink(file, this.#end, size) ?? this.#other;
    const isDue = this.#other !== undefined && performance.now() >= this.#nameOtherAtMs;
    return isDue ? otherText(this.#other!) : '';
  }

  /** What the next line says about its place; empty where the chain goes on in the same file. */
  #openingAt(file: OpenFile, size: number): string {
    // A file that was cut to nothing begins like a new one.
    if (!this.#isOpening && !(file.isRegular && size === 0)) return '';
    const last = this.#head.sequence > 0 ? this.#head : this.#lastLink(file, 0, size);
    const after = last === undefined ? '' : linkText(last);
    return openingText({ file: this.#path, size, after });
  }

  /** The link of the last whole line between two places that is of another chain. */
  #lastLink({ fd, isRegular }: OpenFile, from: number, size: number): Link | undefined {
    if (!isRegular || size <= from) return undefined;
    const tail = Buffer.alloc(Math.min(size - from, TAIL_BYTES));
    fs.readSync(fd, tail, 0, tail.length, size - tail.length);
    let to = tail.lastIndexOf(LINE_FEED);
    while (to > 0) {
      const start = tail.lastIndexOf(LINE_FEED, to - 1) + 1;
      const link = linkedLine(tail.subarray(start, to));
      if (link !== undefined && link.chain !== this.#head.chain) return link;
      to = start - 1;
    }
    return undefined;
  }

  /** Reads the last byte of a file each time, because another process may have written it. */
  async #endOf({ fd, isRegular }: OpenFile): Promise<End> {
    if (!isRegular) return { size: 0, isTorn: this.#torn };
    const end = endOf(fd);
    if (!end.isTorn) return end;
    // Another process may be writing now: the size of a file grows page by page.
    await sleep(SECOND_READ_MS);
    return endOf(fd);
  }

  /** The file that has the configured name now. */
  async #current(): Promise<OpenFile> {
    const file = this.#file;
    if (file !== undefined && performance.now() < this.#refreshAtMs) return file;
    this.#refreshAtMs = performance.now() + REFRESH_INTERVAL_MS;
    try {
      if (file !== undefined && (await hasName(file, this.#path))) return file;
      this.#file = await openFile(this.#path);
      this.#isOpening = true;
      this.#end = 0;
      // Whoever verifies the new file may not have the old one.
      this.#other = undefined;
    } catch (error) {
      // The file was renamed, and this user cannot create the next one: continue with the old file.
      if (file !== undefined && (await fstat(file.fd)).nlink > 0) return file;
      throw error;
    }
    if (file !== undefined) await close(file.fd);
    return this.#file;
  }

  /** The next append opens it again. */
  async close(): Promise<void> {
    const file = this.#file;
    this.#file = undefined;
    if (file !== undefined && this.#path !== STANDARD_OUTPUT) await close(file.fd).catch(() => {});
  }
}

/**
 * Checks that the audit log can be written. A pipe needs no reader yet.
 * @param isCreated whether a file that is not there is made, which shows what its rights do not
 * @returns the file, or the folder of a file to come; undefined: it is not on a disk
 * @throws OperatorError
 */
export async function checkAuditFile(
  path: string,
  isCreated: boolean,
): Promise<string | undefined> {
  if (path === STANDARD_OUTPUT) return undefined;
  const { W_OK, X_OK } = fs.constants;
  try {
    const there = await statOf(path);
    const written = there === undefined && !isCreated ? dirname(resolve(path)) : path;
    const named = await lstat(path).catch(() => undefined);
    if (there === undefined && named?.isSymbolicLink()) throw withCode('ELOOP');
    if (written !== path) await access(written, W_OK | X_OK);
    // Opening and closing a pipe here would look like the end of the log to its reader.
    else if (there?.isFIFO()) await access(path, W_OK);
    else await close((await openFile(path)).fd);
    return there?.isFile() === false ? undefined : await realpath(written);
  } catch (error) {
    throw new OperatorError(
      `The file of AUDIT_LOG, ${path}, cannot be opened for writing (${errorCode(error)}). Let this user write to the file and its folder, or set AUDIT_LOG to another file.`,
    );
  }
}

/** undefined: there is no such file. */
function statOf(path: string): Promise<fs.BigIntStats | undefined> {
  return stat(path, { bigint: true }).catch((error) => {
    if (errorCode(error) !== 'ENOENT') throw error;
    return undefined;
  });
}

async function openFile(path: string): Promise<OpenFile> {
  if (path === STANDARD_OUTPUT) return { fd: 1, device: 0n, inode: 0n, isRegular: false };
  const there = await stat(path).catch(() => undefined);
  const isRegular = there === undefined || there.isFile();
  // O_APPEND lets nodes on a machine share the file, because appends do not mix. O_WRONLY for
  // pipes: opened for reading, too, a pipe would be its own reader.
  // O_NOFOLLOW for files only: anybody could have made a link to a file, but /dev/stdout is a link
  // to a device.
  const flags = isRegular
    ? O_RDWR | O_APPEND | O_CREAT | (O_NOFOLLOW ?? 0)
    : O_WRONLY | O_APPEND | O_NONBLOCK;
  const fd = await open(path, flags, FILE_MODE);
  const { dev: device, ino: inode } = await fstat(fd, { bigint: true });
  return { fd, device, inode, isRegular };
}

async function hasName({ device, inode }: OpenFile, path: string): Promise<boolean> {
  if (path === STANDARD_OUTPUT) return true;
  const there = await statOf(path);
  return there?.dev === device && there?.ino === inode;
}

/**
 * The size of a file, and whether its last line has no line feed. Synchronous, because the end of
 * the file is in memory.
 */
function endOf(fd: number) {
  const { size } = fs.fstatSync(fd);
  const last = Buffer.alloc(1, LINE_FEED);
  if (size > 0) fs.readSync(fd, last, 0, 1, size - 1);
  return { size, isTorn: last[0] !== LINE_FEED };
}

/** A line feed at the beginning ends a line that another write began. */
function wholeLinesIn(text: Uint8Array): number {
  let lines = text[0] === LINE_FEED ? -1 : 0;
  for (const byte of text) if (byte === LINE_FEED) lines++;
  return lines;
}

function withCode(code: string): Error {
  return Object.assign(new Error(code), { code });
}
