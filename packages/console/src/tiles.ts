import { el, setChildren, setText } from './dom.ts';
import { clock } from './format.ts';
import type { VaultState } from './protocol.ts';

/** A row of numbers, each with a note. Updates keep the elements. */
export class Tiles {
  readonly element: HTMLElement;
  readonly #tiles: { value: HTMLElement; note: HTMLElement }[];

  constructor(labels: readonly string[]) {
    this.#tiles = labels.map(() => ({ value: el('dd', { class: 'number' }), note: el('dd') }));
    const tiles = this.#tiles.map(({ value, note }, i) =>
      el('div', { class: 'card tile' }, el('dt', {}, labels[i]!), value, note),
    );
    this.element = el('dl', { class: 'tiles' }, ...tiles);
  }

  /**
   * @param texts value and note of each tile, the parts of the note apart by ` · `; null: a
   * placeholder, because nothing is known yet
   */
  update(texts: readonly (readonly [string, string] | null)[]): void {
    this.#tiles.forEach(({ value, note }, i) => {
      const text = texts[i] ?? null;
      value.classList.toggle('skeleton', text === null);
      setText(value, text?.[0] ?? '');
      const parts = (text?.[1] ?? '').split(' · ');
      if (note.textContent !== parts.join(''))
        setChildren(note, ...parts.map((part) => el('span', {}, part)));
    });
  }
}

/** When the records were counted. */
export function countedText({ growth }: VaultState): string {
  const last = growth.at(-1);
  return last === undefined ? '' : `at ${clock(last.atMs)}`;
}
