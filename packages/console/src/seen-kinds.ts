import { el } from './dom.ts';
import type { ClientDetail, Right, SeenKind, SeenKinds } from './protocol.ts';

const EVERYTHING: Record<Right, string> = {
  full: 'everything',
  masked: 'everything masked',
  none: 'nothing',
};

/** What a client sees of the kinds, each right on a line of its own. */
export function seenInShort(sees: readonly SeenKinds[]): HTMLElement {
  if (sees.length === 1) return el('span', {}, EVERYTHING[sees[0]!.right]);
  const lines = sees.map(({ right, kinds, others }) => {
    const more = others === 0 ? '' : ` and ${others} more`;
    return el('span', { class: 'seen' }, rightMark(right), ` ${kinds.join(', ')}${more}`);
  });
  return el('span', {}, ...lines);
}

export function rightMark(right: Right): HTMLElement {
  return el('span', { class: `right ${right}` }, right);
}

const HEADS = ['Kind', 'Sees', 'Example'] as const;

/** Kind by kind, with what the client would see of an example. */
export function seenTable(sees: NonNullable<ClientDetail['sees']>): HTMLElement {
  const heads = HEADS.map((head) => el('th', { scope: 'col' }, head));
  return el(
    'table',
    { class: 'rows' },
    el('thead', {}, el('tr', {}, ...heads)),
    el('tbody', {}, ...sees.map(seenRow)),
  );
}

function seenRow({ kind, right, example }: SeenKind): HTMLElement {
  return el(
    'tr',
    {},
    el('th', { scope: 'row', 'data-head': HEADS[0] }, el('code', {}, kind)),
    el('td', { 'data-head': HEADS[1] }, rightMark(right)),
    el('td', { 'data-head': HEADS[2] }, example === null ? '–' : el('code', {}, example)),
  );
}
