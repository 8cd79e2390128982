import { addPath, newTree, PathError } from '#paths';
import { DETECTORS } from '../detect/detectors.ts';
import { type DetectSettings, isPattern } from '../detect/found.ts';
import { patternProblem } from '../detect/pattern.ts';
import {
  defaultKind,
  isTextKind,
  type KindSettings,
  kindProblems,
  kindWarnings,
  MAX_FIXED,
  type MaskSettings,
  SHAPES,
  type Shape,
} from '../shape/kind-settings.ts';
import {
  cut,
  type Entry,
  type Mistake,
  type Node,
  PolicyDocument,
  TooManyMistakes,
  unknown,
} from './document.ts';
import {
  type DeclaredPolicy,
  ELSEWHERE,
  type Elsewhere,
  OTHERS,
  type PolicyField,
  RIGHTS,
  type Right,
} from './policy.ts';
import {
  ENTITY,
  FORMAT_VERSION,
  KIND_NAME,
  MASK_END,
  MAX_CLIENTS,
  MAX_DETECTORS,
  MAX_FIELDS,
  MAX_KINDS,
  MAX_PATH_CHARACTERS,
  OPTIONS,
  type OptionSchema,
  PARTS,
} from './schema.ts';

export interface ParsedPolicy {
  /** undefined: the document has mistakes. */
  readonly policy: DeclaredPolicy | undefined;
  readonly mistakes: readonly Mistake[];
  /** Effects of the policy that are perhaps not meant. */
  readonly warnings: readonly Mistake[];
}

/**
 * Reads a YAML 1.2 or JSON document. Finds all mistakes at once.
 * @param isStored whether it is a version already. Those of older programs may say `spelling` for
 * `normalize`, and without `elsewhere` they mean `pass`.
 */
export function parsePolicy(text: string, isStored = false): ParsedPolicy {
  const parser = new PolicyParser(isStored);
  const policy = parser.parse(text);
  const mistakes = parser.mistakes.toSorted((a, b) => a.line - b.line || a.column - b.column);
  if (mistakes.length > 0) return { policy: undefined, mistakes, warnings: [] };
  return { policy, mistakes, warnings: parser.warnings };
}

const ENDS: readonly string[] = ['first', 'last'];
const CHOICES = Object.keys(ELSEWHERE) as Elsewhere[];

/** The patterns of options in words, with an example. */
const LIKE = {
  country: 'a country such as DE (ISO 3166-1 alpha-2)',
  begins_with: `1 to ${MAX_FIXED} digits or letters`,
};

class PolicyParser extends PolicyDocument {
  readonly warnings: Mistake[] = [];
  readonly #isStored: boolean;
  /** Names that fields and rights may use. A kind with a mistake is one of them. */
  #kindNames: readonly string[] = SHAPES;

  constructor(isStored: boolean) {
    super();
    this.#isStored = isStored;
  }

  parse(text: string): DeclaredPolicy | undefined {
    try {
      const root = this.read(text);
      return root && this.#policyOf(root);
    } catch (error) {
      if (error instanceof TooManyMistakes) return undefined;
      throw error;
    }
  }

