import { badge } from './badge.ts';
import { CopyButton } from './copy-button.ts';
import { el, setChildren, setText } from './dom.ts';
import { ago, date, limitShown, si, whole } from './format.ts';
import type { ClientState } from './protocol.ts';
import { seenInShort } from './seen-kinds.ts';
import { ShareBar } from './share-bar.ts';

export const HEADS = [
  'Client',
  'Space',
  'Allowed to',
  'Sees',
  'In clear',
  'Tokens',
  'API keys',
  'Last use',
  'Requests per second',
] as const;

/** The row of one client. Updates keep the element, so that the focus stays where it is. */
export class ClientRow {
  readonly element: HTMLElement;
  readonly #name = el('span', { class: 'client-name' });
  readonly #link: HTMLAnchorElement;
  readonly #disabled = badge('bad', 'disabled');
  readonly #cells: HTMLElement[];
  readonly #rate = new ShareBar('');
  #seen = '';

  constructor({ client_id: clientId, name }: ClientState) {
    this.#cells = HEADS.slice(1).map((head) => el('td', { 'data-head': head }));
    this.#cells.at(-1)!.append(this.#rate.element);
    this.#link = el('a', { href: clientAddress(clientId) });
    this.#name.append(this.#link, this.#disabled);
    const id = el(
      'span',
      { class: 'client-id' },
      el('code', {}, clientId),
      new CopyButton(`the client_id of ${name}`, () => clientId).element,
    );
    const first = el('th', { scope: 'row', 'data-head': HEADS[0] }, this.#name, id);
    this.element = el('tr', {}, first, ...this.#cells);
  }

  update(client: ClientState, nowMs: number): void {
    const {
      name,
      isDisabled,
      limitPerS,
      requestsPerS,
      liveApiKeys,
      last_used_at: lastUsedAt,
    } = client;
    const [space, may, sees, passed, mode, keys, used] = this.#cells;
    setText(this.#link, name);
    this.#disabled.hidden = !isDisabled;
    setText(space!, client.space || '–');
    setText(may!, rightsOf(client));
    this.#showSeen(client, sees!);
    setText(passed!, client.strings === null ? '–' : whole(client.strings.passed));
    setText(mode!, client.token_mode);
    setText(keys!, String(liveApiKeys));
    const usedMs = lastUsedAt === null ? null : Date.parse(lastUsedAt);
    setText(used!, usedMs === null ? 'never' : ago(nowMs - usedMs));
    used!.title = usedMs === null ? '' : date(usedMs);
    const limit = limitPerS === null ? ', no limit' : ` of ${limitShown(limitPerS)}`;
    const share = limitPerS === null ? null : (requestsPerS ?? 0) / Math.max(limitPerS, 1);
    this.#rate.update(share, si(requestsPerS) + limit);
  }

  /** Makes the lines again only after a change, because a new line loses the selection. */
  #showSeen({ sees }: ClientState, cell: HTMLElement): void {
    const seen = JSON.stringify(sees);
    if (seen === this.#seen) return;
    this.#seen = seen;
    setChildren(cell, sees === null ? '–' : seenInShort(sees));
  }
}

/** The address of the client's page. */
export function clientAddress(clientId: string): string {
  return `#/client/${encodeURIComponent(clientId)}`;
}

type Rights = Pick<ClientState, 'can_tokenize' | 'can_detokenize' | 'can_lookup'>;

export function rightsOf(client: Rights): string {
  const operations = ['tokenize', 'detokenize', 'lookup'] as const;
  return operations.filter((one) => client[`can_${one}`]).join(', ') || 'nothing';
}
