import type { MaskSettings } from '../shape/kind-settings.ts';
import { cut, type Entry, type Node, PolicyDocument, unknown } from './document.ts';
import { MASK_END, OPTIONS, type OptionForm, type Options } from './format.ts';

const ENDS: readonly string[] = ['first', 'last'];

/** Reads the values of a document by their forms. A value with a mistake is undefined. */
export class OptionReader extends PolicyDocument {
  /** The option as an entry of KindSettings; none after a mistake. */
  option({ at, name, value }: Entry, options: Options, shape: string): [string, unknown][] {
    const form = Object.entries(options).find(([option]) => option === name)?.[1];
    if (form === undefined) {
      const others = Object.entries(OPTIONS).filter(([, theirs]) => Object.hasOwn(theirs, name));
      const belongs = others.map(([other]) => other).join(', ');
      const problem =
        others.length > 0
          ? `${name} is an option of the shape ${belongs}, not of ${shape}: leave it out`
          : unknown(name, ['shape', ...Object.keys(options)]);
      this.add(at, problem);
      return [];
    }
    const read = this.#value(value, name, form);
    return read === undefined ? [] : [[name, read]];
  }

  /** Lists the options that no shape has, where the shape itself is a mistake. */
  checkNames(options: readonly Entry[]): undefined {
    const all = [...new Set(Object.values(OPTIONS).flatMap(Object.keys))];
    for (const { at, name } of options) if (!all.includes(name)) this.add(at, unknown(name, all));
  }

  #value(node: Node, named: string, form: OptionForm): unknown {
    const { value } = node;
    switch (form.type) {
      case 'mask':
        return this.#mask(node, form.of);
      case 'word':
        return this.word(node, named, form.of);
      case 'words':
        return this.#words(node, named, form.of);
      case 'number':
        return this.#number(node, named, form);
      case 'flag':
        return typeof value === 'boolean' ? value : this.#refuse(node, named, 'true or false');
      case 'text': {
        const text = this.text(node, named);
        const isLike = text === undefined || new RegExp(form.pattern).test(text);
        return isLike ? text : this.#refuse(node, named, form.like);
      }
    }
  }

  text(node: Node, named: string): string | undefined {
    if (typeof node.value === 'string') return node.value;
    const quoted = node.source ? `: write it in quotes: "${cut(node.source)}"` : '';
    return this.#refuse(node, named, `text${quoted}`);
  }

  word<T extends string>(node: Node, named: string, among: readonly T[]): T | undefined {
    const { value } = node;
    const found = among.find((one) => one === value);
    if (found !== undefined) return found;
    if (typeof value !== 'string') return this.#refuse(node, named, `one of ${among.join(', ')}`);
    this.add(node.at, `${named}: ${unknown(value, among)}`);
    return undefined;
  }

  #words(node: Node, named: string, among: readonly string[]): readonly string[] | undefined {
    if (!node.items) return this.#refuse(node, named, `a list, such as [${among[0]}]`);
    const words = node.items.flatMap((item) => this.word(item, named, among) ?? []);
    if (new Set(words).size === words.length) return words;
    return this.#refuse(node, named, 'a list of different words');
  }

  #number(node: Node, named: string, { min, max }: { readonly min: number; readonly max: number }) {
    const value = node.value as number;
    if (Number.isInteger(value) && value >= min && value <= max) return value;
    return this.#refuse(node, named, `a whole number, ${min} to ${max}`);
  }

  #mask(node: Node, among: readonly MaskSettings['show'][]): MaskSettings | undefined {
    const entries = new Map(node.entries?.map((entry) => [entry.name, entry.value]));
    const shown = entries.get('show');
    const show = shown
      ? this.word(shown, 'show', among)
      : this.#refuse(node, 'mask', `what it shows, such as { show: ${among.at(-1)} }`);
    for (const { at, name } of node.entries ?? []) {
      if (ENDS.includes(name) && show !== 'ends' && show !== undefined)
        this.add(at, `${name} goes with show: ends only: leave it out`);
      else if (![...ENDS, 'show'].includes(name)) this.add(at, unknown(name, ['show', ...ENDS]));
    }
    if (show !== 'ends') return show && { show };
    const [first, last] = ENDS.map((name) => {
      const end = entries.get(name);
      return end === undefined ? 0 : this.#number(end, name, MASK_END);
    });
    if (first === 0 && last === 0)
      return this.#refuse(node, 'mask', 'an end that it shows: add first or last, a number');
    return first === undefined || last === undefined ? undefined : { show, first, last };
  }

  #refuse(node: Node, named: string, must: string): undefined {
    if (!node.isBad) this.add(node.at, `${named} must be ${must}`);
  }
}
