import { badge } from './badge.ts';
import { CopyButton } from './copy.ts';
import { el, setChildren, setText } from './dom.ts';
import { ago, date, si } from './format.ts';
import type { ClientState } from './protocol.ts';
import { Share } from './share.ts';

export const HEADS = ['Client', 'May', 'Tokens', 'API keys', 'Last use', 'Requests /s'] as const;

/** The row of one client; it stays the same element, so that what has the focus keeps it. */
export class ClientRow {
  readonly element: HTMLElement;
  readonly #name = el('span', { class: 'client-name' });
  readonly #cells: HTMLElement[];
  readonly #rate = new Share('');

  constructor({ client_id, name }: ClientState) {
    this.#cells = HEADS.slice(1).map((head) => el('td', { 'data-head': head }));
    this.#cells.at(-1)!.append(this.#rate.element);
    const id = el(
      'span',
      { class: 'client-id' },
      el('code', {}, client_id),
      new CopyButton(`the client_id of ${name}`, () => client_id).element,
    );
    const first = el('th', { scope: 'row', 'data-head': HEADS[0] }, this.#name, id);
    this.element = el('tr', {}, first, ...this.#cells);
  }

  update(client: ClientState, now_ms: number): void {
    const { name, is_disabled, rate_limit, requests_per_s, live_api_keys, last_used_at } = client;
    const [may, mode, keys, used] = this.#cells;
    setChildren(this.#name, name, is_disabled && badge('bad', 'disabled'));
    setText(may!, rightsOf(client));
    setText(mode!, client.token_mode);
    setText(keys!, String(live_api_keys));
    const used_ms = last_used_at === null ? null : Date.parse(last_used_at);
    setText(used!, used_ms === null ? 'never' : ago(now_ms - used_ms));
    used!.title = used_ms === null ? '' : date(used_ms);
    const limit = rate_limit === null ? ', no limit' : ` of ${si(rate_limit)}`;
    const share = rate_limit === null ? null : (requests_per_s ?? 0) / Math.max(rate_limit, 1);
    this.#rate.update(share, si(requests_per_s) + limit);
  }
}

function rightsOf({ can_tokenize, can_detokenize }: ClientState): string {
  if (can_tokenize && can_detokenize) return 'tokenize, detokenize';
  if (can_tokenize) return 'tokenize';
  return can_detokenize ? 'detokenize' : 'nothing';
}
