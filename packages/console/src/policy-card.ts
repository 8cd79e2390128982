import { el, setChildren, setText } from './dom.ts';
import type { Feed } from './feed.ts';
import { PolicySource } from './policy-source.ts';
import type { FieldState, KindState, PolicyDetail } from './protocol.ts';

const HEADS = ['Kind', 'Options', 'Fields', 'Example', 'Token', 'Masked'] as const;
/** Paths of one kind; more would hide the other kinds. */
const MAX_PATHS = 20;

/** The policy of the node, with its kinds and fields. */
export class PolicyCard {
  readonly element: HTMLElement;
  readonly #version = el('small');
  readonly #note = el('p', { class: 'note' });
  readonly #problem = el('p', { class: 'error', role: 'alert' });
  readonly #kinds = el('tbody');
  readonly #document = el('code');
  readonly #whole: HTMLElement;
  readonly #table: HTMLElement;
  readonly #source = new PolicySource((detail) => this.#take(detail));

  constructor() {
    const heads = HEADS.map((head) => el('th', { scope: 'col' }, head));
    this.#table = el(
      'table',
      { class: 'rows', hidden: true },
      el('thead', {}, el('tr', {}, ...heads)),
      this.#kinds,
    );
    this.#whole = el(
      'details',
      { hidden: true },
      el('summary', {}, 'The document, with the rights of clients'),
      el('pre', { tabindex: 0, 'aria-label': 'Document of the policy' }, this.#document),
    );
    this.element = el(
      'section',
      { class: 'card policy' },
      el('h2', {}, 'Policy', this.#version),
      this.#problem,
      this.#note,
      this.#table,
      this.#whole,
    );
  }

  update(feed: Feed): void {
    const { version, problem } = feed.state!.policy;
    setText(this.#problem, problem === null ? '' : `Requests fail. ${problem}`);
    this.#source.update(feed);
    if (version === 0)
      setText(
        this.#note,
        problem === null
          ? 'None: every string is tokenized as text. To apply one: standin policy apply FILE'
          : '',
      );
  }

  #take({ version, kinds, fields, elsewhereWords, document }: PolicyDetail): void {
    setText(this.#version, `version ${version}`);
    const others =
      fields === null
        ? 'It names no fields: every string is a text.'
        : `Strings at all other paths: they ${elsewhereWords}.`;
    setText(this.#note, `${others} To count the records of each kind and space: standin verify`);
    setChildren(this.#kinds, ...kinds.map((kind) => kindRow(kind, fields ?? [])));
    this.#table.hidden = false;
    setText(this.#document, document ?? '');
    this.#whole.hidden = document === null;
  }
}

function kindRow({ name, words, example }: KindState, fields: readonly FieldState[]): HTMLElement {
  const made = 'token' in example ? [example.token, example.mask] : [example.refusal, '–'];
  const paths = fields.filter(({ kind }) => kind === name).map(({ path }) => path);
  const cells = [words, pathsOf(paths), ...[example.value, ...made].map(code)];
  return el(
    'tr',
    {},
    el('th', { scope: 'row', 'data-head': HEADS[0] }, code(name)),
    ...cells.map((content, i) => el('td', { 'data-head': HEADS[i + 1]! }, content)),
  );
}

function pathsOf(paths: readonly string[]): Node | string {
  if (paths.length === 0) return '–';
  const named = paths.slice(0, MAX_PATHS).map((path) => el('code', {}, path));
  const others = paths.length - named.length;
  return el('span', { class: 'paths' }, ...named, others > 0 && `and ${others} more`);
}

function code(text: string): HTMLElement {
  return el('code', {}, text);
}
