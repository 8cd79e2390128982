import { addPath, newTree, PathError } from '#paths';
import { defaultKind, kindProblems, kindWarnings } from '../shape/kind.ts';
import { type KindSettings, SHAPES, type Shape } from '../shape/kind-settings.ts';
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
  const document = new PolicyDocument();
  const parser = new PolicyParser(document, isStored);
  const policy = read(document, parser, text);
  const mistakes = document.mistakes.toSorted((a, b) => a.line - b.line || a.column - b.column);
  if (mistakes.length > 0) return { policy: undefined, mistakes, warnings: [] };
  return { policy, mistakes, warnings: parser.warnings };
}

function read(document: PolicyDocument, parser: PolicyParser, text: string) {
  try {
    const root = document.read(text);
    return root && parser.policyOf(root);
  } catch (error) {
    if (error instanceof TooManyMistakes) return undefined;
    throw error;
  }
}

const CHOICES = Object.keys(ELSEWHERE) as Elsewhere[];

class PolicyParser {
  readonly warnings: Mistake[] = [];
  readonly #document: PolicyDocument;
  readonly #isStored: boolean;
  readonly #options: OptionReader;
  /** Names that fields and rights may use. A kind with a mistake is one of them. */
  #kindNames: readonly string[] = SHAPES;

  constructor(document: PolicyDocument, isStored: boolean) {
    this.#document = document;
    this.#isStored = isStored;
    this.#options = new OptionReader(document);
  }

  policyOf(root: Node): DeclaredPolicy {
    const parts = new Map<string, Entry>();
    for (const entry of this.#entries(root, 'the policy')) {
      const { at, name } = entry;
      if ((PARTS as readonly string[]).includes(name)) parts.set(name, entry);
      else this.#document.add(at, unknown(name, PARTS.slice(0, -1)));
    }
    if (parts.size > 0) this.#checkVersion(root, parts.get('version')?.value);
    const schema = parts.get('$schema')?.value;
    if (schema !== undefined) this.#options.text(schema, '$schema');
    const elsewhere = this.#elsewhereOf(parts.get('elsewhere'), parts.get('fields'));
    const [kinds, fields, rights] = ['kinds', 'fields', 'rights'].map(
      (name) => parts.get(name)?.value,
    );
    const declared = kinds === undefined ? [] : this.#kindsOf(kinds);
    const ofShapes = SHAPES.map((shape) => defaultKind(shape, shape));
    return {
      kinds: [...ofShapes, ...declared],
      fields: fields && this.#fieldsOf(fields),
      elsewhere,
      rights: rights && this.#rightsOf(rights),
    };
  }

