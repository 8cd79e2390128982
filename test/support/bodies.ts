import type { Random } from './random.ts';

/** A text, this often. `#` is the number of its repetition, or of the one around it. */
export interface Words {
  readonly text: string;
  readonly times?: number;
}

/** JSON that is short to write and long to send: a list or map has its parts this often. */
export type Body =
  | string
  | Words
  /** A text of several. */
  | { readonly join: readonly (string | Words)[] }
  /** A text that is JSON itself. */
  | { readonly json: Body }
  | { readonly list: readonly Body[]; readonly times?: number }
  | { readonly map: readonly Member[]; readonly times?: number }
  /** Maps inside each other, each with this one name. */
  | { readonly inside: string | Words; readonly levels: number; readonly of: Body }
  /** A number, increased by each repetition. */
  | { readonly from: number; readonly step: number }
  /** Sent as it is. */
  | { readonly raw: string };
export type Member = readonly [name: string | Words, of: Body];

/** More than any listener takes. */
export const MAX_BODY_CHARACTERS = 1_100_000;

class TooLong extends Error {}

/**
 * The JSON; undefined: it is too long.
 * @param named the texts that stand for `{name}`
 */
export function written(body: Body, named: Readonly<Record<string, string>>): string | undefined {
  try {
    return new Writer(named).write(body);
  } catch (error) {
    if (error instanceof TooLong) return undefined;
    throw error;
  }
}

/** As `written`; empty: it is too long. */
export function textOf(words: Words, named: Readonly<Record<string, string>>): string {
  return JSON.parse(written(words, named) ?? '""');
}

class Writer {
  readonly #named: Readonly<Record<string, string>>;
  #text = '';
  #turn = 0;

  constructor(named: Readonly<Record<string, string>>) {
    this.#named = named;
  }

  write(body: Body): string {
    this.#write(body);
    return this.#text;
  }

  #add(text: string): void {
    this.#text += text;
    if (this.#text.length > MAX_BODY_CHARACTERS) throw new TooLong();
  }

