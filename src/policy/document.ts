import { createRequire } from 'node:module';
import type { Pair, ParsedNode, YAMLError } from 'yaml';
import { suggested } from '#paths';
import { MAX_DOCUMENT_BYTES } from './schema.ts';

/** A mistake in a document, with its remedy. Lines and columns count from 1. */
export interface Mistake {
  readonly line: number;
  readonly column: number;
  readonly text: string;
}

/** A value of a document, at its offset in the text: a map, a list or a scalar. */
export interface Node {
  readonly at: number;
  readonly entries?: readonly Entry[];
  readonly items?: readonly Node[];
  /** Of a scalar. */
  readonly value?: unknown;
  /** A scalar as it is written, without quotes. */
  readonly source?: string;
  /** It has a mistake that is noted already. */
  readonly isBad?: boolean;
}

export interface Entry {
  readonly at: number;
  readonly name: string;
  readonly value: Node;
}

/** A document lists at most so many mistakes: a file of another kind is one mistake a line. */
const MAX_MISTAKES = 50;
/** A policy needs five levels. */
const MAX_LEVELS = 8;
/**
 * Control characters, line separators, and changes of the text direction, which let a document look
 * different from what it says. Tabs and line ends are allowed.
 */
const DISGUISES = /[^\P{Cc}\t\n\r]|[\p{Zl}\p{Zp}\p{Bidi_Control}]/gu;

const SYNTAX_OPTIONS = {
  schema: 'core',
  resolveKnownTags: false,
  // The search for equal names takes minutes for a document of the greatest size.
  uniqueKeys: false,
  prettyErrors: false,
} as const;

/** Loads with the first document: 40 ms. A service without a policy never reads one. */
function yaml(): typeof import('yaml') {
  return createRequire(import.meta.url)('yaml');
}

/** Thrown at the last mistake that is listed. What it costs to find more has no bound. */
export class TooManyMistakes extends Error {}

/** The values of a YAML 1.2 or JSON document, and what is wrong with it. */
export class PolicyDocument {
  readonly mistakes: Mistake[] = [];
  readonly #yaml = yaml();
  readonly #lines = new this.#yaml.LineCounter();

  /**
   * @returns undefined: a mistake hides the rest
   * @throws TooManyMistakes
   */
  read(text: string): Node | undefined {
    if (Buffer.byteLength(text) > MAX_DOCUMENT_BYTES) {
      this.add(0, `a policy has at most ${MAX_DOCUMENT_BYTES / 1024} KiB`);
      return undefined;
    }
    const parsed = this.#parsed(text);
    if (parsed === undefined) return undefined;
    this.#checkCharacters(text);
    this.#addSyntax(text, [...parsed.errors, ...parsed.warnings]);
    if (parsed.directives.yaml.version !== '1.2')
      this.add(0, 'the document says that it is not YAML 1.2: leave out the line %YAML');
    if (this.mistakes.length > 0) return undefined;
    if (parsed.contents !== null) return this.#nodeOf(parsed.contents, 1);
    this.add(0, 'the document is empty: write at least version: 1');
    return undefined;
  }

  /** @throws TooManyMistakes */
  add(at: number, text: string): void {
    this.mistakes.push({ ...this.placeOf(at), text });
    if (this.mistakes.length === MAX_MISTAKES) throw new TooManyMistakes();
  }

  placeOf(at: number): Omit<Mistake, 'text'> {
    const { line, col } = this.#lines.linePos(at);
    return { line: Math.max(1, line), column: Math.max(1, col) };
  }

