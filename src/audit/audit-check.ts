import { type Link, type LinkedLine, type LinkMac, linkOf, linkText } from './audit-link.ts';

/** A line of a file; numbers are from 1 on. */
export interface LinePlace {
  readonly file: string;
  readonly line: number;
}

/**
 * `changed`: not as a node wrote it, or added. `missing`: lines before it were removed. `moved`: it
 * was repeated or is not in its place. `unlinked`: added without a link. `named`: lines that it
 * names as the last ones before it were removed.
 */
export type Problem = 'changed' | 'missing' | 'moved' | 'unlinked' | 'named';

export interface AuditFinding extends LinePlace {
  readonly problem: Problem;
  readonly detail: string;
}

/** A line whose own hash could not be checked: the line after it tells more. */
interface Suspect extends LinePlace {
  readonly sequence: number;
  /** Hashes that the next line may follow: the one in the line, and the one that it should have. */
  readonly macs: readonly string[];
}

interface Chain {
  /** The last line that is as it was written. */
  last: Pick<Link, 'sequence' | 'mac'>;
  suspect: Suspect | undefined;
}

/** A link that lines must reach. */
interface Claim extends LinePlace {
  readonly link: Link;
}

/** Checks the lines of an audit log in the order in which they were written. */
export class AuditCheck {
  readonly #macOf: LinkMac;
  readonly #onFinding: (finding: AuditFinding) => void;
  readonly #chains = new Map<string, Chain>();
  /** Chains that continue a file which was not given, with the link before their first line. */
  readonly earlier: string[] = [];
  readonly #claims: Claim[] = [];
  #isFirstFile = true;

  constructor(macOf: LinkMac, onFinding: (finding: AuditFinding) => void) {
    this.#macOf = macOf;
    this.#onFinding = onFinding;
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
    const chain = this.#chainOf(line.chain);
    const { last, suspect } = chain;
    if (this.#follows(line, last.mac)) {
      this.#dismiss(suspect, last.sequence);
      this.#accept(chain, line, place);
    } else if (suspect?.macs.some((mac) => this.#follows(line, mac))) {
      this.#judge(chain, suspect, line, place);
    } else if (this.#opensLater(line, last)) {
      this.#dismiss(suspect, last.sequence);
      this.#skipTo(line, last, place);
      this.#accept(chain, line, place);
    } else {
      this.#dismiss(suspect, last.sequence);
      const { sequence, mac } = line;
      const macs = [mac, this.#macOf(startOf(line) ?? last.mac, line.body)];
      chain.suspect = { ...place, sequence, macs };
    }
  }

  /** Ends the check. @param expected links that were noted elsewhere */
  end(expected: readonly Link[], place: LinePlace): void {
    for (const { last, suspect } of this.#chains.values()) this.#dismiss(suspect, last.sequence);
    const claims = [...this.#claims, ...expected.map((link) => ({ ...place, link }))];
    for (const { link, ...where } of claims) {
      const reached = this.#chains.get(link.chain)?.last.sequence ?? 0;
      if (reached >= link.sequence) continue;
      const first = reached + 1;
      this.#find(where, 'named', missingText(link.chain, first, link.sequence));
    }
  }

  #chainOf(name: string): Chain {
    let chain = this.#chains.get(name);
    if (chain === undefined) {
      chain = { last: { sequence: 0, mac: '' }, suspect: undefined };
      this.#chains.set(name, chain);
    }
    return chain;
  }

  /** Whether a line is as it was written, right after the line with this hash. */
  #follows(line: LinkedLine, mac: string): boolean {
    const start = startOf(line);
    return (start === undefined || start === mac) && this.#macOf(mac, line.body) === line.mac;
  }

  /** Whether a line is the first in its file, as it was written, with lines missing before it. */
  #opensLater(line: LinkedLine, last: Chain['last']): boolean {
    const start = startOf(line);
    return start !== undefined && line.sequence > last.sequence && this.#follows(line, start);
  }

  #accept(chain: Chain, line: LinkedLine, place: LinePlace): void {
    chain.last = { sequence: line.sequence, mac: line.mac };
    chain.suspect = undefined;
    for (const text of [line.opening?.after ?? '', line.other]) {
      const link = linkOf(text);
      if (link !== undefined && link.chain !== line.chain) this.#claims.push({ ...place, link });
    }
  }

  /** The line after a suspect follows it, so the number of the suspect is known. */
  #judge(chain: Chain, suspect: Suspect, line: LinkedLine, place: LinePlace): void {
    const { sequence: last } = chain.last;
    const sequence = line.sequence - 1;
    if (sequence <= last) {
      this.#dismiss(suspect, last);
      chain.suspect = { ...place, sequence: line.sequence, macs: [line.mac] };
      return;
    }
    if (sequence === last + 1 || sequence !== suspect.sequence)
      this.#find(suspect, 'changed', 'this line was changed');
    if (sequence > last + 1)
      this.#find(
        suspect,
        'missing',
        `${missingText(line.chain, last + 1, sequence - 1)} before it`,
      );
    this.#accept(chain, line, place);
  }

  /** The first line of a chain in a file names the line before, so it needs none. */
  #skipTo({ chain, sequence, opening }: LinkedLine, last: Chain['last'], place: LinePlace): void {
    if (last.sequence === 0 && this.#isFirstFile) this.earlier.push(opening!.after);
    else
      this.#find(
        place,
        'missing',
        `${missingText(chain, last.sequence + 1, sequence - 1)} before it`,
      );
  }

  #dismiss(suspect: Suspect | undefined, last: number): void {
    if (suspect === undefined) return;
    if (suspect.sequence <= last)
      this.#find(suspect, 'moved', 'this line is a repetition, or not in its place');
    else
      this.#find(suspect, 'changed', 'this line was changed or added, or lines before it removed');
  }

  #find({ file, line }: LinePlace, problem: Problem, detail: string): void {
    this.#onFinding({ file, line, problem, detail });
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
  return after?.chain === chain && after.sequence === sequence - 1 ? after.mac : undefined;
}

function missingText(chain: string, first: number, last: number): string {
  const which = first === last ? `line ${first} is` : `lines ${first} to ${last} are`;
  return `${which} missing in chain ${chain}`;
}
