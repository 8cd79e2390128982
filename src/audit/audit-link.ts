import { randomLatin1 } from '../crypto/primitives.ts';

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
export type LinkMac = (last: string, line: Uint8Array) => string;

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
  readonly body: Uint8Array;
  readonly opening: Pick<Opening, 'size' | 'after'> | undefined;
  /** The link of another chain before the line, as `otherText` writes it; empty: none. */
  readonly other: string;
}

const CHAIN_BYTES = 8;
const [OPENING_BRACE, CLOSING_BRACE, QUOTE, BACKSLASH] = Buffer.from(
  '{}"\\',
) as unknown as number[];
const MAC = ',"mac":"';
/** After the part that the hash covers: the hash, a quote and a brace. */
const MAC_BYTES = MAC.length + 22 + 2;
/** The most bytes of a link without an opening. */
const MAX_LINK_BYTES = 96;
const LINK = /^,"chain":"([0-9a-f]{16})","seq":([1-9]\d{0,14}),"mac":"([\w-]{22})"\}$/;
const OPENING = /,"file":"(?:[^"\\]|\\.)*","size":(\d{1,15}),"after":"([\w:-]*)"$/;
const OTHER = /,"other":"([\w:-]+)"$/;
const LINK_TEXT = /^([0-9a-f]{16}):([1-9]\d{0,14}):([\w-]{22})$/;

export function newChain(): Link {
  const chain = Buffer.from(randomLatin1(CHAIN_BYTES), 'latin1').toString('hex');
  return { chain, sequence: 0, mac: '' };
}

/** The most bytes of a line with its link. */
export function mostBytes(line: string, opening: string): number {
  return Buffer.byteLength(line) + Buffer.byteLength(opening) + MAX_LINK_BYTES;
}

/** An opening as it is written before a link. */
export function openingText(opening: Opening): string {
  return `,${JSON.stringify(opening).slice(1, -1)}`;
}

/** A link of another chain as it is written before a link, and before an opening. */
export function otherText(other: Link): string {
  return `,"other":"${linkText(other)}"`;
}

/**
 * Writes a line with its link into a buffer: as bytes, because a text would be copied three times.
 * @param line a JSON object and a line feed; it stays one with the link at its end
 * @param opening from `otherText` and `openingText`, or empty
 * @returns the link, and where the line ends
 */
export function writeLine(
  buffer: Buffer,
  from: number,
  line: string,
  opening: string,
  { chain, sequence: last, mac: lastMac }: Link,
  macOf: LinkMac,
): { readonly link: Link; readonly end: number } {
  const sequence = last + 1;
  // The link takes the place of the brace and the line feed.
  let end = from + buffer.write(line, from) - 2;
  if (opening !== '') end += buffer.write(opening, end);
  end += buffer.write(`,"chain":"${chain}","seq":${sequence}`, end, 'latin1');
  const mac = macOf(lastMac, buffer.subarray(from, end));
  end += buffer.write(`${MAC}${mac}"}\n`, end, 'latin1');
  return { link: { chain, sequence, mac }, end };
}

/**
 * @param bytes a line without its line feed
 * @returns undefined for a line without a link
 */
export function linkedLine(bytes: Buffer): LinkedLine | undefined {
  const line = bytes.toString('latin1');
  const at = line.lastIndexOf(',"chain":"');
  const found = at === -1 ? null : LINK.exec(line.slice(at));
  if (found === null) return undefined;
  const [, chain, sequence, mac] = found as unknown as [string, string, string, string];
  const before = line.lastIndexOf(',"after":"', at) === -1 ? null : OPENING.exec(line.slice(0, at));
  const opening = before === null ? undefined : { size: Number(before[1]), after: before[2]! };
  const named = line.lastIndexOf(',"other":"', at);
  const other = named === -1 ? undefined : OTHER.exec(line.slice(named, before?.index ?? at))?.[1];
  const body = bytes.subarray(0, -MAC_BYTES);
  return { chain, sequence: Number(sequence), mac, body, opening, other: other ?? '' };
}

/** A link in one word: `CHAIN:SEQ:MAC`. */
export function linkText({ chain, sequence, mac }: Link): string {
  return `${chain}:${sequence}:${mac}`;
}

/**
 * Whether a line can be the beginning of one that a node wrote: an object that does not end. No
 * reader takes it for a line.
 */
export function isPart(bytes: Buffer): boolean {
  if (bytes[0] !== OPENING_BRACE) return false;
  let depth = 0;
  let isText = false;
  for (let at = 0; at < bytes.length; at++) {
    const byte = bytes[at]!;
    if (isText && byte === BACKSLASH) at++;
    else if (byte === QUOTE) isText = !isText;
    else if (!isText && byte === OPENING_BRACE) depth++;
    else if (!isText && byte === CLOSING_BRACE && --depth === 0) return false;
  }
  return true;
}

/** @returns undefined for a text that `linkText` cannot have made */
export function linkOf(text: string): Link | undefined {
  const found = LINK_TEXT.exec(text);
  return found === null
    ? undefined
    : { chain: found[1]!, sequence: Number(found[2]), mac: found[3]! };
}
