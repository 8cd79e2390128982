import { invalid, isObject, type JsonObject } from '../body/data.ts';

/** The schema of a tool is the deepest. */
const MAX_DEPTH = 64;
/** Of a body, each as often as it occurs. */
const MAX_STRINGS = 20_000;
/** Names and ids, by which the model and its callers find things again, and what is signed. */
const VERBATIM = new Set(
  'role type id tool_call_id call_id status format pattern $ref strict signature encrypted_content data'.split(
    ' ',
  ),
);
const IDENTIFIER = /^[\w.-]{1,64}$/;
/** Parts of messages that are text. All others are images and files. */
const TEXT_PARTS = new Set(
  'text input_text output_text summary_text refusal thinking redacted_thinking tool_result'.split(
    ' ',
  ),
);
/** A string in JSON with its end, or a number that could be of a card or telephone. */
const JSON_VALUES = /("(?:[^"\\]|\\.)*")(\s*:)?|-?\d[\d.eE+-]{7,}/g;

/** A string of a request, and what takes its replacement. */
interface Place {
  /** Its index in `texts`. */
  readonly text: number;
  readonly put: (replacement: string) => void;
}

/** The strings of a request to a model, each once. */
export class RequestStrings {
  readonly texts: string[] = [];
  /** Whether messages have images or files. */
  hasFiles = false;
  readonly #indexes = new Map<string, number>();
  readonly #places: Place[] = [];
  /** What puts strings together after their parts have been replaced. */
  readonly #joins: (() => void)[] = [];

  /** @throws CallerError invalid_type */
  add(text: string, path: string, put: (replacement: string) => void): void {
    if (this.#places.length === MAX_STRINGS)
      throw invalid(
        `${path}: must have at most ${MAX_STRINGS} strings, with those before it; send fewer or shorter messages`,
      );
    if (!text.isWellFormed())
      throw invalid(`${path}: must be well-formed Unicode; it has half of a surrogate pair`);
    const index = this.#indexes.get(text) ?? this.texts.push(text) - 1;
    this.#indexes.set(text, index);
    this.#places.push({ text: index, put });
  }

  /**
   * Adds all strings in an object or list that a person can have written.
   * @param onChange called before a string is replaced, with its name and its earlier text
   * @param within the name of the object or list
   * @throws CallerError invalid_type when it is nested too deep
   */
  addAll(json: unknown, path: string, onChange: OnChange, within = '', depth = 0): void {
    if (depth > MAX_DEPTH) throw invalid(`${path}: is nested deeper than ${MAX_DEPTH} levels`);
    if (typeof json !== 'object' || json === null || within === 'required') return;
    const owner = json as JsonObject;
    const isList = Array.isArray(json);
    for (const name of Object.keys(owner)) {
      const one = owner[name];
      if (isList && within === 'content' && isFile(one)) this.hasFiles = true;
      else if (typeof one !== 'string')
        this.addAll(one, path, onChange, isList ? within : name, depth + 1);
      else if (isList || !isVerbatim(name, one)) this.#addString(owner, name, one, path, onChange);
    }
  }

  #addString(owner: JsonObject, name: string, text: string, path: string, onChange: OnChange) {
    const put = (replacement: string) => {
      if (replacement === text) return;
      onChange(name, text);
      owner[name] = replacement;
    };
    if (name === 'arguments' && isJson(text)) this.#addJson(text, path, put);
    else this.add(text, path, put);
  }

  /** Adds the values in a JSON text. All between them stays, byte for byte. */
  #addJson(text: string, path: string, put: (replacement: string) => void): void {
    const parts: string[] = [];
    let from = 0;
    for (const { 0: found, 1: string, 2: colon, index } of text.matchAll(JSON_VALUES)) {
      if (colon !== undefined) continue;
      const value = string === undefined ? found : JSON.parse(string);
      const at = parts.push(text.slice(from, index), found) - 1;
      from = index + found.length;
      this.add(value, path, (replacement) => {
        if (replacement !== value) parts[at] = JSON.stringify(replacement);
      });
    }
    parts.push(text.slice(from));
    this.#joins.push(() => put(parts.join('')));
  }

  /** @param replacements of `texts` */
  replace(replacements: readonly string[]): void {
    for (const { text, put } of this.#places) put(replacements[text]!);
    for (const join of this.#joins) join();
  }
}

export type OnChange = (name: string, text: string) => void;

function isVerbatim(name: string, text: string): boolean {
  return VERBATIM.has(name) || (name === 'name' && IDENTIFIER.test(text));
}

function isFile(part: unknown): boolean {
  return isObject(part) && typeof part.type === 'string' && !TEXT_PARTS.has(part.type);
}

function isJson(text: string): boolean {
  try {
    return typeof JSON.parse(text) === 'object';
  } catch {
    return false;
  }
}
