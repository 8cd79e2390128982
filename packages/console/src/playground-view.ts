import { badge } from './badge.ts';
import { el, setChildren, setText } from './dom.ts';
import type { Feed } from './feed.ts';
import { ms } from './format.ts';
import { JsonField } from './json-field.ts';
import { failureOf, problemOf } from './playground-errors.ts';
import { ask, type Timed } from './playground-request.ts';
import type { Operation } from './protocol.ts';
import type { View } from './view.ts';

const EXAMPLE = {
  customer: {
    name: 'Zoë Müller-Lüdenscheidt',
    emails: ['zoe.mueller@example.com', 'zoe@example.org'],
    phone: '+49 30 901820',
  },
  card: '4111 1111 1111 1111',
  iban: 'DE89 3704 0044 0532 0130 00',
  note: 'Prefers e-mail, before noon',
};

/** Tokenizes and restores pasted JSON, for trying out the service. Keeps nothing. */
export class PlaygroundView implements View {
  readonly route = 'playground';
  readonly title = 'Playground';
  readonly element: HTMLElement;
  readonly #signedOut: () => void;
  readonly #apiKey: HTMLInputElement;
  readonly #apiKeyError = el('p', { class: 'error', id: 'api-key-error', role: 'alert' });
  readonly #original: JsonField;
  readonly #tokens: JsonField;
  readonly #outcome = el('div', { class: 'outcome', role: 'status' });
  readonly #restored = el('pre', { tabindex: 0, 'aria-label': 'Restored' });
  readonly #result: HTMLElement;
  readonly #buttons: HTMLButtonElement[];
  #isAsking = false;

