import { el, setText } from './dom.ts';

const SHOWN_MS = 1_500;

/** A button that copies a text and confirms it. */
export class CopyButton {
  readonly element: HTMLButtonElement;
  readonly #word = el('span', { 'aria-live': 'polite' });
  readonly #name: string;

  /** @param what in the accessible name: "Copy the command" */
  constructor(what: string, text: () => string, name = 'Copy') {
    this.#name = name;
    setText(this.#word, name);
    this.element = el(
      'button',
      { type: 'button', class: 'quiet copy', click: () => void this.#copy(text()) },
      this.#word,
      el('span', { class: 'unseen' }, ` ${what}`),
    );
  }

  async #copy(text: string): Promise<void> {
    setText(this.#word, (await copied(text)) ? 'Copied' : 'Not allowed');
    setTimeout(() => setText(this.#word, this.#name), SHOWN_MS);
  }
}

/** Over HTTP from another machine a page has no clipboard API, but can copy a selection. */
async function copied(text: string): Promise<boolean> {
  if (navigator.clipboard !== undefined) {
    return navigator.clipboard.writeText(text).then(
      () => true,
      () => false,
    );
  }
  const before = document.activeElement;
  const field = el('textarea', { class: 'unseen' });
  field.value = text;
  document.body.append(field);
  field.select();
  const isDone = document.execCommand('copy');
  field.remove();
  if (before instanceof HTMLElement) before.focus();
  return isDone;
}
