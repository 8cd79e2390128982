import { eachMember, hasItems, isName, type JsonType, JsonWalk, skipSpace, valueEnd } from '#paths';
import type { Policy } from '../../policy/policy.ts';
import { inEach, type PathNode, type PolicyRules } from '../../policy/rules.ts';
import { MAX_DEPTH } from '../schema.ts';
import { checkName, checkText, problem, Step, tooManyValues } from './data.ts';

/** A string of the body that is replaced. */
export interface BodyPlace {
  /** Offsets in the text, quotes included. */
  readonly start: number;
  readonly end: number;
  readonly text: string;
  /** The path as the policy has it; '': no path of the policy leads there. */
  readonly path: string;
  readonly step: Step;
}

/** The paths of a policy, and what becomes of strings elsewhere. */
type Walked = Pick<PolicyRules, 'tree'> & Pick<Policy, 'elsewhere'>;

interface WalkOptions {
  readonly maxPlaces: number;
  /** Whether `""` is replaced. A blank field of a record has nothing to protect. */
  readonly keepsBlank?: boolean;
  /** Called with each name that the policy does not have beside those that it has. */
  readonly onUnnamed?: (node: PathNode, name: string) => void;
}

/** Of `""`. */
const BLANK_LENGTH = 2;

/**
 * Finds the strings that a policy replaces. The walk only skips what no path leads to, unless the
 * policy cares for strings elsewhere. It is as deep as the paths, or as MAX_DEPTH.
 */
export class BodyWalk extends JsonWalk {
  readonly places: BodyPlace[] = [];
  /** How many strings no path leads to, without those in `places`. */
  passed = 0;
  /** The offsets of the value of `data`. */
  start = 0;
  end = 0;
  readonly #options: WalkOptions;
  readonly #elsewhere: Policy['elsewhere'];
  #step = new Step(undefined, 'data');
  /** How many steps of the path have names that strings elsewhere may have. */
  #checked = 1;

  /** @throws CallerError invalid_type when something cannot be where it is */
  constructor(text: string, { tree, elsewhere }: Walked, options: WalkOptions) {
    super(text);
    this.#elsewhere = elsewhere;
    this.#options = options;
    eachMember(text, skipSpace(text, 0), (from, to, at) => {
      if (this.read(from, to) !== 'data') return valueEnd(text, at);
      this.start = at;
      this.end = this.value(at, text[at] === '[' ? tree && inEach(tree) : tree);
      return this.end;
    });
  }

  protected override value(at: number, node: PathNode | undefined): number {
    const isNested = this.text[at] === '{' || this.text[at] === '[';
    if (isNested && node === undefined && this.#step.depth > MAX_DEPTH) return this.#tooDeep(at);
    return super.value(at, node);
  }

  protected override inside(
    name: string | number,
    at: number,
    node: PathNode | undefined,
    outer: PathNode | undefined,
  ): number {
    if (node === undefined && outer !== undefined && typeof name === 'string')
      this.#options.onUnnamed?.(outer, name);
    if (node === undefined && this.#elsewhere === 'pass') return this.#skip(at);
    const within = this.#step;
    this.#step = new Step(within, name);
    const end = this.value(at, node);
    this.#step = within;
    this.#checked = Math.min(this.#checked, within.depth);
    return end;
  }

  protected override string(start: number, end: number, node: PathNode | undefined): void {
    if (end - start === BLANK_LENGTH && !this.#options.keepsBlank) return;
    const { maxPlaces } = this.#options;
    if (node === undefined) this.#checkElsewhere();
    const text = this.read(start, end)!;
    checkText(text, this.#step);
    if (this.places.length === maxPlaces) throw tooManyValues(maxPlaces);
    this.places.push({ start, end, text, path: node?.path ?? '', step: this.#step });
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

  protected override wrong(_at: number, node: PathNode, type: JsonType): never {
    const containers = [node.names.size > 0 && 'an object', hasItems(node) && 'an array'];
    const wanted = node.isValue ? ['a string'] : containers.filter((one) => one);
    const named = node.isValue ? 'it' : 'something inside it';
    const words = `must be ${wanted.join(' or ')} or null, not ${type}; the policy names ${named}`;
    throw problem(this.#step, words);
  }

  /** The offset after the value that begins at `at`. Counts its strings. */
  #skip(at: number): number {
    return valueEnd(this.text, at, (start, end) => {
      if (end - start > BLANK_LENGTH && !isName(this.text, end)) this.passed++;
    });
  }
}
