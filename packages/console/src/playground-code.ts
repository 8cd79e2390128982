import { CopyButton } from './copy-button.ts';
import { el, setText } from './dom.ts';
import type { Operation } from './protocol.ts';

/** A call as a program or a person would send it. */
export interface Call {
  /** Address of the public listener. */
  readonly url: string;
  readonly operation: Operation;
  /** JSON, the `data` of the request. */
  readonly text: string;
}

export type Language = 'curl' | 'TypeScript' | 'Python';

/** `data` has only strings, objects and lists, so its JSON is valid in all three languages. */
const CODE: Record<Language, (call: Call) => string> = {
  curl: ({ url, operation, text }) =>
    [
      `curl ${url}/api/v1/${operation} \\`,
      '  -H "Authorization: Bearer $STANDIN_API_KEY" \\',
      "  -H 'Content-Type: application/json' \\",
      `  -d '${`{"data":${text}}`.replaceAll("'", "'\\''")}'`,
    ].join('\n'),
  TypeScript: ({ url, operation, text }) =>
    [
      'import { env } from "node:process";',
      'import { Standin } from "standin-client";',
      '',
      'const standin = new Standin({',
      `  url: "${url}",`,
      '  apiKey: env.STANDIN_API_KEY ?? "",',
      '});',
      `const data = await standin.${operation}(${text});`,
    ].join('\n'),
  Python: ({ url, operation, text }) =>
    [
      'import json, os, urllib.request',
      '',
      `data = ${text}`,
      'request = urllib.request.Request(',
      `    "${url}/api/v1/${operation}",`,
      '    json.dumps({"data": data}).encode(),',
      '    {',
      '        "Authorization": f"Bearer {os.environ[\'STANDIN_API_KEY\']}",',
      '        "Content-Type": "application/json",',
      '    },',
      ')',
      'with urllib.request.urlopen(request) as response:',
      '    print(json.load(response)["data"])',
    ].join('\n'),
};

/** The code of a call. It reads the API key from STANDIN_API_KEY, and never contains one. */
export function codeOf(language: Language, call: Call): string {
  return CODE[language](call);
}

/** Shows the last call as code to copy. */
export class CallAsCode {
  readonly element: HTMLElement;
  readonly #code = el('code');
  #language: Language = 'curl';
  #call: Call | undefined;

  constructor() {
    const choices = (Object.keys(CODE) as Language[]).map((language) => {
      const choice = el('input', {
        type: 'radio',
        name: 'language',
        checked: language === this.#language,
        change: () => {
          this.#language = language;
          this.show(this.#call);
        },
      });
      return el('label', {}, choice, el('span', {}, language));
    });
    const legend = el('legend', { class: 'unseen' }, 'Language');
    this.element = el(
      'section',
      { class: 'card', hidden: true },
      el(
        'div',
        { class: 'bar' },
        el('h2', {}, 'The same call'),
        el('fieldset', { class: 'choices' }, legend, ...choices),
      ),
      el(
        'div',
        { class: 'command' },
        el('pre', { tabindex: 0, 'aria-label': 'The call as code' }, this.#code),
        new CopyButton('the code', () => this.#code.textContent).element,
      ),
    );
  }

  /** @param call undefined: nothing to show */
  show(call: Call | undefined): void {
    this.#call = call;
    this.element.hidden = call === undefined;
    setText(this.#code, call === undefined ? '' : codeOf(this.#language, call));
  }
}
