import { ActRefused } from './admin-link.ts';
import type { Confirm, Question } from './confirm.ts';
import { type Child, el, setChildren } from './dom.ts';

/** An act that waits for a confirmation. */
export interface Act {
  readonly question: Question;
  /** Does it, and returns what to show. */
  readonly run: () => Promise<Child>;
}

interface ActFormOptions {
  readonly title: string;
  readonly fields: readonly HTMLElement[];
  readonly button: string;
  /** Looks what the act would do. @throws ActRefused; Error with words for a wrong field */
  readonly prepare: () => Promise<Act>;
  readonly confirm: Confirm;
  /** Called when the form is shown: fills what can be chosen. */
  readonly opened?: () => Promise<void>;
}

/** A form whose act is confirmed in a dialog that names it. */
export class ActForm {
  readonly element: HTMLFormElement;
  readonly title: string;
  readonly #outcome = el('div', { class: 'outcome', role: 'status' });
  readonly #options: ActFormOptions;
  readonly #button: HTMLButtonElement;

  constructor(options: ActFormOptions) {
    this.#options = options;
    this.title = options.title;
    this.#button = el('button', {}, options.button);
    const submit = (event: Event) => {
      event.preventDefault();
      void this.#act();
    };
    this.element = el(
      'form',
      { class: 'card act', submit, input: () => this.#clearError(), autocomplete: 'off' },
      el('h2', {}, options.title),
      ...options.fields,
      this.#button,
      this.#outcome,
    );
  }

  /** Call it when the form is shown. What cannot be chosen can be typed. */
  open(): void {
    void this.#options.opened?.().catch(() => {});
  }

  /** Removes what the last act showed: an API key must not stay. */
  close(): void {
    setChildren(this.#outcome);
  }

  #clearError(): void {
    if (this.#outcome.querySelector('.error') !== null) setChildren(this.#outcome);
  }

  async #act(): Promise<void> {
    setChildren(this.#outcome);
    this.#button.disabled = true;
    try {
      const { question, run } = await this.#options.prepare();
      const isSure = await this.#options.confirm.ask(question);
      setChildren(this.#outcome, isSure ? await run() : el('p', {}, 'Nothing was done.'));
    } catch (error) {
      const known = error instanceof ActRefused || error instanceof WrongField;
      if (!known) throw error;
      const lines = error.message.split('\n').map((line) => el('p', { class: 'error' }, line));
      setChildren(this.#outcome, ...lines);
    } finally {
      this.#button.disabled = false;
    }
  }
}

/** What the user typed cannot be sent. */
export class WrongField extends Error {}

let lastId = 0;

/** A label with its control, and a note. */
export function labelled(
  name: string,
  control: HTMLInputElement | HTMLTextAreaElement | HTMLSelectElement,
  note = '',
): HTMLElement {
  const id = `act-${++lastId}`;
  control.id = id;
  if (note !== '') control.setAttribute('aria-describedby', `${id}-note`);
  return el(
    'div',
    { class: 'field' },
    el('label', { for: id }, name),
    control,
    note !== '' && el('p', { class: 'note', id: `${id}-note` }, note),
  );
}
