import { CopyButton } from './copy-button.ts';
import { el, setText } from './dom.ts';
import type { ConsoleState } from './protocol.ts';

/** Shows a command for a first request while the service has none. */
export class FirstSteps {
  readonly #line = el('code');
  readonly element: HTMLElement;

  constructor() {
    this.element = el(
      'section',
      { class: 'card first-steps', hidden: true },
      el('h2', {}, 'No requests in the last 15 minutes'),
      el(
        'p',
        {},
        'The charts begin with the first one. Send it with an API key, or use the ',
        el('a', { href: '#/playground' }, 'playground'),
        '.',
      ),
      el(
        'div',
        { class: 'command' },
        el('pre', { tabindex: 0, 'aria-label': 'Command that sends a request' }, this.#line),
        new CopyButton('the command', () => this.#line.textContent).element,
      ),
    );
  }

  update(isIdle: boolean, state: ConsoleState | null): void {
    this.element.hidden = !isIdle;
    if (state !== null) setText(this.#line, commandOf(state.serviceUrl));
  }
}

/** If the service listens on all addresses, the command uses the host of this page. */
function commandOf(serviceUrl: string): string {
  const url = new URL('/api/v1/tokenize', serviceUrl);
  if (url.hostname === '0.0.0.0' || url.hostname === '[::]') url.hostname = location.hostname;
  return [
    `curl ${url}`,
    '  -H "Authorization: Bearer $API_KEY"',
    "  -H 'Content-Type: application/json'",
    `  -d '{"data":{"name":"Jane Doe"}}'`,
  ].join(' \\\n');
}
