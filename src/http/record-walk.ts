import { inEach, type PathNode } from '../policy/rules.ts';
import { checkText, type Path, problem, stringEnd } from './data.ts';

/** A string of the body at a path of the policy. */
export interface Place {
  /** Offsets in the text, quotes included. */
  readonly start: number;
  readonly end: number;
  readonly text: string;
  /** The path as the policy has it. */
  readonly path: string;
}

const BRACKET_OR_QUOTE = /["[\]{}]/g;
const QUOTE = 0x22;
const OPEN_OBJECT = 0x7b;
const CLOSE_OBJECT = 0x7d;
const OPEN_ARRAY = 0x5b;
const CLOSE_ARRAY = 0x5d;
const COMMA = 0x2c;

/**
 * Finds the strings at the paths of a policy, and where they are, so that everything else can be
 * copied as it is: numbers of any size, and white space. JSON.parse has checked the text, so the
 * walk only skips what no path leads to. It is as deep as the paths.
 */
export class RecordWalk {
  readonly places: Place[] = [];
  /** The offsets of the value of `data`. */
  start = 0;
  end = 0;
  /** The path of the place that `pathOf` asks for. */
  #wantedPath: Path | undefined;
  readonly #wanted: number | undefined;
  readonly #text: string;
  readonly #maxPlaces: number;
  readonly #path: Path = ['data'];

  /** @throws CallerError invalid_type when something else than a string or null is at a path */
  constructor(text: string, root: PathNode, maxPlaces: number, wanted?: number) {
    this.#text = text;
    this.#maxPlaces = maxPlaces;
    this.#wanted = wanted;
    this.#members(this.#skipSpace(0), (name, at) => {
      if (name !== 'data') return this.#skip(at);
      this.start = at;
      const isList = text.charCodeAt(at) === OPEN_ARRAY;
      this.end = this.#value(at, [isList ? inEach(root) : root]);
      return this.end;
    });
  }

  /** The path of a place in the body. It walks again, because only errors need paths. */
  static pathOf(text: string, root: PathNode, index: number): Path {
    return new RecordWalk(text, root, Infinity, index).#wantedPath!;
  }

  /** Returns the offset after the value that begins at `at`. */
  #value(at: number, nodes: readonly PathNode[]): number {
    if (nodes.length === 0) return this.#skip(at);
    const first = this.#text.charCodeAt(at);
    if (first === OPEN_OBJECT) return this.#object(at, nodes);
    if (first === OPEN_ARRAY) return this.#array(at, nodes);
    const end = this.#skip(at);
    if (first === QUOTE) this.#string(at, end, nodes);
    else if (this.#text[at] !== 'n') throw this.#wrong(at);
    return end;
  }

  #object(at: number, nodes: readonly PathNode[]): number {
    if (nodes.some(({ names }) => names.size === 0))
      throw problem(this.#path, 'must be a string or null, not an object; the policy names it');
    return this.#members(at, (name, from) => {
      const inner: PathNode[] = [];
      for (const { names } of nodes) {
        const node = names.get(name);
        if (node !== undefined) inner.push(node);
      }
      return this.#inside(name, from, inner);
    });
  }

  #array(at: number, nodes: readonly PathNode[]): number {
    if (nodes.some(({ every, indexes }) => every === undefined && indexes.size === 0))
      throw problem(this.#path, 'must be a string or null, not an array; the policy names it');
    let next = this.#skipSpace(at + 1);
    for (let i = 0; this.#text.charCodeAt(next) !== CLOSE_ARRAY; i++) {
      const inner = nodes.flatMap(({ every, indexes }) =>
        [every, indexes.get(i)].filter((one) => one !== undefined),
      );
      next = this.#afterComma(this.#inside(i, next, inner));
    }
    return next + 1;
  }

  #inside(name: string | number, at: number, nodes: readonly PathNode[]): number {
    if (nodes.length === 0) return this.#skip(at);
    this.#path.push(name);
    const end = this.#value(at, nodes);
    this.#path.pop();
    return end;
  }

  /** Calls back with each name, and the offset of its value, for the offset after the value. */
  #members(at: number, member: (name: string, at: number) => number): number {
    let next = this.#skipSpace(at + 1);
    while (this.#text.charCodeAt(next) !== CLOSE_OBJECT) {
      const end = stringEnd(this.#text, next);
      const colon = this.#skipSpace(end);
      next = this.#afterComma(member(this.#read(next, end), this.#skipSpace(colon + 1)));
    }
    return next + 1;
  }

  #string(start: number, end: number, nodes: readonly PathNode[]): void {
    const node = nodes.find(({ isValue }) => isValue);
    if (node === undefined)
      throw problem(this.#path, 'must not be a string: the policy names something inside it');
    const text = this.#read(start, end);
    // A blank field has nothing to protect.
    if (text === '') return;
    checkText(text, this.#path);
    if (this.places.length === this.#maxPlaces) throw tooMany(this.#maxPlaces);
    if (this.places.length === this.#wanted) this.#wantedPath = [...this.#path];
    this.places.push({ start, end, text, path: node.path });
  }

  #wrong(at: number): Error {
    const isBoolean = this.#text[at] === 't' || this.#text[at] === 'f';
    const type = isBoolean ? 'boolean' : 'number';
    return problem(this.#path, `must be a string or null, not a ${type}; the policy names it`);
  }

  #read(start: number, end: number): string {
    const text = this.#text.slice(start + 1, end - 1);
    return text.includes('\\') ? JSON.parse(`"${text}"`) : text;
  }

  #afterComma(at: number): number {
    const next = this.#skipSpace(at);
    return this.#text.charCodeAt(next) === COMMA ? this.#skipSpace(next + 1) : next;
  }

  #skipSpace(at: number): number {
    let next = at;
    while (this.#text.charCodeAt(next) <= 0x20) next++;
    return next;
  }

  /** The offset after the value that begins at `at`. */
  #skip(at: number): number {
    const first = this.#text.charCodeAt(at);
    if (first === QUOTE) return stringEnd(this.#text, at);
    if (first !== OPEN_OBJECT && first !== OPEN_ARRAY) return this.#literalEnd(at);
    let next = at;
    for (let depth = 0; ; ) {
      const found = this.#text.charCodeAt(next);
      if (found === QUOTE) next = stringEnd(this.#text, next);
      else {
        depth += found === OPEN_OBJECT || found === OPEN_ARRAY ? 1 : -1;
        next++;
        if (depth === 0) return next;
      }
      BRACKET_OR_QUOTE.lastIndex = next;
      next = BRACKET_OR_QUOTE.exec(this.#text)!.index;
    }
  }

  #literalEnd(at: number): number {
    let next = at;
    for (; next < this.#text.length; next++) {
      const unit = this.#text.charCodeAt(next);
      if (unit <= 0x20 || unit === COMMA || unit === CLOSE_ARRAY || unit === CLOSE_OBJECT) break;
    }
    return next;
  }
}

function tooMany(maxPlaces: number): Error {
  return problem(['data'], `has more than ${maxPlaces} values; send them in several requests`);
}
