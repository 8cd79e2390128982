import { stepText, pathText as written } from '#client/path';

/** A path in a body, from `data` on. */
export type Path = Iterable<string | number>;

/**
 * The end of a path. Places in one object or list share the steps to it, so the paths of all places
 * need memory for their last steps only.
 */
export class PathStep implements Path {
  readonly up: PathStep | undefined;
  readonly name: string | number;
  /** How many steps the path has. */
  readonly depth: number;
  #text: string | undefined;
  #jsonBytes: number | undefined;

  constructor(up: PathStep | undefined, name: string | number) {
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
    this.#text ??= (this.up?.text ?? '') + this.#own;
    return this.#text;
  }

  /** The bytes of the path's text in a JSON string. Of each step, they are counted once. */
  get jsonBytes(): number {
    this.#jsonBytes ??= (this.up?.jsonBytes ?? 0) + jsonBytesOf(this.#own);
    return this.#jsonBytes;
  }

  get #own(): string {
    return this.up === undefined ? String(this.name) : stepText(this.name);
  }
}

const QUOTES = '""';

function jsonBytesOf(text: string): number {
  return Buffer.byteLength(JSON.stringify(text)) - QUOTES.length;
}

export function pathText(path: Path): string {
  return path instanceof PathStep ? path.text : written(path);
}
