import type { MaskSettings } from '../shape/kind-settings.ts';
import { cut, type Entry, type Node, type PolicyDocument, unknown } from './document.ts';
import { type Form, MASK_END, OPTIONS, type Options } from './format.ts';

const ENDS: readonly string[] = ['first', 'last'];

/** Reads the values of a document by their forms. A value with a mistake is undefined. */
export class OptionReader {
  readonly #document: PolicyDocument;

  constructor(document: PolicyDocument) {
    this.#document = document;
  }

  /** The option as an entry of KindSettings; none after a mistake. */
  option({ at, name, value }: Entry, options: Options, shape: string): [string, unknown][] {
    const form = Object.entries(options).find(([option]) => option === name)?.[1];
    if (form === undefined) {
      const others = Object.entries(OPTIONS).filter(([, theirs]) => Object.hasOwn(theirs, name));
      const belongs = others.map(([other]) => other).join(', ');
      const names = ['shape', ...Object.keys(options)];
      this.#document.add(
        at,
        others.length > 0
          ? `${name} is an option of the shape ${belongs}, not of ${shape}: leave it out`
          : unknown(name, names),
      );
      return [];
    }
    const read = this.#value(value, name, form);
    return read === undefined ? [] : [[name, read]];
  }

  /** Lists the options that no shape has, where the shape itself is a mistake. */
  checkNames(options: readonly Entry[]): undefined {
    const all = [...new Set(Object.values(OPTIONS).flatMap(Object.keys))];
    for (const { at, name } of options)
      if (!all.includes(name)) this.#document.add(at, unknown(name, all));
  }

  #value(node: Node, named: string, form: Form): unknown {
    if (form.type === 'mask') return this.#mask(node, form.of);
    if (form.type === 'word') return this.word(node, named, form.of);
    if (form.type === 'words') return this.#words(node, named, form.of);
    if (form.type === 'number') return this.#number(node, named, form);
    if (form.type === 'flag') {
      const value = node.type === 'scalar' ? node.value : undefined;
      return typeof value === 'boolean' ? value : this.#refuse(node, named, 'true or false');
    }
    const text = this.text(node, named);
    const isLike = text === undefined || new RegExp(form.pattern).test(text);
    return isLike ? text : this.#refuse(node, named, form.like);
  }

  text(node: Node, named: string): string | undefined {
    if (node.type === 'scalar' && typeof node.value === 'string') return node.value;
    const source = node.type === 'scalar' ? node.source : '';
    return this.#refuse(
      node,
      named,
      source === '' ? 'text' : `text: write it in quotes: "${cut(source)}"`,
    );
  }

  word<T extends string>(node: Node, named: string, among: readonly T[]): T | undefined {
    const value = node.type === 'scalar' ? node.value : undefined;
    const found = among.find((one) => one === value);
    if (found !== undefined) return found;
    if (typeof value !== 'string') return this.#refuse(node, named, `one of ${among.join(', ')}`);
    this.#document.add(node.at, `${named}: ${unknown(value, among)}`);
    return undefined;
  }

  #words(node: Node, named: string, among: readonly string[]): readonly string[] | undefined {
    if (node.type !== 'list') return this.#refuse(node, named, `a list, such as [${among[0]}]`);
    const words = node.items.flatMap((item) => this.word(item, named, among) ?? []);
    if (new Set(words).size < words.length)
      return this.#refuse(node, named, 'a list of different words');
    return words;
  }

  #number(
    node: Node,
    named: string,
    { min, max }: { readonly min: number; readonly max: number },
  ): number | undefined {
    const value = node.type === 'scalar' ? node.value : undefined;
    const isFit = Number.isInteger(value) && (value as number) >= min && (value as number) <= max;
    return isFit
      ? (value as number)
      : this.#refuse(node, named, `a whole number, ${min} to ${max}`);
  }

  #mask(node: Node, among: readonly MaskSettings['show'][]): MaskSettings | undefined {
    if (node.type !== 'map')
      return this.#refuse(node, 'mask', `what it shows, such as { show: ${among.at(-1)} }`);
    const entries = new Map(node.entries.map((entry) => [entry.name, entry]));
    const shown = entries.get('show')?.value;
    const show =
      shown === undefined
        ? this.#refuse(node, 'mask', `what it shows, such as { show: ${among.at(-1)} }`)
        : this.word(shown, 'show', among);
    for (const { at, name } of node.entries) {
      if (ENDS.includes(name) && show !== 'ends' && show !== undefined)
        this.#document.add(at, `${name} goes with show: ends only: leave it out`);
      else if (![...ENDS, 'show'].includes(name))
        this.#document.add(at, unknown(name, ['show', ...ENDS]));
    }
    if (show !== 'ends') return show && { show };
    const [first, last] = ENDS.map((name) => {
      const entry = entries.get(name);
      return entry === undefined ? 0 : this.#number(entry.value, name, MASK_END);
    });
    if (first === 0 && last === 0)
      return this.#refuse(node, 'mask', 'an end that it shows: add first or last, a number');
    return first === undefined || last === undefined ? undefined : { show, first, last };
  }

  #refuse(node: Node, named: string, must: string): undefined {
    if (node.type !== 'bad') this.#document.add(node.at, `${named} must be ${must}`);
    return undefined;
  }
}
