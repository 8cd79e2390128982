import { badge, levelIcon } from './badge.ts';
import { el, setChildren } from './dom.ts';
import { plural } from './format.ts';
import { leavesOf } from './playground-input.ts';
import type { Right } from './protocol.ts';
import { rightMark } from './seen-kinds.ts';

/** More rows would make the page slow; the texts above have all fields. */
const MAX_ROWS = 200;
const MAX_PASSED = 20;
const HEADS = ['Field', 'Kind', 'Value', 'Token', 'Restored'] as const;

/** What is known of the fields, as parsed JSON; undefined: not asked. */
export interface Fields {
  readonly values?: unknown;
  readonly tokens?: unknown;
  readonly restored?: unknown;
  /** By path; undefined: every field is replaced, as without a policy. */
  readonly kinds?: ReadonlyMap<string, string> | undefined;
  /** What the API key sees, by kind. */
  readonly rights?: ReadonlyMap<string, Right>;
  /** By path, why a token was left as it was sent. */
  readonly unapplied?: ReadonlyMap<string, string>;
}

type Columns = readonly ReadonlyMap<string, unknown>[];

/** Value, token and restored value side by side, for each field that is replaced. */
export class FieldTable {
  readonly element: HTMLElement;
  readonly #table: HTMLElement;
  readonly #body = el('tbody');
  readonly #more = el('p', { class: 'note' });

  constructor() {
    const heads = HEADS.map((head) => el('th', { scope: 'col', 'data-head': head }, head));
    const head = el('thead', {}, el('tr', {}, ...heads));
    this.#table = el('table', { class: 'rows' }, head, this.#body);
    this.element = el(
      'section',
      { class: 'card fields', hidden: true },
      el('h2', {}, 'Field by field'),
      this.#table,
      this.#more,
    );
  }

  show(fields: Fields): void {
    const { values, tokens, restored, kinds } = fields;
    const columns = [values, tokens, restored].map(
      (data) => new Map(leavesOf(data ?? {}).map(({ path, value }) => [path, value])),
    );
    const all = [...columns[1]!.keys()];
    const paths = kinds === undefined ? all : all.filter((path) => kinds.has(path));
    this.element.hidden = paths.length === 0;
    this.#table.classList.toggle('no-policy', kinds === undefined);
    setChildren(this.#body, ...paths.slice(0, MAX_ROWS).map((path) => row(path, columns, fields)));
    const hidden = paths.length - MAX_ROWS;
    const rest = hidden > 0 && `${plural(hidden, 'further field')} not shown here. `;
    const passed = kinds === undefined ? [] : all.filter((path) => !kinds.has(path));
    setChildren(this.#more, rest, ...passedNotes(passed, columns[1]!));
  }
}

function passedNotes(paths: readonly string[], values: ReadonlyMap<string, unknown>) {
  if (paths.length === 0) return [];
  const named = paths.slice(0, MAX_PASSED).flatMap((path) => {
    const value = values.get(path);
    const isClear = typeof value === 'string' && value !== '';
    const what = value === null ? 'null' : value === '' ? 'blank' : typeof value;
    return [code(path), ' ', isClear ? badge('warning', 'in clear') : `(${what})`, ' '];
  });
  const others = paths.length - MAX_PASSED;
  return ['Passed unchanged: ', ...named, others > 0 && `and ${plural(others, 'other value')}`];
}

function row(path: string, columns: Columns, fields: Fields): HTMLElement {
  const [value, token, restored] = columns.map((column) =>
    code(column.has(path) ? textOf(column.get(path)) : '–'),
  );
  const kind = fields.kinds?.get(path);
  const mark = columns[2]!.has(path) ? markOf(path, columns, fields) : undefined;
  const cells = [
    [kind !== undefined && code(kind)],
    [value],
    [token],
    [!mark?.isLeft && restored, mark?.element],
  ];
  const [field, ...heads] = HEADS;
  return el(
    'tr',
    {},
    el('th', { scope: 'row', 'data-head': field }, code(path)),
    ...heads.map((head, i) => {
      const isEqual = head === 'Restored' && mark?.isEqual;
      const content = el('span', {}, ...cells[i]!);
      return el('td', { 'data-head': head, class: isEqual ? 'equal' : '' }, content);
    }),
  );
}

interface Mark {
  readonly element: HTMLElement;
  readonly isEqual?: boolean;
  /** The token is still there. */
  readonly isLeft?: boolean;
}

function markOf(path: string, columns: Columns, fields: Fields): Mark | undefined {
  const reason = fields.unapplied?.get(path);
  if (reason !== undefined)
    return { element: el('span', { class: 'right' }, `left: ${reason}`), isLeft: true };
  const right = fields.rights?.get(fields.kinds?.get(path) ?? '');
  if (right === 'masked') return { element: rightMark(right) };
  if (columns[2]!.get(path) !== columns[0]!.get(path)) return undefined;
  const words = el('span', { class: 'unseen' }, ' equal to the value');
  return { element: el('span', {}, levelIcon('good'), words), isEqual: true };
}

function code(text: string): HTMLElement {
  return el('code', {}, text);
}

function textOf(value: unknown): string {
  return typeof value === 'string' ? value : JSON.stringify(value);
}
