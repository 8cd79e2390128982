import { el, setText } from './dom.ts';
import { PATHS, type SignedIn } from './protocol.ts';
import { forget, remember } from './remembered.ts';
import { send } from './send.ts';

/** Asks for the OPS_TOKEN, and exchanges it for a session. */
export class SignIn {
  readonly element: HTMLFormElement;
  readonly #token: HTMLInputElement;
  readonly #error = el('p', { class: 'error', id: 'ops-token-error', role: 'alert' });
  readonly #signedIn: () => void;

  constructor(signedIn: () => void) {
    this.#signedIn = signedIn;
    this.#token = el('input', {
      id: 'ops-token',
      type: 'password',
      autocomplete: 'current-password',
      'aria-describedby': 'ops-token-error ops-token-note',
    });
    this.element = el(
      'form',
      {
        class: 'card sign-in field',
        hidden: true,
        submit: (event) => {
          event.preventDefault();
          void this.#try();
        },
      },
      el('h1', {}, 'Sign in'),
      el('label', { for: 'ops-token' }, 'OPS_TOKEN'),
      this.#token,
      this.#error,
      el(
        'p',
        { class: 'note', id: 'ops-token-note' },
        'OPS_TOKEN is set where the service is started: in its environment or its .env file.',
      ),
      el('button', { class: 'primary' }, 'Sign in'),
    );
  }

  show(isShown: boolean): void {
    if (this.element.hidden !== isShown) return;
    this.element.hidden = !isShown;
    if (isShown) this.#token.focus();
  }

  async #try(): Promise<void> {
    const problem = await signIn(this.#token.value);
    setText(this.#error, problem);
    this.#token.setAttribute('aria-invalid', String(problem !== ''));
    if (problem !== '') return this.#token.focus();
    this.#token.value = '';
    this.#signedIn();
  }
}

/** Returns the error; empty: signed in. */
async function signIn(token: string): Promise<string> {
  if (token === '') return 'Type the OPS_TOKEN first.';
  try {
    const response = await send(PATHS.session, {
      method: 'POST',
      headers: { 'Content-Type': 'application/json' },
      body: JSON.stringify({ token }),
    });
    const { status } = response;
    if (status === 200) remember('console', ((await response.json()) as SignedIn).page_secret);
    if (response.ok) return '';
    if (status === 401) return 'This is not the OPS_TOKEN of this service.';
    if (status === 429) return 'Too many tries. Wait a few seconds.';
    return `The service answered ${status}. Try again.`;
  } catch {
    return 'The service cannot be reached. Try again.';
  }
}

export async function signOut(): Promise<void> {
  await send(PATHS.session, { method: 'DELETE' }).catch(() => undefined);
  forget('console');
}
