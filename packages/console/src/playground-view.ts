import { badge } from './badge.ts';
import { CallAsCommand } from './call-code.ts';
import { el, setChildren, setText } from './dom.ts';
import type { Feed } from './feed.ts';
import { callersUrl } from './first-steps.ts';
import { ms } from './format.ts';
import { JsonField } from './json-field.ts';
import { failureOf } from './playground-errors.ts';
import { FieldTable } from './playground-fields.ts';
import { type Input, inputOf } from './playground-input.ts';
import { PlaygroundPolicy } from './playground-policy.ts';
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

/** Tokenizes and restores pasted values, for trying out the service. Keeps nothing. */
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
  readonly #fields = new FieldTable();
  readonly #command = new CallAsCommand('The call as a command');
  readonly #call = el(
    'section',
    { class: 'card', hidden: true },
    el('h2', {}, 'The same call'),
    this.#command.element,
  );
  readonly #buttons: HTMLButtonElement[];
  readonly #policy = new PlaygroundPolicy();
  #url = '';
  #isAsking = false;
  /** The values of the tokens that the page shows; undefined: the user typed the tokens. */
  #answered: unknown;

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
      change: () => void this.#policy.showRights(this.#key),
    });
    const hint = 'ann@example.com, or {"name": "Jane Doe"}';
    this.#original = new JsonField('original', 'Original', hint, () => this.#forgetTokens());
    this.#tokens = new JsonField('tokens', 'Tokens', 'The tokens appear here', () => {
      this.#answered = undefined;
      this.#forgetResult();
    });
    this.#buttons = [
      button('Tokenize', 'primary', () => void this.#tokenize()),
      button('Restore', 'primary', () => void this.#restore()),
    ];
    this.element = this.#layout();
    this.element.addEventListener('keydown', (event) => this.#onKey(event));
  }

  update(feed: Feed): void {
    if (feed.state !== null) this.#url = callersUrl(feed.state.serviceUrl);
    this.#policy.update(feed, this.#key);
  }

  redraw(): void {}

  get #key(): string {
    return this.#apiKey.value.trim();
  }

  #layout(): HTMLElement {
    const [tokenize, restore] = this.#buttons;
    restore!.title = 'Sends detokenize';
    const example = button('Example', 'quiet', () => {
      this.#original.text = JSON.stringify(this.#policy.example ?? EXAMPLE, null, 2);
      this.#forgetTokens();
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
          el('div', { class: 'actions' }, restore, this.#policy.lenience, shortcut()),
        ),
      ),
      // Below the buttons: what appears above them would move them away under a click.
      this.#policy.rightsElement,
      this.#fields.element,
      this.#call,
    );
  }

  /** Ctrl+Enter presses the button below the input. */
  #onKey(event: KeyboardEvent): void {
    if (event.key !== 'Enter' || !(event.ctrlKey || event.metaKey)) return;
    event.preventDefault();
    void ((event.target as Element).id === 'tokens' ? this.#restore() : this.#tokenize());
  }

  async #tokenize(): Promise<void> {
    this.#forgetTokens();
    const asked = await this.#ask('tokenize', this.#original);
    if (asked === undefined) return;
    const { answer, input } = asked;
    const tokens = dataOf(answer);
    this.#answered = JSON.parse(input.text);
    // A record comes back byte for byte, with numbers that a parser would change.
    const isAsSent = this.#policy.hasFields && answer.data !== JSON.stringify(tokens);
    this.#tokens.text = isAsSent ? answer.data : JSON.stringify(tokens, null, 2);
    const kinds = this.#policy.tokenized(this.#answered, tokens);
    this.#fields.show({ values: this.#answered, tokens, kinds });
    if (kinds?.size === 0)
      this.#say('warning', 'Nothing was tokenized: no field of the policy is in it', answer);
    else this.#say('good', 'Tokenized', answer, input.note);
  }

  async #restore(): Promise<void> {
    const values = this.#answered;
    const asked = await this.#ask('detokenize', this.#tokens);
    if (asked === undefined) return;
    const { answer, input } = asked;
    const tokens = JSON.parse(input.text);
    const restored = dataOf(answer);
    const kinds = this.#policy.kindsOf(tokens);
    const unapplied = unappliedIn(answer);
    const { rights } = this.#policy;
    this.#fields.show({ values, tokens, restored, kinds, rights, unapplied });
    const gaps = this.#policy.gapsIn(kinds, unapplied);
    if (gaps !== '') return this.#say('good', `Restored: ${gaps}`, answer, input.note);
    if (values === undefined) return this.#say('good', 'Restored', answer, input.note);
    const isEqual = JSON.stringify(restored) === JSON.stringify(values);
    if (isEqual) this.#say('good', 'Restored: equal to the original', answer);
    else this.#say('warning', 'Restored: differs from the original', answer);
  }

  /** undefined: the call failed, and the page shows the error. */
  async #ask(
    operation: Operation,
    field: JsonField,
  ): Promise<{ answer: Timed; input: Input } | undefined> {
    if (this.#isAsking) return undefined;
    this.#forgetResult();
    field.fail('');
    this.#failApiKey('');
    const apiKey = this.#key;
    // Other characters cannot be in a header, so not in an API key.
    if (!/^[\x21-\x7e]+$/.test(apiKey)) {
      this.#failApiKey(apiKey === '' ? 'Type an API key first.' : 'This is not an API key.');
      return undefined;
    }
    const input = this.#read(field);
    if (input === undefined) return undefined;
    const isLenient = operation === 'detokenize' && this.#policy.isLenient;
    this.#command.show({ url: this.#url, operation, text: input.text, isLenient });
    this.#call.hidden = false;
    this.#setAsking(true);
    try {
      const answer = await ask(operation, apiKey, input.text, isLenient);
      await this.#policy.showRights(apiKey);
      if (answer === undefined) this.#signedOut();
      else if (answer.status === 200) return { answer, input };
      else this.#fail(answer, operation, field);
    } catch {
      this.#say('bad', 'The console cannot be reached. Try again.');
    } finally {
      this.#setAsking(false);
    }
    return undefined;
  }

  #read(field: JsonField): Input | undefined {
    try {
      return inputOf(field.text, this.#policy.hasFields);
    } catch (error) {
      field.fail((error as Error).message);
      return undefined;
    }
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

  /** Tokens of other values would look like the answer. Tokens that the user typed stay. */
  #forgetTokens(): void {
    if (this.#answered !== undefined) this.#tokens.text = '';
    this.#answered = undefined;
    this.#forgetResult();
  }

  #forgetResult(): void {
    this.#fields.show({});
    this.#call.hidden = true;
    setChildren(this.#outcome);
  }

  /** Sets aria-disabled, because `disabled` would take the focus from the pressed button. */
  #setAsking(isAsking: boolean): void {
    this.#isAsking = isAsking;
    for (const one of this.#buttons) one.setAttribute('aria-disabled', String(isAsking));
  }

  #say(level: 'good' | 'warning' | 'bad', words: string, answer?: Timed, note = ''): void {
    setChildren(
      this.#outcome,
      badge(level, words),
      note !== '' && el('span', { class: 'note' }, note),
      answer && el('span', { class: 'note' }, ms(answer.tookMs)),
      answer?.request_id &&
        el('span', { class: 'note' }, 'request ', el('code', {}, answer.request_id)),
    );
  }
}

/** Why tokens were left as they are, by path. */
function unappliedIn({ body }: Timed): ReadonlyMap<string, string> {
  const { unapplied = [] } = body as { unapplied?: { path: string; reason: string }[] };
  return new Map(unapplied.map(({ path, reason }) => [path.replace(/^data\.?/, ''), reason]));
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
