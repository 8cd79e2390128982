import { addPath, newTree, PathError } from '#paths';
import { defaultKind } from '../shape/kind.ts';
import { kindProblems, kindWarnings } from '../shape/kind-problems.ts';
import { type KindSettings, SHAPES } from '../shape/kind-settings.ts';
import { cut, type Entry, type Mistake, type Node, TooManyMistakes, unknown } from './document.ts';
import {
  FORMAT_VERSION,
  KIND_NAME,
  MAX_CLIENTS,
  MAX_FIELDS,
  MAX_KINDS,
  MAX_PATH_CHARACTERS,
  OPTIONS,
  PARTS,
} from './format.ts';
import { OptionReader } from './option-reader.ts';
import {
  type DeclaredPolicy,
  ELSEWHERE,
  type Elsewhere,
  OTHERS,
  type PolicyField,
  RIGHTS,
  type Right,
} from './policy.ts';

export interface ParsedPolicy {
  /** undefined: the document has mistakes. */
  readonly policy: DeclaredPolicy | undefined;
  readonly mistakes: readonly Mistake[];
  /** What the policy may do, but perhaps should not. */
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

const CHOICES = Object.keys(ELSEWHERE) as Elsewhere[];

class PolicyParser extends OptionReader {
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
    const parts = new Map<string, Entry>();
    for (const entry of this.#entries(root, 'the policy')) {
      if ((PARTS as readonly string[]).includes(entry.name)) parts.set(entry.name, entry);
      else this.add(entry.at, unknown(entry.name, PARTS.slice(0, -1)));
    }
    const [version, kinds, fields, elsewhere, rights, schema] = PARTS.map((name) =>
      parts.get(name),
    );
    if (parts.size > 0) this.#checkVersion(root, version?.value);
    if (schema) this.text(schema.value, '$schema');
    const ofShapes = SHAPES.map((shape) => defaultKind(shape, shape));
    return {
      kinds: [...ofShapes, ...(kinds ? this.#kindsOf(kinds.value) : [])],
      fields: fields && this.#fieldsOf(fields.value),
      elsewhere: this.#elsewhereOf(elsewhere, fields),
      rights: rights && this.#rightsOf(rights.value),
    };
  }

  #elsewhereOf(entry: Entry | undefined, fields: Entry | undefined): Elsewhere {
    if (entry !== undefined) {
      const remedy = 'without fields, every string is tokenized as text: leave elsewhere out';
      if (fields === undefined) this.add(entry.at, remedy);
      return this.word(entry.value, 'elsewhere', CHOICES) ?? 'refuse';
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
    const shape = shaped && this.word(shaped.value, 'shape', SHAPES);
    const others = entries.filter((one) => one !== shaped);
    if (shape === undefined) return this.checkNames(others);
    const declared = others.flatMap((one) => this.option(one, OPTIONS[shape], shape));
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
      const kind = this.text(value, `the kind of ${name}`);
      if (kind === undefined) return [];
      this.#checkKind(value.at, kind);
      return [{ path: name, kind }];
    });
  }

  #rightsOf(node: Node): Record<string, Record<string, Right>> {
    const clients = this.#entries(node, 'rights', MAX_CLIENTS).map((client) => {
      const ofKinds = this.#entries(client.value, `the rights of ${client.name}`, MAX_KINDS);
      const rights = ofKinds.flatMap(({ at, name, value }) => {
        if (name !== OTHERS) this.#checkKind(at, name);
        const right = this.word(value, `the right to ${name}`, RIGHTS);
        return right === undefined ? [] : [[name, right] as const];
      });
      return [client.name, Object.fromEntries(rights)] as const;
    });
    return Object.fromEntries(clients);
  }

  #checkKind(at: number, kind: string): void {
    if (!this.#kindNames.includes(kind)) this.add(at, `the kind ${unknown(kind, this.#kindNames)}`);
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

const LEADS_INTO_LIST = /^\$?\[[\d*]/;

/** Adds the path to the tree, or says why that is not possible. */
function pathProblem(tree: ReturnType<typeof newTree>, path: string): string | undefined {
  if (path.length > MAX_PATH_CHARACTERS)
    return `a path has at most ${MAX_PATH_CHARACTERS} characters`;
  if (!path.isWellFormed()) return 'the path has half a surrogate pair: correct the escape';
  if (LEADS_INTO_LIST.test(path))
    return 'begin the path with a name: paths lead into a record, also in a list of records';
  try {
    const nodes = addPath(tree, path, 'fields');
    if (nodes.at(-1)!.isOptional)
      return 'leave out the ?: no field of a policy need be in a request';
    const mixed = nodes.find(({ every, indexes }) => every !== undefined && indexes.size > 0);
    if (mixed !== undefined)
      return `fields names ${mixed.every!.path} and a single item there: name one of them`;
    return undefined;
  } catch (error) {
    if (error instanceof PathError) return error.message;
    throw error;
  }
}
