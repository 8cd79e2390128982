import { CopyButton } from './copy-button.ts';
import { el, setText } from './dom.ts';
import { LENIENT, type Operation } from './protocol.ts';

/** A call as a program or a person would send it. */
export interface Call {
  /** Address of the public listener. */
  readonly url: string;
  readonly operation: Operation;
  /** JSON, the `data` of the request. */
  readonly text: string;
  readonly isLenient: boolean;
}

/**
 * The call as a curl command. It reads the API key from STANDIN_API_KEY, and never contains one.
 */
export function curlOf({ url, operation, text, isLenient }: Call): string {
  return [
    `curl ${url}/api/v1/${operation} \\`,
    '  -H "Authorization: Bearer $STANDIN_API_KEY" \\',
    "  -H 'Content-Type: application/json' \\",
    ...(isLenient ? [`  -H 'Prefer: ${LENIENT}' \\`] : []),
    `  -d '${`{"data":${text}}`.replaceAll("'", "'\\''")}'`,
  ].join('\n');
}

/** Shows a call as a command to copy. */
export class CallAsCommand {
  readonly element: HTMLElement;
  readonly #code = el('code');

  /** @param label of the command, for readers who cannot see it */
  constructor(label: string) {
    this.element = el(
      'div',
      { class: 'command' },
      el('pre', { tabindex: 0, 'aria-label': label }, this.#code),
      new CopyButton('the command', () => this.#code.textContent).element,
    );
  }

  show(call: Call): void {
    setText(this.#code, curlOf(call));
  }
}
