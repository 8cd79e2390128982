import { type Call, codeOf, LANGUAGES, type Language } from './call-code.ts';
import { CopyButton } from './copy-button.ts';
import { el, setText } from './dom.ts';

/** Shows the last call as code to copy. */
export class CallAsCode {
  readonly element: HTMLElement;
  readonly #code = el('code');
  #language: Language = 'curl';
  #call: Call | undefined;

  constructor() {
    const choices = LANGUAGES.map((language) => {
      const choice = el('input', {
        type: 'radio',
        name: 'language',
        checked: language === this.#language,
        change: () => {
          this.#language = language;
          this.show(this.#call);
        },
      });
      return el('label', {}, choice, el('span', {}, language));
    });
    const legend = el('legend', { class: 'unseen' }, 'Language');
    this.element = el(
      'section',
      { class: 'card', hidden: true },
      el(
        'div',
        { class: 'bar' },
        el('h2', {}, 'The same call'),
        el('fieldset', { class: 'choices' }, legend, ...choices),
      ),
      el(
        'div',
        { class: 'command' },
        el('pre', { tabindex: 0, 'aria-label': 'The call as code' }, this.#code),
        new CopyButton('the code', () => this.#code.textContent).element,
      ),
    );
  }

  /** @param call undefined: nothing to show */
  show(call: Call | undefined): void {
    this.#call = call;
    this.element.hidden = call === undefined;
    setText(this.#code, call === undefined ? '' : codeOf(this.#language, call));
  }
}
