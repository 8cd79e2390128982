import type { ConsoleState } from '../ops/console/state.ts';
import { CopyButton } from './copy.ts';
import { el, setText } from './dom.ts';

/** Where nobody has asked for anything yet: the line that does. */
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

  update(is_idle: boolean, state: ConsoleState | null): void {
    this.element.hidden = !is_idle;
    if (state !== null) setText(this.#line, commandOf('http://127.0.0.1:8080'));
  }
}

function commandOf(service_url: string): string {
  return [
    `curl ${service_url}/api/v1/tokenize`,
    '  -H "Authorization: Bearer $API_KEY"',
    "  -H 'Content-Type: application/json'",
    `  -d '{"data":{"name":"Jane Doe"}}'`,
  ].join(' \\\n');
}
