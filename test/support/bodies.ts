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

const TIMES = [0, 1, 2, 3, 14, 16, 50, 100, 200, 256, 1_000, 5_000, 10_000, 60_000, 200_000];

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
    for (let left = 1 + (this.#random.below(3) >> 1) + this.#random.below(2); left > 0; left--) {
      const { holder, key } = this.#random.pick([...slotsIn(root, 'body')]);
      // The outermost form is mostly the only one that is taken.
      const isKept = holder === root && this.#random.below(10) > 0;
      holder[key] = isKept
        ? this.#random.pick(this.#specially(holder[key]))()
        : this.#changed(holder[key], others);
    }
    return root.body;
  }

  words(words: string | Words): Words {
    const { text, times = 1 } = typeof words === 'string' ? { text: words } : words;
    const word = this.#random.pick(this.#words);
    const made = [
      () => ({ text: word, times }),
      () => ({ text: (text + word).slice(-2_000), times }),
      () => ({ text: word + text.slice(0, 2_000), times }),
      () => ({ text: `${text}#`, times }),
      () => ({ text, times: this.#times(times) }),
      () => ({ text, times: this.#times(times) }),
    ];
    return this.#random.pick(made)();
  }

  #times(times: number): number {
    const next = [times * 2, times >> 1, times + 1, Math.max(0, times - 1), times * 10];
    return this.#random.pick([...TIMES, ...next, ...next]);
  }

  #leaf(): Body {
    return this.#random.below(8) === 0
      ? { from: this.#random.pick([0, 1, 3, -1, 1e9]), step: this.#random.pick([0, 1, 2, 5]) }
      : this.words('');
  }

  #changed(body: Body, others: readonly Body[]): Body {
    const other = { body: structuredClone(this.#random.pick([body, ...others])) };
    const { holder, key } = this.#random.pick([...slotsIn(other, 'body')]);
    const general: (() => Body)[] = [
      () => this.#leaf(),
      () => ({ list: [body], times: this.#times(1) }),
      () => ({ map: [[this.words(''), body]], times: this.#times(1) }),
      () => ({ inside: this.words('a'), levels: this.#random.pick([1, 2, 7, 13, 14]), of: body }),
      () => holder[key],
    ];
    const special = this.#specially(body);
    return this.#random.pick(this.#random.below(3) === 0 ? general : special)();
  }

  /** What fits the form of a body. */
  #specially(body: Body): (() => Body)[] {
    if (typeof body === 'string' || 'text' in body) return [() => this.words(body)];
    if ('raw' in body) return [() => this.#leaf()];
    if ('json' in body) return [() => ({ json: this.#changed(body.json, []) })];
    if ('join' in body) {
      const at = this.#random.below(body.join.length);
      const changed = () => body.join.map((one, i) => (i === at ? this.words(one) : one));
      const resized = () => this.#resized(body.join, () => this.words(''));
      return [changed, changed, resized].map((make) => () => ({ join: make() }));
    }
    if ('from' in body)
      return [
        () => ({ ...body, step: this.#random.pick([0, 1, 2, 3, 5, 8, 13, -1]) }),
        () => ({ ...body, from: body.from + this.#random.pick([1, -1, 5, -5, 1_000]) }),
      ];
    if ('inside' in body)
      return [
        () => ({ ...body, levels: this.#random.pick([1, 2, 7, 12, 13, 14, 15, 16, 1_000]) }),
        () => ({ ...body, inside: this.words(body.inside) }),
        () => ({ ...body, inside: this.words(body.inside) }),
        () => body.of,
      ];
    const times = this.#times(body.times ?? 1);
    const repeated = () => ({ ...body, times });
    if ('list' in body)
      return [
        ...[repeated, repeated, repeated],
        () => ({ ...body, list: this.#resized(body.list, () => this.#leaf()) }),
      ];
    const at = this.#random.below(body.map.length);
    const renamed = body.map.map(
      ([name, of], i): Member => [i === at ? this.words(name) : name, of],
    );
    const numbered = body.map.map(([name, of]): Member => [withNumber(name), of]);
    return [
      () => ({ ...body, times }),
      () => ({ times, map: numbered }),
      () => ({ times, map: numbered }),
      () => ({ ...body, map: renamed }),
      () => ({ ...body, map: renamed }),
      () => ({
        ...body,
        map: this.#resized(body.map, (): Member => [this.words(''), this.#leaf()]),
      }),
    ];
  }

  #resized<T>(parts: readonly T[], make: () => T): T[] {
    const at = this.#random.below(parts.length);
    if (parts.length > 1 && this.#random.below(2) === 0) return parts.filter((_, i) => i !== at);
    return [...parts, this.#random.below(2) === 0 ? make() : parts[at]!];
  }
}

function withNumber(name: string | Words): Words {
  const words = typeof name === 'string' ? { text: name } : name;
  return words.text.includes('#') ? words : { ...words, text: `${words.text}#` };
}

interface Slot {
  readonly holder: any;
  readonly key: string | number;
}

/** The places of a body and of all bodies inside it. */
function* slotsIn(holder: any, key: string | number): Generator<Slot> {
  yield { holder, key };
  const body = holder[key] as Body;
  if (typeof body === 'string') return;
  if ('list' in body) for (const i of body.list.keys()) yield* slotsIn(body.list, i);
  else if ('map' in body) for (const member of body.map) yield* slotsIn(member, 1);
  else if ('of' in body) yield* slotsIn(body, 'of');
  else if ('json' in body) yield* slotsIn(body, 'json');
}
