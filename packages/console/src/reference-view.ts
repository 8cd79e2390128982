import { el, setChildren, setText } from './dom.ts';
import { PATHS } from './protocol.ts';
import { send } from './send.ts';
import type { View } from './view.ts';

/** The API reference of this service. */
export class ReferenceView implements View {
  readonly route = 'reference';
  readonly title = 'API reference';
  readonly element: HTMLElement;
  readonly #body = el('div', { class: 'card reference', click: (event) => this.#follow(event) });
  #isRead = false;

  constructor() {
    this.element = el(
      'div',
      { class: 'view' },
      el('div', { class: 'bar' }, el('h1', {}, this.title)),
      this.#body,
    );
  }

  update(): void {
    if (!this.#isRead) void this.#read();
  }

  redraw(): void {}

  async #read(): Promise<void> {
    this.#isRead = true;
    try {
      const response = await send(PATHS.reference);
      if (!response.ok) throw new Error(String(response.status));
      // The service has escaped every text in it.
      const page = new DOMParser().parseFromString(await response.text(), 'text/html');
      setChildren(this.#body, ...page.body.childNodes);
    } catch {
      setText(this.#body, 'Cannot reach the service: trying again.');
      this.#isRead = false;
    }
  }

  /** The address names the view, so a link into the page cannot be in it. */
  #follow(event: Event): void {
    const link = (event.target as Element).closest('a');
    if (link === null) return;
    event.preventDefault();
    if (link.hasAttribute('download')) return void save(link);
    const target = document.getElementById(link.hash.slice(1));
    target?.setAttribute('tabindex', '-1');
    target?.focus();
  }
}

/** The browser itself would load it without the session. */
async function save({ href, pathname }: HTMLAnchorElement): Promise<void> {
  const response = await send(href).catch(() => undefined);
  if (!response?.ok) return;
  const url = URL.createObjectURL(await response.blob());
  el('a', { href: url, download: pathname.slice(1) }).click();
  URL.revokeObjectURL(url);
}
