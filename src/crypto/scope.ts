import {
  DEFAULT_KIND,
  DEFAULT_SPACE,
  isScopeName,
  SCOPE_NAMES,
  type Token,
  type Value,
} from '../types.ts';

/**
 * The kind and the space of a record. They go into every draw, and into what is sealed. A record
 * without a scope is a `text` of the default space, as all records were before policies.
 */
export interface Scope {
  readonly kind: string;
  /** '': the default space. */
  readonly space: string;
  /** Length (1 byte) and characters of the space, then of the kind: an unambiguous prefix. */
  readonly header: string;
  /** The same as bytes. */
  readonly bytes: readonly number[];
  /** See `spaceBytes`. */
  readonly spaceBytes: readonly number[];
}

const scopes = new Map<string, Scope>();

/**
 * Returns the same object for the same names; undefined for a `text` of the default space.
 * @throws RangeError unless isScopeName
 */
export function scopeOf(kind: string, space: string): Scope | undefined {
  if (kind === DEFAULT_KIND && space === DEFAULT_SPACE) return undefined;
  const header = prefixOf(space) + prefixOf(kind);
  let scope = scopes.get(header);
  if (scope === undefined) {
    checkName(kind);
    if (space !== DEFAULT_SPACE) checkName(space);
    const bytes = [...Buffer.from(header, 'latin1')];
    scope = { kind, space, header, bytes, spaceBytes: spaceBytes(space) };
    scopes.set(header, scope);
  }
  return scope;
}

/** The content of a record. */
export interface OpenedValue {
  readonly value: Value;
  readonly scope: Scope | undefined;
  /** The token of an imported record. The vault cannot draw it again. */
  readonly imported?: Token;
}

/** A record without value: the value of its value fingerprint has this imported token. */
export interface OpenedAlias {
  readonly alias: Token;
  /** As in Scope. */
  readonly space: string;
}

/** Added to the length of a kind that an imported token follows. Names are shorter. */
const IMPORTED = 0x40;
/** Ends an imported token, which is printable ASCII. */
const TOKEN_END = '\0';

/** The plaintext of an imported record. Programs from before imports refuse to open it. */
export function importedPlaintext(value: Value, token: Token, scope?: Scope): string {
  const { kind, space } = scope ?? { kind: DEFAULT_KIND, space: DEFAULT_SPACE };
  const length = String.fromCharCode(IMPORTED | kind.length);
  return prefixOf(space) + length + kind + token + TOKEN_END + value;
}

/** The plaintext of an alias. No kind has an empty name. */
export function aliasPlaintext(token: Token, space: string): string {
  return prefixOf(space) + prefixOf('') + token;
}

/** Splits a plaintext that begins with a header. */
export function splitHeader(plaintext: string): OpenedValue | OpenedAlias {
  const kindAt = 1 + plaintext.charCodeAt(0);
  const length = plaintext.charCodeAt(kindAt);
  const kindEnd = kindAt + 1 + (length & ~IMPORTED);
  const space = plaintext.slice(1, kindAt);
  const rest = plaintext.slice(kindEnd);
  if (length === 0) return { alias: rest as Token, space };
  const scope = scopeOf(plaintext.slice(kindAt + 1, kindEnd), space);
  if ((length & IMPORTED) === 0) return { scope, value: rest as Value };
  const end = rest.indexOf(TOKEN_END);
  const imported = rest.slice(0, end) as Token;
  return { scope, value: rest.slice(end + TOKEN_END.length) as Value, imported };
}

/** Bytes that the token fingerprints of a space begin with; none for the default space. */
export function spaceBytes(space: string): readonly number[] {
  if (space === DEFAULT_SPACE) return NO_BYTES;
  return [SPACE_MARK, ...Buffer.from(prefixOf(space), 'latin1')];
}

/**
 * The bytes before a text in its token fingerprint. No token begins with these bytes, but a
 * caller of the default space can send a text that does. Without ESCAPE, it would be a token of the
 * space that it names.
 * @param space `spaceBytes` of the caller's space
 */
export function fingerprintPrefix(text: string, space: readonly number[]): readonly number[] {
  return text.charCodeAt(0) <= ESCAPE && space.length === 0 ? ESCAPED : space;
}

const NO_BYTES: readonly number[] = [];
const SPACE_MARK = 1;
const ESCAPE = 2;
const ESCAPED: readonly number[] = [ESCAPE];

function prefixOf(name: string): string {
  return String.fromCharCode(name.length) + name;
}

function checkName(name: string): void {
  if (!isScopeName(name)) throw new RangeError(`the name of a kind or space is ${SCOPE_NAMES}`);
}