  #write(body: Body): void {
    if (typeof body === 'string' || 'text' in body) this.#add(JSON.stringify(this.words(body)));
    else if ('join' in body)
      this.#add(JSON.stringify(body.join.map((one) => this.words(one)).join('')));
    else if ('json' in body) this.#add(JSON.stringify(new Writer(this.#named).write(body.json)));
    else if ('raw' in body) this.#add(body.raw);
    else if ('from' in body) this.#add(String(body.from + body.step * this.#turn));
    else if ('list' in body) this.#repeat('[]', body.list, body.times, (one) => this.#write(one));
    else if ('map' in body) this.#repeat('{}', body.map, body.times, (one) => this.#member(one));
    else {
      const name = JSON.stringify(this.words(body.inside));
      for (let level = 0; level < body.levels; level++) this.#add(`{${name}:`);
      this.#write(body.of);
      this.#add('}'.repeat(body.levels));
    }
  }

  #member([name, of]: Member): void {
    this.#add(`${JSON.stringify(this.words(name))}:`);
    this.#write(of);
  }

  #repeat<T>(ends: string, parts: readonly T[], times = 1, write: (part: T) => void): void {
    const outer = this.#turn;
    this.#add(ends[0]!);
    for (let turn = 0; turn < times; turn++) {
      this.#turn = turn;
      for (const [i, part] of parts.entries()) {
        if (turn + i > 0) this.#add(',');
        write(part);
      }
    }
    this.#add(ends[1]!);
    this.#turn = outer;
  }

  words(words: string | Words): string {
    const { text, times = 1 } = typeof words === 'string' ? { text: words } : words;
    const one = text.replaceAll(/\{(\w+)\}/g, (same, name) => this.#named[name] ?? same);
    if (one.length * times > MAX_BODY_CHARACTERS) throw new TooLong();
    if (times === 1) return one.replaceAll('#', String(this.#turn));
    if (!one.includes('#')) return one.repeat(times);
    return Array.from({ length: times }, (_, i) => one.replaceAll('#', String(i))).join('');
  }
}

const TIMES = [0, 1, 2, 3, 13, 14, 15, 16, 50, 100, 256, 1_000, 5_000, 10_000, 60_000, 200_000];
const MAX_TIMES = 1_000_000;

/** Makes bodies that are a little different, with texts from the words of a place. */
export class Mutations {
  readonly #random: Random;
  readonly #words: readonly string[];

  constructor(random: Random, words: readonly string[]) {
    this.#random = random;
    this.#words = words;
  }

  /** @param others bodies whose parts it may take */
  of(body: Body, others: readonly Body[]): Body {
    const root = { body: structuredClone(body) };
    for (let left = 1 + this.#random.below(3); left > 0; left--) {
      const [outermost, ...inner] = slotsIn(root, 'body');
      // The outermost form is mostly the only one that is taken.
      const isInner = inner.length > 0 && this.#random.below(10) > 0;
      const slot = isInner ? this.#random.pick(inner) : outermost!;
      slot.holder[slot.key] = this.#changed(slot, others);
    }
    return root.body;
  }

  words(words: string | Words): Words {
    const { text, times = 1 } = typeof words === 'string' ? { text: words } : words;
    const word = this.#random.pick(this.#words);
    return this.#random.pick([
      { text: word, times },
      { text: (text + word).slice(-2_000), times },
      { text: word + text.slice(0, 2_000), times },
      { text: `${text}#`, times },
      { text, times: this.#number(times) },
      { text, times: this.#number(times) },
    ]);
  }

  #number(number: number): number {
    const near = [number * 2, number >> 1, number + 1, number - 1, number * 10];
    const next = this.#random.pick([...TIMES, ...near, ...near]);
    return Math.min(Math.max(next, 0), MAX_TIMES);
  }

  #changed({ holder, key, isBody }: Slot, others: readonly Body[]): unknown {
    const value = holder[key];
    if (typeof value === 'number') return this.#number(value);
    if (Array.isArray(value)) return this.#resized(value, key);
    if (key === 'text') return this.words(value).text;
    if (!isBody) return this.words(value);
    const body = value as Exclude<Body, string>;
    const isText = typeof body === 'string' || 'text' in body;
    const isSpecial = this.#random.below(3) > 0;
    if (isSpecial && isText) return this.words(body);
    if (isSpecial && ('list' in body || 'map' in body))
      return { ...body, times: this.#number(body.times ?? 1) };
    const other = { body: structuredClone(this.#random.pick([body, ...others])) };
    const part = this.#random.pick([...slotsIn(other, 'body')].filter((slot) => slot.isBody));
    return this.#random.pick<Body>([
      this.#leaf(),
      { list: [body], times: this.#number(1) },
      { map: [[this.words(''), body]], times: this.#number(1) },
      { inside: this.words('a'), levels: this.#random.pick([1, 2, 7, 13, 14]), of: body },
      part.holder[part.key],
    ]);
  }

  #leaf(): Body {
    return this.#random.below(8) === 0 ? { from: this.#number(1), step: 1 } : this.words('');
  }

  #resized(parts: readonly unknown[], key: string | number): unknown[] {
    const at = this.#random.below(parts.length);
    if (parts.length > 1 && this.#random.below(2) === 0) return parts.filter((_, i) => i !== at);
    const made = key === 'map' ? [this.words(''), this.#leaf()] : this.words('');
    return [...parts, this.#random.below(2) === 0 ? made : parts[at]];
  }
}

interface Slot {
  readonly holder: any;
  readonly key: string | number;
  /** Whether any body can be there. */
  readonly isBody: boolean;
}

/** The places of a body and of all that is inside it. */
function* slotsIn(holder: any, key: string | number, isBody = true): Generator<Slot> {
  yield { holder, key, isBody };
  const value = holder[key];
  if (key === 'map')
    for (const member of value) {
      yield* slotsIn(member, 0, false);
      yield* slotsIn(member, 1);
    }
  else if (typeof value === 'object')
    for (const name of Object.keys(value))
      yield* slotsIn(value, name, ['of', 'json'].includes(name) || key === 'list');
}
