import { inEach, type PathNode, type PolicyRules } from '../policy/rules.ts';
import { checkName, checkText, problem, stringEnd } from './data.ts';
import { Step } from './path.ts';
import { MAX_DEPTH } from './schema.ts';

/** A string of the body that is replaced. */
export interface Place {
  /** Offsets in the text, quotes included. */
  readonly start: number;
  readonly end: number;
  readonly text: string;
  /** The path as the policy has it; '': no path of the policy leads there. */
  readonly path: string;
  readonly step: Step;
}

/** The paths of a policy, and what becomes of strings elsewhere. */
type Walked = Pick<PolicyRules, 'tree' | 'elsewhere'>;

interface WalkOptions {
  readonly maxPlaces: number;
  /** Called with each name that the policy does not have beside those that it has. */
  readonly onUnnamed?: (node: PathNode, name: string) => void;
}

const BRACKET_OR_QUOTE = /["[\]{}]/g;
const QUOTE = 0x22;
const OPEN_OBJECT = 0x7b;
const CLOSE_OBJECT = 0x7d;
const OPEN_ARRAY = 0x5b;
const CLOSE_ARRAY = 0x5d;
const COMMA = 0x2c;
const COLON = 0x3a;
/** Of `""`. A blank field has nothing to protect. */
const BLANK_LENGTH = 2;

/**
 * Finds the strings that a policy replaces, and where they are, so that everything else can be
 * copied as it is: numbers of any size, and white space. JSON.parse has checked the text, so the
 * walk only skips what no path leads to, unless the policy cares for strings elsewhere. It is as
 * deep as the paths, or as MAX_DEPTH.
 */
export class RecordWalk {
  readonly places: Place[] = [];
  /** How many strings no path leads to, without those in `places`. */
  passed = 0;
  /** The offsets of the value of `data`. */
  start = 0;
  end = 0;
  readonly #options: WalkOptions;
  readonly #text: string;
  readonly #elsewhere: PolicyRules['elsewhere'];
  #step = new Step(undefined, 'data');
  /** How many steps of the path have names that strings elsewhere may have. */
  #checked = 1;

  /** @throws CallerError invalid_type when something cannot be where it is */
  constructor(text: string, { tree, elsewhere }: Walked, options: WalkOptions) {
    this.#text = text;
    this.#elsewhere = elsewhere;
    this.#options = options;
    this.#members(this.#skipSpace(0), (name, at) => {
      if (name === 'data') return this.#data(at, tree);
      const { passed } = this;
      const end = this.#skip(at);
      this.passed = passed;
      return end;
    });
  }

  #data(at: number, tree: PathNode | undefined): number {
    this.start = at;
    const isList = this.#text.charCodeAt(at) === OPEN_ARRAY;
    this.end = this.#value(at, isList ? tree && inEach(tree) : tree);
    return this.end;
  }

  /**
   * Returns the offset after the value that begins at `at`.
   * @param node undefined: no path leads there
   */
  #value(at: number, node: PathNode | undefined): number {
    const first = this.#text.charCodeAt(at);
    if (first === QUOTE) return this.#string(at, node);
    if (first !== OPEN_OBJECT && first !== OPEN_ARRAY) return this.#literal(at, node);
    if (node === undefined && this.#step.depth > MAX_DEPTH) return this.#tooDeep(at);
    return first === OPEN_OBJECT ? this.#object(at, node) : this.#array(at, node);
  }

  #object(at: number, node: PathNode | undefined): number {
    if (node?.names.size === 0) throw this.#wrong(node, 'an object');
    return this.#members(at, (name, from) => {
      const inner = node?.names.get(name);
      if (inner === undefined && node !== undefined) this.#options.onUnnamed?.(node, name);
      return this.#inside(name, from, inner);
    });
  }

  #array(at: number, node: PathNode | undefined): number {
    if (node !== undefined && !hasItems(node)) throw this.#wrong(node, 'an array');
    let next = this.#skipSpace(at + 1);
    for (let i = 0; this.#text.charCodeAt(next) !== CLOSE_ARRAY; i++) {
      const inner = node?.every ?? node?.indexes.get(i);
      next = this.#afterComma(this.#inside(i, next, inner));
    }
    return next + 1;
  }

  #inside(name: string | number, at: number, node: PathNode | undefined): number {
    if (node === undefined && this.#elsewhere === 'pass') return this.#skip(at);
    const outer = this.#step;
    this.#step = new Step(outer, name);
    const end = this.#value(at, node);
    this.#step = outer;
    this.#checked = Math.min(this.#checked, outer.depth);
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

  #string(start: number, node: PathNode | undefined): number {
    const end = stringEnd(this.#text, start);
    if (node?.isValue === false) throw this.#wrong(node, 'a string');
    if (end - start === BLANK_LENGTH) return end;
    const { maxPlaces } = this.#options;
    if (node === undefined) this.#checkElsewhere();
    const text = this.#read(start, end);
    checkText(text, this.#step);
    if (this.places.length === maxPlaces) throw tooMany(maxPlaces);
    this.places.push({ start, end, text, path: node?.path ?? '', step: this.#step });
    return end;
  }

  #checkElsewhere(): void {
    this.#checkNames();
    if (this.#elsewhere === 'refuse')
      throw problem(
        this.#step,
        'must not be a string: the policy does not name this path and refuses strings elsewhere; leave it out, or ask an operator to add the path to the policy',
      );
  }

  /** The names on the way to a string have their bounds, so the path in a message has one. */
  #checkNames({ up, name, depth } = this.#step): void {
    if (depth <= this.#checked) return;
    this.#checkNames(up);
    if (typeof name === 'string') checkName(name, up!);
    this.#checked = depth;
  }

  #tooDeep(at: number): number {
    const { passed } = this;
    const end = this.#skip(at);
    if (this.passed === passed) return end;
    this.#checkNames();
    throw problem(this.#step, `has a string nested deeper than ${MAX_DEPTH} levels`);
  }

  #literal(at: number, node: PathNode | undefined): number {
    const first = this.#text[at];
    if (node !== undefined && first !== 'n')
      throw this.#wrong(node, first === 't' || first === 'f' ? 'a boolean' : 'a number');
    return this.#literalEnd(at);
  }

  #wrong(node: PathNode, given: string): Error {
    const containers = [node.names.size > 0 && 'an object', hasItems(node) && 'an array'];
    const wanted = node.isValue ? ['a string'] : containers.filter((one) => one);
    const named = node.isValue ? 'it' : 'something inside it';
    const words = `must be ${wanted.join(' or ')} or null, not ${given}; the policy names ${named}`;
    return problem(this.#step, words);
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

  /** The offset after the value that begins at `at`. Counts its strings. */
  #skip(at: number): number {
    const first = this.#text.charCodeAt(at);
    if (first !== QUOTE && first !== OPEN_OBJECT && first !== OPEN_ARRAY)
      return this.#literalEnd(at);
    let next = at;
    for (let depth = 0; ; ) {
      const found = this.#text.charCodeAt(next);
      if (found === QUOTE) next = this.#skipString(next);
      else {
        depth += found === OPEN_OBJECT || found === OPEN_ARRAY ? 1 : -1;
        next++;
      }
      if (depth === 0) return next;
      BRACKET_OR_QUOTE.lastIndex = next;
      BRACKET_OR_QUOTE.test(this.#text);
      next = BRACKET_OR_QUOTE.lastIndex - 1;
    }
  }

  /** A string before a colon is a name. */
  #skipString(start: number): number {
    const end = stringEnd(this.#text, start);
    const isValue = this.#text.charCodeAt(this.#skipSpace(end)) !== COLON;
    if (isValue && end - start > BLANK_LENGTH) this.passed++;
    return end;
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

function hasItems({ every, indexes }: PathNode): boolean {
  return every !== undefined || indexes.size > 0;
}

function tooMany(maxPlaces: number): Error {
  return problem(['data'], `has more than ${maxPlaces} values; send them in several requests`);
}
