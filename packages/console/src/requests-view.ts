import { badge } from './badge.ts';
import { choices } from './choices.ts';
import { clientAddress } from './client-row.ts';
import { CopyButton } from './copy-button.ts';
import { el, setChildren, setText } from './dom.ts';
import type { Feed } from './feed.ts';
import { clock, date, ms, plural, whole } from './format.ts';
import type { Level } from './health.ts';
import { Polled } from './polled.ts';
import { PATHS, type RecentRequest, type RecentRequestsShown } from './protocol.ts';
import { chosen, reasonsOf } from './request-filter.ts';
import type { View } from './view.ts';

const HEADS = ['Time', 'Client', 'Request', 'Result', 'Values', 'Took', 'Request id'] as const;
const EVERY_REASON = '';

/** The last requests that this node answered. */
export class RequestsView implements View {
  readonly route = 'requests';
  readonly title = 'Requests';
  readonly element: HTMLElement;
  readonly #count = el('p', { class: 'note', role: 'status' });
  readonly #reason = el('select', { 'aria-label': 'Reason', change: () => this.#show() });
  readonly #filter = el('input', {
    type: 'search',
    placeholder: 'Client, status or request id',
    autocomplete: 'off',
    spellcheck: 'false',
    input: () => this.#show(),
  });
  readonly #pause = el('input', { type: 'checkbox', id: 'pause' });
  readonly #body = el('tbody');
  readonly #card = el('section', { class: 'card requests', 'aria-label': this.title });
  #isRefusedOnly = false;
  #shown: RecentRequestsShown = { all: [], refused: [] };
  #names = new Map<string, string>();
  /** By request id, so that the focus stays in its row. */
  #rows = new Map<string, HTMLElement>();
  readonly #requests = new Polled<RecentRequestsShown>((shown) => {
    this.#shown = shown;
    this.#show();
  });

  constructor() {
    const heads = HEADS.map((head) => el('th', { scope: 'col' }, head));
    this.#card.append(
      el('table', { class: 'rows' }, el('thead', {}, el('tr', {}, ...heads)), this.#body),
    );
    this.element = el(
      'div',
      { class: 'view' },
      el('div', { class: 'bar' }, el('h1', {}, this.title), this.#count),
      el(
        'div',
        { class: 'bar' },
        choices('Requests shown', ['All', 'Refused and failed'], 0, (chosen) => {
          this.#isRefusedOnly = chosen === 1;
          this.#show();
        }),
        this.#reason,
        el('label', { class: 'filter' }, el('span', {}, 'Find'), this.#filter),
        el('label', { class: 'pause' }, this.#pause, 'Pause'),
      ),
      this.#card,
    );
    this.#show();
  }

  update(feed: Feed): void {
    const { clients } = feed.state ?? {};
    const names = new Map(clients?.shown.map((one) => [one.client_id, one.name]));
    if (String([...names]) !== String([...this.#names])) {
      this.#names = names;
      this.#rows.clear();
      this.#show();
    }
    if (!this.#pause.checked) this.#requests.update(PATHS.requests, feed);
  }

  redraw(): void {}

  #show(): void {
    const { all, refused } = this.#shown;
    this.#showReasons(refused);
    const reason = this.#reason.value;
    const from = this.#isRefusedOnly || reason !== EVERY_REASON ? refused : all;
    const shown = chosen(from, reason, this.#filter.value, this.#names);
    const rows = new Map(
      shown.map((one) => [one.request_id, this.#rows.get(one.request_id) ?? this.#row(one)]),
    );
    this.#rows = rows;
    const focused = document.activeElement;
    setChildren(this.#body, ...rows.values());
    if (focused instanceof HTMLElement && this.#body.contains(focused)) focused.focus();
    this.#card.hidden = rows.size === 0;
    setText(this.#count, countOf(shown.length, all.length));
  }

  /** Keeps the choice, also when its last request has left the list. */
  #showReasons(refused: readonly RecentRequest[]): void {
    const before = this.#reason.value;
    const reasons = reasonsOf(refused);
    if (before !== EVERY_REASON && !reasons.has(before)) reasons.set(before, 0);
    const options = [...reasons].map(([reason, count]) =>
      el('option', { value: reason }, `${reason} (${whole(count)})`),
    );
    setChildren(this.#reason, el('option', { value: EVERY_REASON }, 'Any reason'), ...options);
    this.#reason.value = before;
  }

  #row(one: RecentRequest): HTMLElement {
    const { client_id: id, request_id: requestId } = one;
    const contents: (Node | string)[] = [
      id === null
        ? 'no valid API key'
        : el('a', { href: clientAddress(id) }, this.#names.get(id) ?? id),
      el('code', {}, `${one.method} ${one.route}`),
      el('span', { class: 'result' }, badge(levelOf(one.status), String(one.status)), one.why),
      el('span', { class: 'result' }, whole(one.values), inClear(one)),
      ms(one.duration_ms),
      el(
        'span',
        { class: 'client-id' },
        el('code', {}, requestId),
        new CopyButton(`the request id ${requestId}`, () => requestId).element,
      ),
    ];
    const cells = contents.map((content, i) => el('td', { 'data-head': HEADS[i + 1]! }, content));
    const time = el('span', { title: date(one.atMs) }, clock(one.atMs));
    return el('tr', {}, el('th', { scope: 'row', 'data-head': HEADS[0] }, time), ...cells);
  }
}

/** A request whose strings all passed is probably a mistake. */
function inClear({ values, passed }: RecentRequest): HTMLElement | null {
  if (!passed) return null;
  return badge(values === 0 ? 'warning' : 'neutral', `${whole(passed)} in clear`);
}

function levelOf(status: number): Level {
  if (status < 400) return 'good';
  return status < 500 || status === 503 ? 'warning' : 'bad';
}

function countOf(shown: number, known: number): string {
  if (known === 0) return 'This node has answered no request yet.';
  if (shown === 0) return 'No such request among the last ones.';
  return `The last ${plural(shown, 'request')} of this node, newest first`;
}
