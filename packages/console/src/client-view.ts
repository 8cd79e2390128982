import { badge } from './badge.ts';
import { Chart } from './chart.ts';
import { type Command, commandsOf, limitText } from './client-commands.ts';
import { rightsOf } from './client-row.ts';
import { CopyButton } from './copy-button.ts';
import { el, setChildren, setText } from './dom.ts';
import type { Feed } from './feed.ts';
import { ago, date, duration, si, whole } from './format.ts';
import { Polled } from './polled.ts';
import {
  type ApiKeyState,
  type ClientDetail,
  HISTORY_MS,
  PATHS,
  type StringsState,
} from './protocol.ts';
import { seenTable } from './seen-kinds.ts';
import type { View } from './view.ts';

const HEADS = ['API key', 'Created', 'Last use', 'State', ''] as const;

/** One client: its limits, API keys and requests, and the commands that change it. */
export class ClientView implements View {
  readonly route = 'client';
  readonly title = 'Client';
  readonly parent = 'clients';
  readonly element: HTMLElement;
  readonly #name = el('h1');
  readonly #note = el('p', { class: 'note', role: 'status' });
  readonly #parts = el('div', { class: 'view', hidden: true });
  readonly #chart = new Chart({
    title: 'Requests',
    unit: 'per second, on this node',
    lines: [{ label: 'requests', color: 1 }],
    format: si,
    group: 'client',
  });
  readonly #facts = el('dl', { class: 'checks' });
  readonly #keys = el('tbody');
  readonly #commands = el('div');
  readonly #seen = el('section', { class: 'card' });
  readonly #client = new Polled<ClientDetail>(
    (client) => this.#take(client),
    (status) => this.#fail(status),
  );
  #id: string | undefined;
  /** Nobody has the id. It is not asked for again. */
  #isUnknown = false;
  /** What the lists show, so that they are made again only after a change. */
  #drawn = '';
  #nowMs = 0;

  constructor() {
    const heads = HEADS.map((head) => (head ? el('th', { scope: 'col' }, head) : el('td')));
    const keys = el(
      'section',
      { class: 'card' },
      el('h2', {}, 'API keys'),
      el('table', { class: 'rows' }, el('thead', {}, el('tr', {}, ...heads)), this.#keys),
    );
    const commands = el(
      'section',
      { class: 'card' },
      el('h2', {}, 'Commands that change this client'),
      this.#commands,
    );
    const facts = el('section', { class: 'card' }, el('h2', {}, 'Settings'), this.#facts);
    this.#parts.append(facts, el('div', { class: 'halves' }, this.#chart.element, keys));
    this.#parts.append(this.#seen, commands);
    this.element = el(
      'div',
      { class: 'view' },
      el('p', {}, el('a', { href: '#/clients' }, '← All clients')),
      el('div', { class: 'bar' }, this.#name, this.#note),
      this.#parts,
    );
  }

  update(feed: Feed): void {
    const id = decodeURIComponent(location.hash.split('/')[2] ?? '');
    if (id !== this.#id) {
      this.#id = id;
      this.#isUnknown = false;
      this.#parts.hidden = true;
      setText(this.#name, id);
      setText(this.#note, '');
    }
    this.#nowMs = feed.nowMs;
    if (this.#isUnknown) return;
    this.#client.update(`${PATHS.client}?id=${encodeURIComponent(id)}`, feed);
  }

  redraw(): void {
    this.#chart.redraw();
  }

  #fail(status: number): void {
    this.#isUnknown = status === 404;
    const words = 'Not known at the moment: the database does not answer.';
    setText(this.#note, this.#isUnknown ? 'There is no client with this id.' : words);
    this.#parts.classList.toggle('stale', !this.#isUnknown);
  }

  #take(client: ClientDetail): void {
    this.#parts.hidden = false;
    this.#parts.classList.remove('stale');
    setText(this.#name, client.name);
    setText(this.#note, client.client_id);
    this.#drawRates(client);
    const { rates: _, ...rest } = client;
    const drawn = JSON.stringify([rest, Math.floor(this.#nowMs / 60_000)]);
    if (drawn === this.#drawn) return;
    this.#drawn = drawn;
    setChildren(this.#facts, ...factsOf(client).map(([name, text]) => fact(name, text)));
    setChildren(this.#keys, ...client.api_keys.map((key) => keyRow(key, this.#nowMs)));
    this.#seen.hidden = client.sees === null;
    const heading = el('h2', {}, 'What it sees of each kind');
    setChildren(this.#seen, heading, client.sees && seenTable(client.sees));
    setChildren(this.#commands, ...commandsOf(client).map(commandRow));
  }

  #drawRates({ name, rates }: ClientDetail): void {
    const times = rates.map(({ atMs }) => atMs / 1_000);
    const perS = rates.map(({ requestsPerS }) => requestsPerS);
    const endS = times.at(-1) ?? this.#nowMs / 1_000;
    const highest = Math.max(0, ...perS);
    const nothing = highest === 0 ? 'No requests in the last 15 minutes' : '';
    this.#chart.draw([times, perS], [endS - HISTORY_MS / 1_000, endS], nothing);
    this.#chart.describe(
      `Requests of ${name}: ${si(perS.at(-1) ?? 0)} now, ${si(highest)} at most`,
    );
  }
}

const MODES: Record<ClientDetail['token_mode'], string> = {
  deterministic: 'deterministic: equal values get equal tokens',
  random: 'random: a new token each time',
};

function factsOf(client: ClientDetail): [string, string][] {
  const { disabled_at: disabledAt, time_to_live_s: timeToLiveS } = client;
  return [
    ['Allowed to', disabledAt === null ? rightsOf(client) : 'nothing: disabled'],
    ...(client.space === '' ? [] : [['Space', client.space] as [string, string]]),
    ['Tokens', MODES[client.token_mode]],
    ['Tokens are kept', timeToLiveS === null ? 'for ever' : duration(timeToLiveS * 1_000)],
    ...(client.strings === null ? [] : [stringsText(client.strings)]),
    ...client.limits.map((limit): [string, string] => limitText(limit)),
    ['Created', date(Date.parse(client.created_at))],
  ];
}

function stringsText({ replaced, passed }: StringsState): [string, string] {
  const text = `${whole(replaced)} replaced, ${whole(passed)} passed in clear`;
  return ['Strings under the policy', `${text} since the start of this node`];
}

function fact(name: string, text: string): HTMLElement {
  return el('div', {}, el('dt', {}, name), el('dd', {}, text));
}

function keyRow(key: ApiKeyState, nowMs: number): HTMLElement {
  const { api_key_id: id, last_used_at: lastUsedAt } = key;
  const [isLive, state] = stateOf(key, nowMs);
  const revoke = new CopyButton(
    `the command that revokes ${id}`,
    () => `standin api-key revoke ${id}`,
    'Copy revoke',
  );
  const cells: (Node | string)[] = [
    date(Date.parse(key.created_at)),
    lastUsedAt === null ? 'never' : ago(nowMs - Date.parse(lastUsedAt)),
    isLive ? badge('good', state) : badge('neutral', state),
    isLive ? revoke.element : '',
  ];
  return el(
    'tr',
    {},
    el('th', { scope: 'row', 'data-head': HEADS[0] }, el('code', {}, id)),
    ...cells.map((content, i) => el('td', { 'data-head': HEADS[i + 1]! }, content)),
  );
}

function stateOf(
  { revoked_at: revokedAt, expires_at: expiresAt }: ApiKeyState,
  nowMs: number,
): [boolean, string] {
  if (revokedAt !== null) return [false, `revoked ${date(Date.parse(revokedAt))}`];
  if (expiresAt === null) return [true, 'valid'];
  const endsMs = Date.parse(expiresAt);
  return endsMs <= nowMs ? [false, `expired ${date(endsMs)}`] : [true, `until ${date(endsMs)}`];
}

function commandRow({ does, line }: Command): HTMLElement {
  return el(
    'div',
    { class: 'change' },
    el('p', { class: 'note' }, does),
    el(
      'div',
      { class: 'command' },
      el('pre', { tabindex: 0, 'aria-label': does }, el('code', {}, line)),
      new CopyButton(`the command: ${does}`, () => line).element,
    ),
  );
}