  #elsewhereOf(entry: Entry | undefined, fields: Entry | undefined): Elsewhere {
    if (entry !== undefined) {
      if (fields === undefined)
        this.#document.add(
          entry.at,
          'without fields, every string is tokenized as text: leave elsewhere out',
        );
      return this.#options.word(entry.value, 'elsewhere', CHOICES) ?? 'refuse';
    }
    if (fields === undefined) return 'tokenize';
    const choices = CHOICES.map((one) => `${one} (they ${ELSEWHERE[one]})`).join(' or ');
    const remedy = `say what happens to strings at all other paths: add elsewhere: ${choices}`;
    if (!this.#isStored) this.#document.add(fields.at, remedy);
    return 'pass';
  }

  #checkVersion(root: Node, version: Node | undefined): void {
    const found = version?.type === 'scalar' ? version.value : undefined;
    if (version === undefined)
      this.#document.add(
        root.at,
        `the version of the format is missing: add version: ${FORMAT_VERSION}`,
      );
    else if (found !== FORMAT_VERSION && version.type !== 'bad')
      this.#document.add(
        version.at,
        typeof found === 'number' && found > FORMAT_VERSION
          ? `this program knows version ${FORMAT_VERSION} of the format only: use a newer release`
          : `the version of the format must be ${FORMAT_VERSION}`,
      );
  }

  #kindsOf(node: Node): KindSettings[] {
    const entries = this.#entries(node, 'kinds', MAX_KINDS);
    this.#kindNames = [...new Set([...SHAPES, ...entries.map(({ name }) => name)])];
    return entries.flatMap((entry) => this.#kindOf(entry) ?? []);
  }

  #kindOf({ at, name, value }: Entry): KindSettings | undefined {
    const before = this.#document.mistakes.length;
    if ((SHAPES as readonly string[]).includes(name))
      this.#document.add(
        at,
        `${name} is a kind already, with default options: choose another name`,
      );
    else if (!new RegExp(KIND_NAME).test(name))
      this.#document.add(
        at,
        'the name of a kind is a letter a to z, then at most 31 of a to z, 0 to 9 and _',
      );
    const entries = this.#entries(value, `the kind ${name}`).map((one) => this.#renamed(one));
    const shape = this.#shapeOf(
      entries.find((one) => one.name === 'shape'),
      at,
      name,
    );
    const others = entries.filter((one) => one.name !== 'shape');
    if (shape === undefined) return this.#options.checkNames(others);
    const declared = others.flatMap((one) => this.#options.option(one, OPTIONS[shape], shape));
    const settings = { ...defaultKind(name, shape), ...Object.fromEntries(declared) };
    if (this.#document.mistakes.length > before) return undefined;
    for (const { field, reason } of kindProblems(settings)) {
      const place = others.find((one) => one.name === field)?.at ?? at;
      this.#document.add(place, `the kind ${name}: ${field} ${reason}`);
    }
    for (const text of kindWarnings(settings))
      this.warnings.push({ ...this.#document.placeOf(at), text: `the kind ${name}: ${text}` });
    return settings;
  }

  /** Documents from before `spelling` was renamed load. A new one has one word for one thing. */
  #renamed(option: Entry): Entry {
    if (option.name !== 'spelling') return option;
    if (!this.#isStored)
      this.#document.add(option.at, 'spelling is called normalize now: write normalize');
    return { ...option, name: 'normalize' };
  }

  #shapeOf(entry: Entry | undefined, at: number, name: string): Shape | undefined {
    if (entry !== undefined) return this.#options.word(entry.value, 'shape', SHAPES);
    this.#document.add(at, `the kind ${name} needs a shape: ${SHAPES.join(', ')}`);
    return undefined;
  }

  #fieldsOf(node: Node): PolicyField[] {
    const tree = newTree();
    return this.#entries(node, 'fields', MAX_FIELDS).flatMap(({ at, name, value }) => {
      const problem = pathProblem(tree, name);
      if (problem !== undefined) this.#document.add(at, problem);
      const kind = this.#options.text(value, `the kind of ${name}`);
      if (kind === undefined) return [];
      this.#checkKind(value.at, kind);
      return [{ path: name, kind }];
    });
  }

  #rightsOf(node: Node): Record<string, Record<string, Right>> {
    const lines = this.#entries(node, 'rights', MAX_CLIENTS).map((client) => {
      const ofKinds = this.#entries(client.value, `the rights of ${client.name}`, MAX_KINDS);
      return [client.name, this.#rightsOfClient(ofKinds)] as const;
    });
    return Object.fromEntries(lines);
  }

  #rightsOfClient(entries: readonly Entry[]): Record<string, Right> {
    const rights = entries.flatMap(({ at, name, value }) => {
      if (name !== OTHERS) this.#checkKind(at, name);
      const right = this.#options.word(value, `the right to ${name}`, RIGHTS);
      return right === undefined ? [] : [[name, right] as const];
    });
    return Object.fromEntries(rights);
  }

  #checkKind(at: number, kind: string): void {
    if (!this.#kindNames.includes(kind))
      this.#document.add(at, `the kind ${unknown(kind, this.#kindNames)}`);
  }

  /** The entries of a map that is not empty; none after a mistake. */
  #entries(node: Node, named: string, max = Number.POSITIVE_INFINITY): readonly Entry[] {
    const entries = node.type === 'map' ? node.entries : undefined;
    if (entries !== undefined && entries.length > 0 && entries.length <= max) return entries;
    const problem =
      entries === undefined
        ? 'must be lines of a name, a colon and a value'
        : entries.length === 0
          ? 'is empty: leave it out, or write what belongs there'
          : `has ${entries.length} lines; at most ${max} are allowed`;
    if (node.type !== 'bad') this.#document.add(node.at, `${cut(named)} ${problem}`);
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
