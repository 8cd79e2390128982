import { arrange, type Column, type Order } from './client-order.ts';
import { ClientRow, HEADS } from './client-row.ts';
import { el, setText } from './dom.ts';
import type { Feed } from './feed.ts';
import { plural, whole } from './format.ts';
import type { ClientsState } from './protocol.ts';
import type { View } from './view.ts';

/** Sortable columns by head, with the order of the first click. */
const SORTING: Partial<Record<(typeof HEADS)[number], Order>> = {
  Client: { column: 'name', isDescending: false },
  'API keys': { column: 'keys', isDescending: true },
  'Last use': { column: 'last_used', isDescending: true },
  'Requests per second': { column: 'rate', isDescending: true },
};

/** The clients, with their last use and their rate. */
export class ClientsView implements View {
  readonly route = 'clients';
  readonly title = 'Clients';
  readonly element: HTMLElement;
  readonly #count = el('p', { class: 'note', role: 'status' });
  readonly #filter: HTMLInputElement;
  readonly #heads = new Map<Column, HTMLElement>();
  readonly #body = el('tbody');
  readonly #table: HTMLElement;
  readonly #rows = new Map<string, ClientRow>();
  #order: Order = { column: 'last_used', isDescending: true };
  #feed: Feed | undefined;
  #drawn: unknown;

  constructor() {
    this.#filter = el('input', {
      type: 'search',
      placeholder: 'Name, client_id or space',
      autocomplete: 'off',
      spellcheck: 'false',
      input: () => this.#again(),
    });
    const heads = HEADS.map((head) => this.#head(head));
    this.#table = el(
      'table',
      { class: 'rows' },
      el('thead', {}, el('tr', {}, ...heads)),
      this.#body,
    );
    this.element = el(
      'div',
      { class: 'view' },
      el(
        'div',
        { class: 'bar' },
        el('h1', {}, this.title),
        this.#count,
        el('label', { class: 'filter' }, el('span', {}, 'Filter'), this.#filter),
      ),
      el('section', { class: 'card', 'aria-label': this.title }, this.#table),
    );
  }

  update(feed: Feed): void {
    this.#feed = feed;
    const { state, nowMs } = feed;
    if (state === null || state === this.#drawn || document.hidden) return;
    this.#drawn = state;
    this.#body.closest('.card')!.classList.toggle('stale', state.clients === null);
    if (state.clients === null) {
      setText(this.#count, 'Not known at the moment: the database does not answer.');
      return;
    }
    const { shown: known } = state.clients;
    this.#table.classList.toggle(
      'no-space',
      known.every(({ space }) => space === ''),
    );
    this.#table.classList.toggle('no-policy', state.policy.version === 0);
    const shown = arrange(known, this.#filter.value, this.#order);
    setText(this.#count, countOf(shown.length, state.clients));
    const rows = shown.map((client) => {
      const row = this.#rows.get(client.client_id) ?? new ClientRow(client);
      this.#rows.set(client.client_id, row);
      row.update(client, nowMs);
      return row.element;
    });
    this.#place(rows);
    const ids = new Set(known.map(({ client_id: clientId }) => clientId));
    for (const id of this.#rows.keys()) if (!ids.has(id)) this.#rows.delete(id);
  }

  redraw(): void {}

  /** Moves rows only if their order changed, because a moved element loses the focus. */
  #place(rows: readonly HTMLElement[]): void {
    const isSame =
      rows.length === this.#body.children.length &&
      rows.every((row, i) => row === this.#body.children[i]);
    if (isSame) return;
    const focused = document.activeElement;
    this.#body.replaceChildren(...rows);
    if (focused instanceof HTMLElement && this.#body.contains(focused)) focused.focus();
  }

  #head(head: (typeof HEADS)[number]): HTMLElement {
    const first = SORTING[head];
    if (first === undefined) return el('th', { scope: 'col', 'data-head': head }, head);
    const button = el(
      'button',
      { type: 'button', class: 'sort', click: () => this.#sort(first) },
      head,
    );
    const cell = el('th', { scope: 'col' }, button);
    this.#heads.set(first.column, cell);
    this.#mark();
    return cell;
  }

  #sort(first: Order): void {
    const isAgain = this.#order.column === first.column;
    this.#order = isAgain ? { ...first, isDescending: !this.#order.isDescending } : first;
    this.#mark();
    this.#again();
  }

  #mark(): void {
    const direction = this.#order.isDescending ? 'descending' : 'ascending';
    for (const [column, head] of this.#heads) {
      if (column === this.#order.column) head.setAttribute('aria-sort', direction);
      else head.removeAttribute('aria-sort');
    }
  }

  #again(): void {
    this.#drawn = undefined;
    if (this.#feed !== undefined) this.update(this.#feed);
  }
}

function countOf(shown: number, { shown: known, others }: ClientsState): string {
  if (known.length === 0) return 'No client yet: standin client create';
  const more = others === 0 ? '' : `; ${plural(others, 'further client')} not shown`;
  const all = plural(known.length, 'client');
  return shown === known.length ? all + more : `${whole(shown)} of ${all}${more}`;
}
