import { AuditCheck, type AuditFinding, type Problem } from './audit-check.ts';
import { isPart, type Link, type LinkedLine, type LinkMac, linkedLine } from './audit-link.ts';

/** A longer line is checked in parts, so that a file without line ends needs no more memory. */
const MAX_LINE_BYTES = 1_048_576;
const LINE_FEED = 0x0a;

export interface AuditSource {
  readonly name: string;
  readonly chunks: AsyncIterable<Buffer>;
}

interface AuditVerifyOptions {
  /** Keyring.auditMac. */
  readonly macOf: LinkMac;
  /** Links from the log, which the lines must reach. */
  readonly expected: readonly Link[];
  readonly stop: AbortSignal;
  readonly onFinding: (finding: AuditFinding) => void;
  readonly onProgress: (lines: number, bytes: number) => void;
}

export interface AuditVerified {
  /** Lines with a link. */
  readonly lines: number;
  /** Lines before the first link of their file, written before the log had links. */
  readonly unlinked: number;
  /** Parts of lines, which a full disk or a killed node left. */
  readonly incomplete: number;
  /** Links before the first lines of their chains, in files that were not given. */
  readonly earlier: readonly string[];
  /** The last link of each chain. */
  readonly heads: readonly string[];
}

/** Counts of AuditVerified, over all files. */
type Counts = Record<'lines' | 'unlinked' | 'incomplete', number>;

/**
 * Checks that the lines of an audit log are as the nodes wrote them.
 * @param sources in the order in which they were written
 */
export async function verifyAudit(
  sources: readonly AuditSource[],
  options: AuditVerifyOptions,
): Promise<AuditVerified> {
  const { stop, expected } = options;
  const check = new AuditCheck(options.macOf, options.onFinding);
  const counts: Counts = { lines: 0, unlinked: 0, incomplete: 0 };
  let end = { file: '', line: 0 };
  for (const { name, chunks } of sources) {
    const file = new FileCheck(name, check, counts, options);
    for await (const chunk of chunks) {
      file.take(chunk);
      if (stop.aborted) break;
    }
    file.end();
    end = { file: name, line: file.lines };
    if (stop.aborted) break;
    check.nextFile();
  }
  check.end(stop.aborted ? [] : expected, end);
  return { ...counts, earlier: check.earlier, heads: check.heads };
}

/** Cuts a file into lines, and judges those without a link. */
class FileCheck {
  lines = 0;
  readonly #name: string;
  readonly #check: AuditCheck;
  readonly #counts: Counts;
  readonly #options: AuditVerifyOptions;
  /** Whether a file before this one has links. */
  readonly #isAfterLinks: boolean;
  #rest: Buffer = Buffer.alloc(0);
  #bytes = 0;
  #hasLinks = false;
  /** Bytes of the file up to the end of the last line without a link; 0: there is none. */
  #unlinkedBytes = 0;
  /** Whether the last line is only a part of one. */
  #endsWithPart = false;

  constructor(name: string, check: AuditCheck, counts: Counts, options: AuditVerifyOptions) {
    this.#name = name;
    this.#check = check;
    this.#counts = counts;
    this.#options = options;
    this.#isAfterLinks = counts.lines > 0;
  }

  take(chunk: Buffer): void {
    const bytes = this.#rest.length === 0 ? chunk : Buffer.concat([this.#rest, chunk]);
    const before = this.lines;
    let from = 0;
    for (let at = bytes.indexOf(LINE_FEED); at !== -1; at = bytes.indexOf(LINE_FEED, from)) {
      this.#bytes++;
      this.#line(bytes.subarray(from, at));
      from = at + 1;
    }
    this.#rest = bytes.subarray(from);
    if (this.#rest.length > MAX_LINE_BYTES) this.#takeRest();
    this.#options.onProgress(this.lines - before, chunk.length);
  }

  end(): void {
    if (this.#rest.length > 0) this.#takeRest();
    else if (this.#endsWithPart) this.#find('changed', 'this line was cut short');
    if (this.#unlinkedBytes > 0 && !this.#hasLinks && this.#isAfterLinks)
      this.#find('unlinked', 'this file has no links, although the one before has');
  }

  #takeRest(): void {
    this.#line(this.#rest);
    this.#rest = Buffer.alloc(0);
  }

  #line(bytes: Buffer): void {
    this.lines++;
    this.#bytes += bytes.length;
    // Nodes may end a part of a line that another node has just completed.
    if (bytes.length === 0) return;
    const linked = linkedLine(bytes);
    this.#endsWithPart = linked === undefined && isPart(bytes);
    if (linked !== undefined) this.#linked(linked);
    else if (this.#endsWithPart) this.#counts.incomplete++;
    else if (this.#hasLinks)
      this.#find('unlinked', 'this line has no link: it was added or changed');
    else {
      this.#counts.unlinked++;
      this.#unlinkedBytes = this.#bytes;
    }
  }

  #linked(line: LinkedLine): void {
    if (!this.#hasLinks && this.#unlinkedBytes > (line.opening?.size ?? 0))
      this.#find('unlinked', 'lines without a link were added before this line');
    this.#hasLinks = true;
    this.#counts.lines++;
    this.#check.take(line, { file: this.#name, line: this.lines });
  }

  #find(problem: Problem, detail: string): void {
    this.#options.onFinding({ file: this.#name, line: this.lines, problem, detail });
  }
}
