import {
  isPart,
  type Link,
  type LinkedLine,
  type LinkMac,
  linkedLine,
  linkOf,
  linkText,
} from './audit-link.ts';

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

export type AuditVerified = Awaited<ReturnType<typeof verifyAudit>>;

/**
 * Checks that the lines of an audit log are as the nodes wrote them.
 * @param sources in the order in which they were written
 */
export async function verifyAudit(sources: readonly AuditSource[], options: AuditVerifyOptions) {
  const { stop, expected } = options;
  const check = new AuditCheck(options);
  let end = { file: '', line: 0 };
  for (const { name, chunks } of sources) {
    const file = new FileCheck(name, check);
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
  return { ...check.counts, earlier: check.earlier, heads: check.heads };
}

/** Cuts a file into lines, and judges those without a link. */
class FileCheck {
  lines = 0;
  readonly #name: string;
  readonly #check: AuditCheck;
  /** Whether a file before this one has links. */
  readonly #isAfterLinks: boolean;
  #rest: Buffer = Buffer.alloc(0);
  #bytes = 0;
  #hasLinks = false;
  /** Bytes of the file up to the end of the last line without a link; 0: there is none. */
  #unlinkedBytes = 0;
  /** Whether the last line is only a part of one. */
  #endsWithPart = false;

  constructor(name: string, check: AuditCheck) {
    this.#name = name;
    this.#check = check;
    this.#isAfterLinks = check.counts.lines > 0;
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
    this.#check.options.onProgress(this.lines - before, chunk.length);
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
    else if (this.#endsWithPart) this.#check.counts.incomplete++;
    else if (this.#hasLinks)
      this.#find('unlinked', 'this line has no link: it was added or changed');
    else {
      this.#check.counts.unlinked++;
      this.#unlinkedBytes = this.#bytes;
    }
  }

  #linked(line: LinkedLine): void {
    if (!this.#hasLinks && this.#unlinkedBytes > (line.opening?.size ?? 0))
      this.#find('unlinked', 'lines without a link were added before this line');
    this.#hasLinks = true;
    this.#check.counts.lines++;
    this.#check.take(line, { file: this.#name, line: this.lines });
  }

  #find(problem: Problem, detail: string): void {
    this.#check.find({ file: this.#name, line: this.lines }, problem, detail);
  }
}

/** A line of a file; numbers are from 1 on. */
interface LinePlace {
  readonly file: string;
  readonly line: number;
}

/**
 * `changed`: not as a node wrote it, or added. `missing`: lines before it were removed. `moved`: it
 * was repeated or is not in its place. `unlinked`: added without a link. `named`: lines that it
 * names as the last ones before it were removed.
 */
type Problem = 'changed' | 'missing' | 'moved' | 'unlinked' | 'named';

export interface AuditFinding extends LinePlace {
  readonly problem: Problem;
  readonly detail: string;
}

interface Chain {
  /** The last line that is as it was written. */
  last: Pick<Link, 'sequence' | 'mac'>;
  /**
   * The line after `last` that is not, with the hashes that the next line may follow: the one in
   * it, and the one that it should have.
   */
  bad: { readonly sequence: number; readonly macs: readonly string[] } | undefined;
}

/** Checks the lines of an audit log in the order in which they were written. */
class AuditCheck {
  readonly options: AuditVerifyOptions;
  /**
   * Over all files. `lines` have a link. `unlinked` come before the first link of their file, from
   * before the log had links. `incomplete` are parts of lines, which a full disk or a killed node
   * left.
   */
  readonly counts = { lines: 0, unlinked: 0, incomplete: 0 };
  readonly #chains = new Map<string, Chain>();
  /** Chains that continue a file which was not given, with the link before their first line. */
  readonly earlier: string[] = [];
  /** Links that lines must reach. */
  readonly #claims: (LinePlace & { readonly link: Link })[] = [];
  #isFirstFile = true;

  constructor(options: AuditVerifyOptions) {
    this.options = options;
  }

  /** The last link of each chain, in the order of their first lines. */
  get heads(): string[] {
    return [...this.#chains].map(([chain, { last }]) => linkText({ chain, ...last }));
  }

  /** Must be called between the lines of two files. */
  nextFile(): void {
    this.#isFirstFile = false;
  }

  take(line: LinkedLine, place: LinePlace): void {
    const { sequence, mac } = line;
    const unknown: Chain = { last: { sequence: 0, mac: '' }, bad: undefined };
    const chain = this.#chains.get(line.chain) ?? unknown;
    this.#chains.set(line.chain, chain);
    const { last, bad } = chain;
    const isNext = this.#follows(line, last.mac);
    const isAfterBad = !isNext && bad?.macs.some((one) => this.#follows(line, one)) === true;
    if (isNext || (sequence > last.sequence && (isAfterBad || this.#opensLater(line)))) {
      const before = isAfterBad ? Math.max(bad!.sequence, last.sequence) : last.sequence;
      if (!isNext) this.#skipTo(line, before, place);
      // Of two lines with one number, as of a machine that went on twice from one image.
      if (!isNext && !isAfterBad && sequence === last.sequence + 1)
        this.find(place, 'moved', 'this line follows another line than the one before it');
      this.#accept(chain, line, place);
      return;
    }
    if (sequence <= last.sequence)
      this.find(place, 'moved', 'this line is a repetition, or not in its place');
    else if (sequence > last.sequence + 1)
      this.#findMissing(place, line.chain, last.sequence + 1, sequence - 1);
    else this.find(place, 'changed', 'this line was changed or added');
    const macs = [mac, this.options.macOf(startOf(line) ?? last.mac, line.body)];
    chain.bad = { sequence, macs };
  }

  /** Ends the check. @param expected links that were noted elsewhere */
  end(expected: readonly Link[], place: LinePlace): void {
    const claims = [...this.#claims, ...expected.map((link) => ({ ...place, link }))];
    for (const { link, ...where } of claims) {
      const reached = this.#chains.get(link.chain)?.last.sequence ?? 0;
      if (reached >= link.sequence) continue;
      this.find(where, 'named', missingText(link.chain, reached + 1, link.sequence));
    }
  }

  /** Whether a line is as it was written, right after the line with this hash. */
  #follows(line: LinkedLine, mac: string): boolean {
    const start = startOf(line);
    return (
      (start === undefined || start === mac) && this.options.macOf(mac, line.body) === line.mac
    );
  }

  /** Whether a line is the first in its file, as it was written. */
  #opensLater(line: LinkedLine): boolean {
    const start = startOf(line);
    return start !== undefined && this.#follows(line, start);
  }

  #accept(chain: Chain, line: LinkedLine, place: LinePlace): void {
    chain.last = { sequence: line.sequence, mac: line.mac };
    chain.bad = undefined;
    for (const text of [line.opening?.after ?? '', line.other]) {
      const link = linkOf(text);
      if (link !== undefined && link.chain !== line.chain) this.#claims.push({ ...place, link });
    }
  }

  /** The first line of a chain in a file names the line before, so it needs none. */
  #skipTo({ chain, sequence, opening }: LinkedLine, last: number, place: LinePlace): void {
    if (last === 0 && this.#isFirstFile) this.earlier.push(opening!.after);
    else if (sequence > last + 1) this.#findMissing(place, chain, last + 1, sequence - 1);
  }

  #findMissing(place: LinePlace, chain: string, first: number, last: number): void {
    const missing = missingText(chain, first, last);
    this.find(place, 'missing', `${missing} before it, or this line was changed`);
  }

  find({ file, line }: LinePlace, problem: Problem, detail: string): void {
    this.options.onFinding({ file, line, problem, detail });
  }
}

/**
 * The hash of the line before that a line itself names: empty for the first of a chain.
 * @returns undefined when it names none
 */
function startOf({ chain, sequence, opening }: LinkedLine): string | undefined {
  if (opening === undefined) return undefined;
  if (sequence === 1) return '';
  const after = linkOf(opening.after);
  return after?.chain === chain ? after.mac : undefined;
}

function missingText(chain: string, first: number, last: number): string {
  const which = first === last ? `line ${first} is` : `lines ${first} to ${last} are`;
  return `${which} missing in chain ${chain}`;
}
