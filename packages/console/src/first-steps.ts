import { CallAsCommand } from './call-code.ts';
import { el } from './dom.ts';
import type { ConsoleState } from './protocol.ts';

/** Shows a command for a first request while the service has none. */
export class FirstSteps {
  readonly #command = new CallAsCommand('Command that sends a request');
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
      this.#command.element,
    );
  }

  update(isIdle: boolean, state: ConsoleState | null): void {
    this.element.hidden = !isIdle;
    if (state !== null) {
      const url = callersUrl(state.serviceUrl);
      const text = '{"name":"Jane Doe"}';
      this.#command.show({ url, operation: 'tokenize', text, isLenient: false });
    }
  }
}

/** The address for callers: if the service listens on all addresses, with the host of this page. */
export function callersUrl(serviceUrl: string): string {
  const url = new URL(serviceUrl);
  if (url.hostname === '0.0.0.0' || url.hostname === '[::]') url.hostname = location.hostname;
  return url.origin;
}