  #policyOf(root: Node): DeclaredPolicy {
    const parts: { [Name in keyof typeof PARTS | '$schema']?: Entry } = {};
    for (const entry of this.#entries(root, 'the policy')) {
      const { at, name } = entry;
      if (name === '$schema' || Object.hasOwn(PARTS, name)) parts[name as '$schema'] = entry;
      else this.add(at, unknown(name, Object.keys(PARTS)));
    }
    const { version, kinds, fields, elsewhere, rights, detect, $schema } = parts;
    if (Object.keys(parts).length > 0) this.#checkVersion(root, version?.value);
    if ($schema) this.#text($schema.value, '$schema');
    const ofShapes = SHAPES.map((shape) => defaultKind(shape, shape));
    const all = [...ofShapes, ...(kinds ? this.#kindsOf(kinds.value) : [])];
    return {
      kinds: all,
      detect: detect ? this.#detectOf(detect.value, all) : [],
      fields: fields && this.#fieldsOf(fields.value),
      elsewhere: this.#elsewhereOf(elsewhere, fields),
      rights: rights && this.#rightsOf(rights.value),
    };
  }

  #elsewhereOf(entry: Entry | undefined, fields: Entry | undefined): Elsewhere {
    if (entry !== undefined) {
      const remedy = 'without fields, every string is tokenized as text: leave elsewhere out';
      if (fields === undefined) this.add(entry.at, remedy);
      return this.#word(entry.value, 'elsewhere', CHOICES) ?? 'refuse';
    }
    if (fields === undefined) return 'tokenize';
    const choices = CHOICES.map((one) => `${one} (they ${ELSEWHERE[one]})`).join(' or ');
    const remedy = `say what happens to strings at all other paths: add elsewhere: ${choices}`;
    if (!this.#isStored) this.add(fields.at, remedy);
    return 'pass';
  }

  #checkVersion(root: Node, version: Node | undefined): void {
    const [found, known] = [version?.value, FORMAT_VERSION];
    if (found === known || version?.isBad) return;
    const problem =
      version === undefined
        ? `the version of the format is missing: add version: ${known}`
        : typeof found === 'number' && found > known
          ? `this program knows version ${known} of the format only: use a newer release`
          : `the version of the format must be ${known}`;
    this.add((version ?? root).at, problem);
  }

  #kindsOf(node: Node): KindSettings[] {
    const entries = this.#entries(node, 'kinds', MAX_KINDS);
    this.#kindNames = [...new Set([...SHAPES, ...entries.map(({ name }) => name)])];
    return entries.flatMap((entry) => this.#kindOf(entry) ?? []);
  }

  #kindOf({ at, name, value }: Entry): KindSettings | undefined {
    const before = this.mistakes.length;
    if ((SHAPES as readonly string[]).includes(name))
      this.add(at, `${name} is a kind already, with default options: choose another name`);
    else if (!new RegExp(KIND_NAME).test(name))
      this.add(
        at,
        'the name of a kind is a letter a to z, then at most 31 of a to z, 0 to 9 and _',
      );
    const entries = this.#entries(value, `the kind ${name}`).map((one) => this.#renamed(one));
    const shaped = entries.find((one) => one.name === 'shape');
    if (!shaped) this.add(at, `the kind ${name} needs a shape: ${SHAPES.join(', ')}`);
    const shape = shaped && this.#word(shaped.value, 'shape', SHAPES);
    const others = entries.filter((one) => one !== shaped);
    const declared = others.flatMap((one) => this.#option(one, shape));
    if (shape === undefined) return undefined;
    const settings = { ...defaultKind(name, shape), ...Object.fromEntries(declared) };
    if (this.mistakes.length > before) return undefined;
    for (const { field, reason } of kindProblems(settings)) {
      const place = others.find((one) => one.name === field)?.at ?? at;
      this.add(place, `the kind ${name}: ${field} ${reason}`);
    }
    for (const text of kindWarnings(settings))
      this.warnings.push({ ...this.placeOf(at), text: `the kind ${name}: ${text}` });
    return settings;
  }

  /** Documents from before `spelling` was renamed load. A new one has one word for one thing. */
  #renamed(option: Entry): Entry {
    if (option.name !== 'spelling') return option;
    if (!this.#isStored) this.add(option.at, 'spelling is called normalize now: write normalize');
    return { ...option, name: 'normalize' };
  }

