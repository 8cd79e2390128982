import {
  CLIENTS,
  disableForm,
  forgetForm,
  issueForm,
  newClientForm,
  policyForm,
  revokeForm,
} from './admin-acts.ts';
import { ActRefused, AdminLink } from './admin-link.ts';
import { choices } from './choices.ts';
import { Confirm } from './confirm.ts';
import { el, setChildren, setText } from './dom.ts';
import type { Feed } from './feed.ts';
import type { View } from './view.ts';

const ABSENT =
  'This service has no admin API, so this page only shows. Set ADMIN_TOKEN to act here, or use the commands.';

/** What administrators may do, after they have signed in. Every act is confirmed. */
export class AdminView implements View {
  readonly route = 'admin';
  readonly title = 'Admin';
  readonly element: HTMLElement;
  readonly #link = new AdminLink(() => this.#show());
  readonly #confirm = new Confirm();
  readonly #who = el('p', { class: 'note', role: 'status' });
  readonly #signOut: HTMLButtonElement;
  readonly #absent = el('p', { class: 'card', hidden: true }, ABSENT);
  readonly #token = el('input', {
    id: 'admin-token',
    type: 'password',
    autocomplete: 'off',
    'aria-describedby': 'admin-token-error admin-token-note',
  });
  readonly #error = el('p', { class: 'error', id: 'admin-token-error', role: 'alert' });
  readonly #signIn: HTMLElement;
  readonly #forms = [newClientForm, issueForm, revokeForm, disableForm, policyForm, forgetForm].map(
    (form) => form(this.#link, this.#confirm),
  );
  readonly #clients = el('datalist', { id: CLIENTS });
  readonly #choices: HTMLElement;
  readonly #act = el('div', { class: 'chosen-act' });
  /** Empty while nobody is signed in. */
  readonly #acts = el('div', { class: 'view' });
  #names = '';
  #chosen = 0;
  #hasAdmin: boolean | undefined;

  constructor() {
    const signOut = () => void this.#link.signOut();
    this.#signOut = el('button', { type: 'button', class: 'quiet', click: signOut }, 'Sign out');
    this.#signIn = this.#signInForm();
    const titles = this.#forms.map(({ title }) => title);
    this.#choices = choices('Act', titles, this.#chosen, (chosen) => {
      this.#chosen = chosen;
      this.#open();
    });
    this.element = el(
      'div',
      { class: 'view' },
      el('div', { class: 'bar' }, el('h1', {}, this.title), this.#who, this.#signOut),
      this.#absent,
      this.#signIn,
      this.#acts,
      this.#confirm.element,
    );
    this.#show();
  }

  update({ state }: Feed): void {
    const names = state?.clients?.shown.map(({ name }) => name) ?? [];
    if (String(names) !== this.#names) {
      this.#names = String(names);
      setChildren(this.#clients, ...names.map((value) => el('option', { value })));
    }
    if (state === null || state.hasAdmin === this.#hasAdmin) return;
    this.#hasAdmin = state.hasAdmin;
    if (this.#hasAdmin) void this.#link.load();
    this.#show();
  }

  redraw(): void {}

  #show(): void {
    const { name } = this.#link;
    setText(this.#who, name === null ? '' : `Signed in as ${name}. The audit log has every act.`);
    this.#absent.hidden = this.#hasAdmin !== false;
    this.#signIn.hidden = this.#hasAdmin !== true || name !== null;
    this.#signOut.hidden = name === null;
    const acts = [this.#choices, this.#act, this.#clients];
    setChildren(this.#acts, ...(name === null ? [] : acts));
    if (name !== null) return void this.#open();
    for (const form of this.#forms) {
      form.close();
      form.element.reset();
    }
  }

  #open(): void {
    for (const form of this.#forms) form.close();
    const chosen = this.#forms[this.#chosen]!;
    setChildren(this.#act, chosen.element);
    chosen.open();
  }

  #signInForm(): HTMLElement {
    const submit = (event: Event) => {
      event.preventDefault();
      void this.#try();
    };
    return el(
      'form',
      { class: 'card sign-in field', submit },
      el('h2', {}, 'Sign in to act'),
      el('label', { for: 'admin-token' }, 'Admin token'),
      this.#token,
      this.#error,
      el(
        'p',
        { class: 'note', id: 'admin-token-note' },
        'Yours in ADMIN_TOKEN, with or without your name. You are signed out after an hour.',
      ),
      el('button', { class: 'primary' }, 'Sign in to act'),
    );
  }

  async #try(): Promise<void> {
    const token = this.#token.value;
    this.#token.value = '';
    const problem = await this.#link.signIn(token).then(
      () => '',
      (error) => (error instanceof ActRefused ? error.message : String(error)),
    );
    setText(this.#error, problem);
    this.#token.setAttribute('aria-invalid', String(problem !== ''));
    if (problem !== '') this.#token.focus();
  }
}
