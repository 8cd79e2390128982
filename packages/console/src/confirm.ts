import { el, setChildren, setText } from './dom.ts';

/** What is about to be done. */
export interface Question {
  readonly title: string;
  /** What it means, a line each. */
  readonly lines: readonly string[];
  /** What somebody loses, or what will be seen in clear. Before the lines. */
  readonly warnings?: readonly string[];
  /** The word on the button. */
  readonly verb: string;
  /** Whether somebody loses what they have. */
  readonly isDanger?: boolean;
}

/** Asks before an act. Nothing is done until the button that names it is pressed. */
export class Confirm {
  readonly element: HTMLDialogElement;
  readonly #title = el('h2', { id: 'confirm-title' });
  readonly #lines = el('div', { id: 'confirm-lines' });
  readonly #go = el('button', { value: 'yes', class: 'primary' });

  constructor() {
    const cancel = el('button', { value: '', autofocus: true }, 'Cancel');
    this.element = el(
      'dialog',
      {
        class: 'card confirm',
        'aria-labelledby': 'confirm-title',
        'aria-describedby': 'confirm-lines',
      },
      el(
        'form',
        { method: 'dialog' },
        this.#title,
        this.#lines,
        el('div', { class: 'actions' }, cancel, this.#go),
      ),
    );
  }

  ask({ title, lines, warnings = [], verb, isDanger = false }: Question): Promise<boolean> {
    setText(this.#title, title);
    setChildren(
      this.#lines,
      ...warnings.map((line) => el('p', { class: 'error' }, line)),
      ...lines.map((line) => el('p', {}, line)),
    );
    setText(this.#go, verb);
    this.#go.classList.toggle('danger', isDanger);
    this.element.returnValue = '';
    this.element.showModal();
    return new Promise((resolve) => {
      const answer = () => resolve(this.element.returnValue === 'yes');
      this.element.addEventListener('close', answer, { once: true });
    });
  }
}
