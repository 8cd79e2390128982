import { randomLatin1 } from '../../crypto/primitives.ts';

/**
 * The links that chain the lines of an audit log. A chain has the lines of one run of a node: each
 * has the id of the chain, its number, and a keyed hash of the line before and of itself.
 */
export interface Link {
  /** 16 hex digits, drawn when a node starts. */
  readonly chain: string;
  /** From 1 on; 0: no line yet. */
  readonly sequence: number;
  /** 22 characters of base64url; empty: no line yet. */
  readonly mac: string;
}

/** Keyring.auditMac. */
export type LinkMac = (text: string) => string;

/** What the first line of a chain in a file says about the place. */
export interface Opening {
  /** AUDIT_LOG. */
  readonly file: string;
  /** Bytes in the file before the line; 0 for a pipe. */
  readonly size: number;
  /** The last link before the line: of the chain, else of the file. Empty: none. */
  readonly after: string;
}

/** A line taken apart. */
export interface LinkedLine extends Link {
  /** What the hash covers besides the hash of the line before. */
  readonly body: string;
  readonly opening: Pick<Opening, 'size' | 'after'> | undefined;
}

const CHAIN_BYTES = 8;
const MAC = ',"mac":"';
/** After the part that the hash covers: the hash, a quote and a brace. */
const MAC_CHARACTERS = MAC.length + 22 + 2;
const LINK = /^,"chain":"([0-9a-f]{16})","seq":([1-9]\d{0,14}),"mac":"([\w-]{22})"\}$/;
const OPENING = /,"file":"(?:[^"\\]|\\.)*","size":(\d{1,15}),"after":"([\w:-]*)"$/;
const LINK_TEXT = /^([0-9a-f]{16}):([1-9]\d{0,14}):([\w-]{22})$/;

export function newChain(): Link {
  const chain = Buffer.from(randomLatin1(CHAIN_BYTES), 'latin1').toString('hex');
  return { chain, sequence: 0, mac: '' };
}

/** @param line a JSON object and a line feed; it stays one with the link at its end */
export function withLink(
  line: string,
  { chain, sequence: last, mac: lastMac }: Link,
  opening: Opening | undefined,
  macOf: LinkMac,
): { readonly text: string; readonly link: Link } {
  const sequence = last + 1;
  const place = opening === undefined ? '' : `,${JSON.stringify(opening).slice(1, -1)}`;
  const body = `${line.slice(0, -2)}${place},"chain":"${chain}","seq":${sequence}`;
  const mac = macOf(lastMac + body);
  return { text: `${body}${MAC}${mac}"}\n`, link: { chain, sequence, mac } };
}

/**
 * @param line without its line feed
 * @returns undefined for a line without a link
 */
export function linkedLine(line: string): LinkedLine | undefined {
  const at = line.lastIndexOf(',"chain":"');
  const found = at === -1 ? null : LINK.exec(line.slice(at));
  if (found === null) return undefined;
  const [, chain, sequence, mac] = found as unknown as [string, string, string, string];
  const before = line.lastIndexOf(',"after":"', at) === -1 ? null : OPENING.exec(line.slice(0, at));
  const opening = before === null ? undefined : { size: Number(before[1]), after: before[2]! };
  const body = line.slice(0, -MAC_CHARACTERS);
  return { chain, sequence: Number(sequence), mac, body, opening };
}

/** A link in one word: `CHAIN:SEQ:MAC`. */
export function linkText({ chain, sequence, mac }: Link): string {
  return `${chain}:${sequence}:${mac}`;
}

/** @returns undefined for a text that `linkText` cannot have made */
export function linkOf(text: string): Link | undefined {
  const found = LINK_TEXT.exec(text);
  return found === null
    ? undefined
    : { chain: found[1]!, sequence: Number(found[2]), mac: found[3]! };
}
