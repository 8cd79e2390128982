import { el, setText } from './dom.ts';
import { lineOf, pathIn, placeOf, stepsOf } from './json-place.ts';

/** A large input for JSON, with its error below. */
export class JsonField {
  readonly element: HTMLElement;
  readonly #input: HTMLTextAreaElement;
  readonly #error: HTMLElement;

  /** @param changed called when the user types */
  constructor(id: string, label: string, placeholder: string, changed: () => void) {
    this.#error = el('p', { class: 'error', id: `${id}-error`, role: 'alert' });
    this.#input = el('textarea', {
      id,
      placeholder,
      rows: 14,
      // The text holds values. The browser must not send them to a spell checker or keep them.
      spellcheck: 'false',
      autocomplete: 'off',
      autocapitalize: 'off',
      'aria-describedby': `${id}-error`,
      input: () => {
        this.fail('');
        changed();
      },
    });
    this.element = el(
      'div',
      { class: 'field' },
      el('label', { for: id }, label),
      this.#input,
      this.#error,
    );
  }

  get text(): string {
    return this.#input.value;
  }

  set text(text: string) {
    this.#input.value = text;
    this.fail('');
  }

  /** @param words the error; '' clears it. If it names a path, the value there is selected. */
  fail(words: string): void {
    this.#input.setAttribute('aria-invalid', String(words !== ''));
    const path = pathIn(words);
    const place = path === undefined ? undefined : placeOf(this.text, stepsOf(path));
    if (place === undefined) {
      setText(this.#error, words);
    } else {
      setText(this.#error, `Line ${lineOf(this.text, place.begin)}: ${words}`);
      this.#input.setSelectionRange(place.begin, place.end);
    }
    if (words !== '') this.#input.focus();
  }
}
