import { el, setText } from './dom.ts';

/** A bar of how much of a whole, with its words: the bar itself says nothing new. */
export class Share {
  readonly element: HTMLElement;
  readonly #text = el('span', { class: 'share-text' });
  readonly #filled = el('i');
  readonly #track = el('span', { class: 'track', 'aria-hidden': 'true' }, this.#filled);

  /** @param label empty where a heading says what it is */
  constructor(label: string) {
    this.element = el(
      'div',
      { class: 'share' },
      label && el('span', {}, label),
      this.#text,
      this.#track,
    );
  }

  /** @param share 0 to 1, more is shown as full; null: not known, or there is no whole */
  update(share: number | null, text: string): void {
    setText(this.#text, text);
    this.#track.hidden = share === null;
    this.#filled.style.width = `${Math.min(1, Math.max(0, share ?? 0)) * 100}%`;
  }
}