  /** @param signedOut called when the console requires a sign-in */
  constructor(signedOut: () => void) {
    this.#signedOut = signedOut;
    this.#apiKey = el('input', {
      id: 'api-key',
      type: 'password',
      autocomplete: 'off',
      spellcheck: 'false',
      placeholder: 'stk_…',
      'aria-describedby': 'api-key-error api-key-note',
      input: () => this.#failApiKey(''),
    });
    const clear = () => this.#forgetResult();
    this.#original = new JsonField('original', 'Original', '{"name": "Jane Doe"}', clear);
    this.#tokens = new JsonField('tokens', 'Tokens', 'The tokens appear here', clear);
    this.#buttons = [
      button('Tokenize', 'primary', () => void this.#tokenize()),
      button('Restore', 'primary', () => void this.#restore()),
    ];
    this.#result = el('section', { class: 'card', hidden: true }, el('h2', {}, 'Restored'));
    this.#result.append(this.#restored);
    this.element = this.#layout();
    this.element.addEventListener('keydown', (event) => this.#onKey(event));
  }

  update(_feed: Feed): void {}

  redraw(): void {}

  #layout(): HTMLElement {
    const [tokenize, restore] = this.#buttons;
    const example = button('Example', 'quiet', () => {
      this.#original.text = JSON.stringify(EXAMPLE, null, 2);
      this.#tokens.text = '';
      this.#forgetResult();
    });
    const note =
      'Kept in the memory of this page only, and forgotten on reload. Values go to this service and nowhere else.';
    return el(
      'div',
      { class: 'view playground' },
      el('div', { class: 'bar' }, el('h1', {}, this.title), this.#outcome),
      el(
        'div',
        { class: 'card field api-key' },
        el('label', { for: 'api-key' }, 'API key'),
        this.#apiKey,
        this.#apiKeyError,
        el('p', { class: 'note', id: 'api-key-note' }, note),
      ),
      el(
        'div',
        { class: 'halves' },
        el(
          'section',
          { class: 'card', 'aria-label': 'Tokenize' },
          this.#original.element,
          el('div', { class: 'actions' }, tokenize, example, shortcut()),
        ),
        el(
          'section',
          { class: 'card', 'aria-label': 'Restore' },
          this.#tokens.element,
          el('div', { class: 'actions' }, restore, shortcut()),
        ),
      ),
      this.#result,
    );
  }

  /** Ctrl+Enter presses the button below the input. */
  #onKey(event: KeyboardEvent): void {
    if (event.key !== 'Enter' || !(event.ctrlKey || event.metaKey)) return;
    event.preventDefault();
    void ((event.target as Element).id === 'tokens' ? this.#restore() : this.#tokenize());
  }

  async #tokenize(): Promise<void> {
    const answer = await this.#ask('tokenize', this.#original);
    if (answer === undefined) return;
    this.#tokens.text = JSON.stringify(dataOf(answer), null, 2);
    this.#say('good', 'Tokenized', answer);
  }

  async #restore(): Promise<void> {
    const answer = await this.#ask('detokenize', this.#tokens);
    if (answer === undefined) return;
    const restored = dataOf(answer);
    this.#result.hidden = false;
    setText(this.#restored, JSON.stringify(restored, null, 2));
    if (problemOf(this.#original.text) !== undefined) return this.#say('good', 'Restored', answer);
    const isEqual = JSON.stringify(restored) === JSON.stringify(JSON.parse(this.#original.text));
    if (isEqual) this.#say('good', 'Restored: equal to the original', answer);
    else this.#say('warning', 'Restored: differs from the original', answer);
  }

  /** undefined: the call failed, and the page shows the error. */
  async #ask(operation: Operation, field: JsonField): Promise<Timed | undefined> {
    if (this.#isAsking) return undefined;
    this.#forgetResult();
    field.fail('');
    this.#failApiKey('');
    const apiKey = this.#apiKey.value.trim();
    // Other characters cannot be in a header, so not in an API key.
    if (!/^[\x21-\x7e]+$/.test(apiKey)) {
      this.#failApiKey(apiKey === '' ? 'Type an API key first.' : 'This is not an API key.');
      return undefined;
    }
    const problem = problemOf(field.text);
    if (problem !== undefined) {
      field.fail(problem);
      return undefined;
    }
    this.#setAsking(true);
    try {
      const answer = await ask(operation, apiKey, field.text);
      if (answer === undefined) this.#signedOut();
      else if (answer.status === 200) return answer;
      else this.#fail(answer, operation, field);
    } catch {
      this.#say('bad', 'The console cannot be reached. Try again.');
    } finally {
      this.#setAsking(false);
    }
    return undefined;
  }

  #fail(answer: Timed, operation: Operation, field: JsonField): void {
    const { about, words } = failureOf(answer, operation);
    this.#say('bad', about === 'service' ? words : `Refused with ${answer.status}`, answer);
    if (about === 'text') field.fail(words);
    if (about === 'api_key') this.#failApiKey(words);
  }

  #failApiKey(words: string): void {
    setText(this.#apiKeyError, words);
    this.#apiKey.setAttribute('aria-invalid', String(words !== ''));
    if (words !== '') this.#apiKey.focus();
  }

  #forgetResult(): void {
    this.#result.hidden = true;
    setText(this.#restored, '');
    setChildren(this.#outcome);
  }

  /** Sets aria-disabled, because `disabled` would take the focus from the pressed button. */
  #setAsking(isAsking: boolean): void {
    this.#isAsking = isAsking;
    for (const one of this.#buttons) one.setAttribute('aria-disabled', String(isAsking));
  }

  #say(level: 'good' | 'warning' | 'bad', words: string, answer?: Timed): void {
    setChildren(
      this.#outcome,
      badge(level, words),
      answer && el('span', { class: 'note' }, ms(answer.tookMs)),
      answer?.request_id &&
        el('span', { class: 'note' }, 'request ', el('code', {}, answer.request_id)),
    );
  }
}

function dataOf({ body }: Timed): unknown {
  return (body as { data: unknown }).data;
}

function button(text: string, kind: string, click: () => void): HTMLButtonElement {
  return el('button', { type: 'button', class: kind, click }, text);
}

function shortcut(): HTMLElement {
  return el('span', { class: 'note keys' }, el('kbd', {}, 'Ctrl'), el('kbd', {}, 'Enter'));
}
