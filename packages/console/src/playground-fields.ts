import { levelIcon } from './badge.ts';
import { el, setChildren, setText } from './dom.ts';
import { plural } from './format.ts';
import { leavesOf } from './playground-input.ts';

/** More rows would make the page slow; the texts above have all fields. */
const MAX_ROWS = 200;
const HEADS = ['Field', 'Value', 'Token', 'Restored'] as const;

/** What is known of the fields, as parsed JSON; undefined: not asked. */
export interface Fields {
  readonly values?: unknown;
  readonly tokens?: unknown;
  readonly restored?: unknown;
}

/** Value, token and restored value side by side, for each field. */
export class FieldTable {
  readonly element: HTMLElement;
  readonly #body = el('tbody');
  readonly #more = el('p', { class: 'note' });

  constructor() {
    const heads = HEADS.map((head) => el('th', { scope: 'col' }, head));
    this.element = el(
      'section',
      { class: 'card fields', hidden: true },
      el('h2', {}, 'Field by field'),
      el('table', { class: 'rows' }, el('thead', {}, el('tr', {}, ...heads)), this.#body),
      this.#more,
    );
  }

  show({ values, tokens, restored }: Fields): void {
    const columns = [values, tokens, restored].map(
      (data) => new Map(leavesOf(data ?? {}).map(({ path, value }) => [path, value])),
    );
    const paths = [...columns[1]!.keys()];
    this.element.hidden = paths.length === 0;
    setChildren(this.#body, ...paths.slice(0, MAX_ROWS).map((path) => row(path, columns)));
    const hidden = paths.length - MAX_ROWS;
    setText(this.#more, hidden > 0 ? `${plural(hidden, 'further field')} not shown here` : '');
  }
}

function row(path: string, columns: readonly Map<string, unknown>[]): HTMLElement {
  const cells = columns.map((column, i) => {
    const isThere = column.has(path);
    const text = isThere ? textOf(column.get(path)) : '–';
    const isRestored = i === 2 && isThere;
    const isEqual = isRestored && column.get(path) === columns[0]!.get(path);
    return el(
      'td',
      { 'data-head': HEADS[i + 1]!, class: isEqual ? 'equal' : '' },
      el(
        'span',
        {},
        el('code', {}, text),
        isEqual && levelIcon('good'),
        isEqual && el('span', { class: 'unseen' }, ' equal to the value'),
      ),
    );
  });
  return el(
    'tr',
    {},
    el('th', { scope: 'row', 'data-head': HEADS[0] }, el('code', {}, path)),
    ...cells,
  );
}

function textOf(value: unknown): string {
  return typeof value === 'string' ? value : JSON.stringify(value);
}
