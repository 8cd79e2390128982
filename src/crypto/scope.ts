import { DEFAULT_KIND, DEFAULT_SPACE } from '../types.ts';

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

const MAX_NAME_LENGTH = 32;

const scopes = new Map<string, Scope>();

/**
 * Returns the same object for the same names; undefined for a `text` of the default space.
 * @throws RangeError for a name that is not 1 to 32 letters, digits, `_` and `-`
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

/** Splits a plaintext that begins with a header. */
export function splitHeader(plaintext: string): { readonly scope: Scope; readonly value: string } {
  const kindAt = 1 + plaintext.charCodeAt(0);
  const valueAt = kindAt + 1 + plaintext.charCodeAt(kindAt);
  const space = plaintext.slice(1, kindAt);
  const kind = plaintext.slice(kindAt + 1, valueAt);
  return { scope: scopeOf(kind, space)!, value: plaintext.slice(valueAt) };
}

/** Bytes that the token fingerprints of a space begin with; none for the default space. */
export function spaceBytes(space: string): readonly number[] {
  if (space === DEFAULT_SPACE) return NO_BYTES;
  return [SPACE_MARK, ...Buffer.from(prefixOf(space), 'latin1')];
}

const NO_BYTES: readonly number[] = [];
/** No token begins with it: tokens are printable ASCII. */
const SPACE_MARK = 1;

function prefixOf(name: string): string {
  return String.fromCharCode(name.length) + name;
}

function checkName(name: string): void {
  if (!/^[\w-]+$/.test(name) || name.length > MAX_NAME_LENGTH)
    throw new RangeError('the name of a kind or space is 1 to 32 letters, digits, _ and -');
}
