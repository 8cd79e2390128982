import { el, setText } from './dom.ts';

/** A bar that shows a share, with a text. The bar alone adds no information. */
export class ShareBar {
  readonly element: HTMLElement;
  readonly #text = el('span', { class: 'share-text' });
  readonly #filled = el('i');
  readonly #track = el('span', { class: 'track', 'aria-hidden': 'true' }, this.#filled);

  /** @param label empty if a heading already names the share */
  constructor(label: string) {
    this.element = el(
      'div',
      { class: 'share' },
      label && el('span', {}, label),
      this.#text,
      this.#track,
    );
  }

  /** @param share 0 to 1, and more fills the bar; null: not known, or nothing to share */
  update(share: number | null, text: string): void {
    setText(this.#text, text);
    this.#track.hidden = share === null;
    this.#filled.style.width = `${Math.min(1, Math.max(0, share ?? 0)) * 100}%`;
  }
}