  #fieldsOf(node: Node): PolicyField[] {
    const tree = newTree();
    return this.#entries(node, 'fields', MAX_FIELDS).flatMap(({ at, name, value }) => {
      const problem = pathProblem(tree, name);
      if (problem !== undefined) this.add(at, problem);
      const kind = this.#kindNamed(value, name);
      return kind === undefined ? [] : [{ path: name, kind }];
    });
  }

  #detectOf(node: Node, kinds: readonly KindSettings[]): DetectSettings[] {
    return this.#entries(node, 'detect', MAX_DETECTORS).flatMap(({ at, name, value }) => {
      const problem = detectorProblem(name);
      if (problem !== undefined) this.add(at, problem);
      const kind = this.#kindNamed(value, name);
      if (kind === undefined) return [];
      const settings = kinds.find((one) => one.name === kind);
      if (settings && !isTextKind(settings))
        this.add(
          value.at,
          `the kind ${kind} must have shape: word and suffix: true, which texts need`,
        );
      return [{ detector: name, kind, country: settings?.country ?? null }];
    });
  }

  #rightsOf(node: Node): Record<string, Record<string, Right>> {
    const clients = this.#entries(node, 'rights', MAX_CLIENTS).map((client) => {
      const ofKinds = this.#entries(client.value, `the rights of ${client.name}`, MAX_KINDS);
      const rights = ofKinds.flatMap(({ at, name, value }) => {
        if (name !== OTHERS) this.#checkKind(at, name);
        const right = this.#word(value, `the right to ${name}`, RIGHTS);
        return right === undefined ? [] : [[name, right] as const];
      });
      return [client.name, Object.fromEntries(rights)] as const;
    });
    return Object.fromEntries(clients);
  }

  #kindNamed(node: Node, of: string): string | undefined {
    const kind = this.#text(node, `the kind of ${cut(of)}`);
    if (kind !== undefined) this.#checkKind(node.at, kind);
    return kind;
  }

  #checkKind(at: number, kind: string): void {
    if (!this.#kindNames.includes(kind)) this.add(at, `the kind ${unknown(kind, this.#kindNames)}`);
  }

  /** The option as an entry of KindSettings; none after a mistake, and where the shape is one. */
  #option({ at, name, value }: Entry, shape: Shape | undefined): [string, unknown][] {
    const having = SHAPES.filter((one) => Object.hasOwn(OPTIONS[one], name));
    if (having.length === 0) {
      const options = (shape === undefined ? SHAPES : [shape]).map((one) => OPTIONS[one]);
      const names = new Set(options.flatMap(Object.keys));
      this.add(at, unknown(name, [...(shape === undefined ? [] : ['shape']), ...names]));
    } else if (shape !== undefined && !having.includes(shape)) {
      const belongs = having.join(', ');
      this.add(at, `${name} is an option of the shape ${belongs}, not of ${shape}: leave it out`);
    } else if (shape !== undefined) {
      const read = this.#value(value, name, OPTIONS[shape][name as keyof typeof LIKE]!);
      return read === undefined ? [] : [[name, read]];
    }
    return [];
  }

  #value(node: Node, named: string, option: OptionSchema): unknown {
    if ('oneOf' in option) {
      const shown = option.oneOf.map(({ properties }) => properties.show.const);
      return this.#mask(node, shown);
    }
    if ('enum' in option) return this.#word(node, named, option.enum);
    switch (option.type) {
      case 'array':
        return this.#words(node, named, option.items.enum);
      case 'integer':
        return this.#whole(node, named, option);
      case 'boolean':
        return typeof node.value === 'boolean'
          ? node.value
          : this.#refuse(node, named, 'true or false');
      case 'string': {
        const text = this.#text(node, named);
        const isLike = text === undefined || new RegExp(option.pattern).test(text);
        return isLike ? text : this.#refuse(node, named, LIKE[named as keyof typeof LIKE]);
      }
    }
  }

  #text(node: Node, named: string): string | undefined {
    if (typeof node.value === 'string') return node.value;
    const quoted = node.source ? `: write it in quotes: "${cut(node.source)}"` : '';
    return this.#refuse(node, named, `text${quoted}`);
  }

  #word<T extends string>(node: Node, named: string, among: readonly T[]): T | undefined {
    const { value } = node;
    const found = among.find((one) => one === value);
    if (found !== undefined) return found;
    if (typeof value !== 'string') return this.#refuse(node, named, `one of ${among.join(', ')}`);
    this.add(node.at, `${named}: ${unknown(value, among)}`);
    return undefined;
  }

  #words(node: Node, named: string, among: readonly string[]): readonly string[] | undefined {
    if (!node.items) return this.#refuse(node, named, `a list, such as [${among[0]}]`);
    const words = node.items.flatMap((item) => this.#word(item, named, among) ?? []);
    if (new Set(words).size === words.length) return words;
    return this.#refuse(node, named, 'a list of different words');
  }

  #whole(node: Node, named: string, { minimum, maximum }: typeof MASK_END) {
    const value = node.value as number;
    if (Number.isInteger(value) && value >= minimum && value <= maximum) return value;
    return this.#refuse(node, named, `a whole number, ${minimum} to ${maximum}`);
  }

  #mask(node: Node, among: readonly MaskSettings['show'][]): MaskSettings | undefined {
    const entries = new Map(node.entries?.map((entry) => [entry.name, entry.value]));
    const shown = entries.get('show');
    const show = shown
      ? this.#word(shown, 'show', among)
      : this.#refuse(node, 'mask', `what it shows, such as { show: ${among.at(-1)} }`);
    for (const { at, name } of node.entries ?? []) {
      if (ENDS.includes(name) && show !== 'ends' && show !== undefined)
        this.add(at, `${name} goes with show: ends only: leave it out`);
      else if (![...ENDS, 'show'].includes(name)) this.add(at, unknown(name, ['show', ...ENDS]));
    }
    if (show !== 'ends') return show && { show };
    const [first, last] = ENDS.map((name) => {
      const end = entries.get(name);
      return end === undefined ? 0 : this.#whole(end, name, MASK_END);
    });
    if (first === 0 && last === 0)
      return this.#refuse(node, 'mask', 'an end that it shows: add first or last, a number');
    return first === undefined || last === undefined ? undefined : { show, first, last };
  }

  #refuse(node: Node, named: string, must: string): undefined {
    if (!node.isBad) this.add(node.at, `${named} must be ${must}`);
  }

  /** The entries of a map that is not empty; none after a mistake. */
  #entries(node: Node, named: string, max = Infinity): readonly Entry[] {
    const { entries } = node;
    if (entries !== undefined && entries.length > 0 && entries.length <= max) return entries;
    const problem =
      entries === undefined
        ? 'must be lines of a name, a colon and a value'
        : entries.length === 0
          ? 'is empty: leave it out, or write what belongs there'
          : `has ${entries.length} lines; at most ${max} are allowed`;
    if (!node.isBad) this.add(node.at, `${cut(named)} ${problem}`);
    return [];
  }
}

