/** A path in a body, from `data` on. */
export type Path = Iterable<string | number>;

/**
 * The end of a path. Places in one object or list share the steps to it, so the paths of all places
 * need memory for their last steps only.
 */
export class Step implements Path {
  readonly up: Step | undefined;
  readonly name: string | number;
  /** How many steps the path has. */
  readonly depth: number;
  #text: string | undefined;
  #jsonBytes: number | undefined;

  constructor(up: Step | undefined, name: string | number) {
    this.up = up;
    this.name = name;
    this.depth = (up?.depth ?? 0) + 1;
  }

  *[Symbol.iterator](): Generator<string | number> {
    if (this.up !== undefined) yield* this.up;
    yield this.name;
  }

  /** The path as `pathText` writes it. Of each step, it is made once. */
  get text(): string {
    this.#text ??= this.up === undefined ? String(this.name) : this.up.text + stepText(this.name);
    return this.#text;
  }

  /** The bytes of the path's text in a JSON string. Of each step, they are counted once. */
  get jsonBytes(): number {
    this.#jsonBytes ??=
      this.up === undefined
        ? jsonBytesOf(String(this.name))
        : this.up.jsonBytes + jsonBytesOf(stepText(this.name));
    return this.#jsonBytes;
  }
}

const QUOTES = '""';

function jsonBytesOf(text: string): number {
  return Buffer.byteLength(JSON.stringify(text)) - QUOTES.length;
}

const PLAIN_NAME = /^[A-Za-z_][\w-]*$/;

/** Writes a path as `data.customer.emails[1]`, with unusual names in quotes: `data["e mail"]`. */
export function pathText(path: Path): string {
  if (path instanceof Step) return path.text;
  const [root, ...rest] = path;
  return `${root}${rest.map(stepText).join('')}`;
}

function stepText(name: string | number): string {
  if (typeof name === 'string' && PLAIN_NAME.test(name)) return `.${name}`;
  return `[${typeof name === 'number' ? name : JSON.stringify(name)}]`;
}