  /** @returns undefined: brackets, or lines that go on, have more levels than a stack */
  #parsed(text: string) {
    const { stackTraceLimit } = Error;
    // Every mistake is an Error, and its stack takes three quarters of the time.
    Error.stackTraceLimit = 0;
    try {
      return this.#yaml.parseDocument(text, { ...SYNTAX_OPTIONS, lineCounter: this.#lines });
    } catch (error) {
      if (!(error instanceof RangeError)) throw error;
      this.add(0, TOO_DEEP);
      return undefined;
    } finally {
      Error.stackTraceLimit = stackTraceLimit;
    }
  }

  #checkCharacters(text: string): void {
    for (const { 0: found, index } of text.matchAll(DISGUISES)) {
      const code = found.codePointAt(0)!.toString(16).toUpperCase().padStart(4, '0');
      this.add(index, `the character U+${code} is not allowed: leave it out`);
    }
  }

  /** The first of each line: the others mostly follow from it. */
  #addSyntax(text: string, problems: readonly YAMLError[]): void {
    const lines = new Set<number>();
    for (const problem of problems.toSorted((a, b) => a.pos[0] - b.pos[0])) {
      const [at] = problem.pos;
      const { line } = this.placeOf(at);
      if (!lines.has(line)) this.add(at, indentation(problem, text, line) ?? wordsOf(problem));
      lines.add(line);
    }
  }

  #nodeOf(node: ParsedNode, level: number): Node {
    const at = node.range[0];
    const bad = (text: string): Node => {
      this.add(at, text);
      return { at, isBad: true };
    };
    if (this.#yaml.isAlias(node) || node.anchor !== undefined)
      return bad('a policy has no anchors (&) and aliases (*): write the value here again');
    if (level > MAX_LEVELS)
      return bad('nothing of a policy is so deep inside: check the indentation');
    if (this.#yaml.isScalar(node))
      return { at, value: node.value, source: node.source ?? String(node.value) };
    if (this.#yaml.isMap(node)) return { at, entries: this.#entriesOf(node.items, level) };
    return { at, items: node.items.map((item) => this.#nodeOf(item as ParsedNode, level + 1)) };
  }

  #entriesOf(pairs: readonly Pair<ParsedNode, ParsedNode | null>[], level: number): Entry[] {
    const { isScalar } = this.#yaml;
    const names = new Set<string>();
    return pairs.flatMap(({ key, value }) => {
      const at = key.range[0];
      if (!isScalar(key) || typeof key.value !== 'string') {
        const source = isScalar(key) && key.source;
        const remedy = source ? `: write it in quotes: "${cut(source)}"` : '';
        this.add(at, `a name must be text${remedy}`);
        return [];
      }
      const name = key.value;
      if (names.has(name)) this.add(at, `${cut(name)} is there twice: leave one out`);
      if (names.has(name)) return [];
      names.add(name);
      const nothing = { at, value: null, source: '' };
      return [{ at, name, value: value === null ? nothing : this.#nodeOf(value, level + 1) }];
    });
  }
}

/** Longer names and lists are cut off in a message. */
const MAX_SHOWN = 200;

export function cut(text: string): string {
  return text.length > MAX_SHOWN ? `${text.slice(0, MAX_SHOWN)}...` : text;
}

/** Words for a name that is none of these, with the one that was probably meant. */
export function unknown(name: string, among: readonly string[]): string {
  return `${suggested(cut(name), among)} is not known: choose ${cut(among.join(', '))}`;
}

const TOO_DEEP = 'the document is nested too deep';

/** The mistakes that people make, with the remedy. */
const SYNTAX: Partial<Record<YAMLError['code'], string>> = {
  BAD_ALIAS: 'a name or a value that begins with * or & needs quotes: "*"',
  BAD_INDENT:
    'this line is not indented like those beside it: align them, or close the bracket before it',
  BLOCK_AS_IMPLICIT_KEY: 'this value has a colon: write it in quotes, or begin a new line with it',
  BLOCK_IN_FLOW: 'a comma or a closing bracket is missing here',
  MULTILINE_IMPLICIT_KEY: 'this line must be a name, a colon, a space and a value',
  MULTIPLE_DOCS: 'there is a second document: leave out the line ---',
  RESOURCE_EXHAUSTION: TOO_DEEP,
  TAB_AS_INDENT: 'this line is indented with a tab: use spaces',
  TAG_RESOLVE_FAILED: 'a policy has no tags (!): leave the tag out',
};

/** Words for a line that seems to go on in the next one; undefined: the mistake is another. */
function indentation({ code, pos: [at] }: YAMLError, text: string, line: number) {
  if (code !== 'BLOCK_AS_IMPLICIT_KEY' || /:(?:\s|$)/.test(lineAt(text, at))) return undefined;
  return `line ${line + 1} is indented more than line ${line}: align them`;
}

/** The rest of a line. */
function lineAt(text: string, at: number): string {
  const end = text.indexOf('\n', at);
  return text.slice(at, end === -1 ? undefined : end);
}

function wordsOf({ code, message }: YAMLError): string {
  const [first = ''] = message.split('\n');
  return SYNTAX[code] ?? cut(`this is not YAML: ${first.charAt(0).toLowerCase()}${first.slice(1)}`);
}