const ENTITY_NAME = new RegExp(ENTITY);

/** Why no detector is called so. */
function detectorProblem(name: string): string | undefined {
  if (isPattern(name)) {
    const problem = patternProblem(name);
    return problem && cut(`the pattern ${problem}`);
  }
  if ((DETECTORS as readonly string[]).includes(name) || ENTITY_NAME.test(name)) return undefined;
  return `the detector ${unknown(name, DETECTORS)}; an entity of Presidio, such as PERSON; or a pattern, such as "/S-[0-9]{6}/"`;
}

const LEADS_INTO_LIST = /^\$?\[[\d*]/;

/** Adds the path to the tree, or says why that is not possible. */
function pathProblem(tree: ReturnType<typeof newTree>, path: string): string | undefined {
  if (path.length > MAX_PATH_CHARACTERS)
    return `a path has at most ${MAX_PATH_CHARACTERS} characters`;
  if (!path.isWellFormed()) return 'the path has half a surrogate pair: correct the escape';
  if (LEADS_INTO_LIST.test(path))
    return 'begin the path with a name: paths lead into a record, also in a list of records';
  try {
    const { isOptional } = addPath(tree, path, 'fields');
    return isOptional ? 'leave out the ?: no field of a policy need be in a request' : undefined;
  } catch (error) {
    if (error instanceof PathError) return error.message;
    throw error;
  }
}
