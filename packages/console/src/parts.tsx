import type { AllHTMLAttributes, ComponentChildren, FunctionComponent } from 'preact';
import { useEffect, useId, useRef, useState } from 'preact/hooks';
import type { Level } from './health.ts';
import type { Right } from './protocol.ts';

export type Children = ComponentChildren;

/** Each level has its own shape, because some readers cannot tell the colors apart. */
const SHAPES: Record<Level | 'live', string> = {
  live: 'M8 4.5a3.5 3.5 0 1 1 0 7 3.5 3.5 0 0 1 0-7',
  good: 'M8 1a7 7 0 1 1 0 14A7 7 0 0 1 8 1m3 4.3-4 4.2-2-1.9-1 1.1 3.1 2.8 5-5.2z',
  neutral: 'M8 1a7 7 0 1 1 0 14A7 7 0 0 1 8 1M4.5 7.2v1.6h7V7.2z',
  warning: 'M8 1.2 15.4 14.5H.6zM7.2 6v4h1.6V6zm0 5.2v1.6h1.6v-1.6z',
  bad: 'M5 1h6l4 4v6l-4 4H5l-4-4V5zm1 3.9L4.9 6l2 2-2 2L6 11.1l2-2 2 2 1.1-1.1-2-2 2-2L10 4.9l-2 2z',
};

/** Decorative: its meaning must stand beside it as text. */
export function Icon({ level }: { level: Level | 'live' }) {
  return (
    <svg viewBox="0 0 16 16" class="icon" aria-hidden="true">
      <path d={SHAPES[level]} />
    </svg>
  );
}

interface BadgeProps {
  level: Level;
  icon?: Level | 'live';
  children: Children;
}

export function Badge({ level, icon = level, children }: BadgeProps) {
  return (
    <span class={`badge ${level}`}>
      <Icon level={icon} />
      <span>{children}</span>
    </span>
  );
}

export function RightMark({ right }: { right: Right }) {
  return <span class={`right ${right}`}>{right}</span>;
}

/** The head of a view. */
export function Bar({ title, children }: { title: string; children?: Children }) {
  return (
    <div class="bar">
      <h1>{title}</h1>
      {children}
    </div>
  );
}

/** A row of numbers, each with a note. Parts of a note are apart by ` · `. */
export function Tiles({ tiles }: { tiles: readonly (readonly [string, string?, string?])[] }) {
  return (
    <dl class="tiles">
      {tiles.map(([label, value, note = '']) => (
        <div class="card tile" key={label}>
          <dt>{label}</dt>
          <dd class={value === undefined ? 'number skeleton' : 'number'}>{value}</dd>
          <dd>
            {note.split(' · ').map((part) => (
              <span key={part}>{part}</span>
            ))}
          </dd>
        </div>
      ))}
    </dl>
  );
}

export type Fact = readonly [name: string, value: Children, level?: Level];

export function Facts({ facts }: { facts: readonly Fact[] }) {
  return (
    <dl class="checks">
      {facts.map(([name, value, level]) => (
        <div key={name}>
          <dt>{name}</dt>
          <dd class={level}>
            {level && <Icon level={level} />}
            {value}
          </dd>
        </div>
      ))}
    </dl>
  );
}

export interface Column<T> {
  /** '': the column needs no head. */
  readonly head: string;
  readonly cell: (row: T) => Children;
  /** Shown instead of the words of the head. */
  readonly title?: Children;
  readonly order?: 'ascending' | 'descending' | undefined;
}

interface TableProps<T> {
  /** `rows`: its rows become cards in a narrow window. */
  kind?: string;
  /** The first names the row. */
  columns: readonly (Column<T> | false)[];
  rows: readonly T[];
  keyOf: (row: T) => string | number;
}

export function Table<T>({ kind = 'rows', columns, rows, keyOf }: TableProps<T>) {
  const shown = columns.filter((one) => one !== false);
  const headOf = ({ head, title, order }: Column<T>) =>
    head === '' ? (
      <td key={head} />
    ) : (
      <th scope="col" key={head} aria-sort={order}>
        {title ?? head}
      </th>
    );
  const cellOf = (row: T, { head, cell }: Column<T>, i: number) => {
    const Cell = i === 0 ? 'th' : 'td';
    return (
      <Cell key={head} scope={i === 0 ? 'row' : undefined} data-head={head}>
        <div>{cell(row)}</div>
      </Cell>
    );
  };
  return (
    <table class={kind}>
      <thead>
        <tr>{shown.map(headOf)}</tr>
      </thead>
      <tbody>
        {rows.map((row) => (
          <tr key={keyOf(row)}>{shown.map((column, i) => cellOf(row, column, i))}</tr>
        ))}
      </tbody>
    </table>
  );
}

interface ShareProps {
  /** Missing if a heading already names the share. */
  label?: string;
  /** 0 to 1, and more fills the bar; null: not known, or nothing to share. */
  share: number | null;
  text: string;
}

/** A bar that shows a share, with a text. The bar alone adds no information. */
export function Share({ label, share, text }: ShareProps) {
  const width = `${Math.min(1, Math.max(0, share ?? 0)) * 100}%`;
  return (
    <div class="share">
      {label && <span>{label}</span>}
      <span class="share-text">{text}</span>
      <span class="track" aria-hidden="true" hidden={share === null}>
        <i style={{ width }} />
      </span>
    </div>
  );
}

interface ChoicesProps {
  /** For screen readers, and different from those of the other choices. */
  legend: string;
  names: readonly string[];
  chosen: number;
  choose: (chosen: number) => void;
}

/** One of a few, side by side. */
export function Choices({ legend, names, chosen, choose }: ChoicesProps) {
  return (
    <fieldset class="choices">
      <legend class="unseen">{legend}</legend>
      {names.map((name, i) => (
        <label key={name}>
          <input type="radio" name={legend} checked={i === chosen} onChange={() => choose(i)} />
          <span>{name}</span>
        </label>
      ))}
    </fieldset>
  );
}

interface FilterProps {
  name: string;
  hint: string;
  text: string;
  change: (text: string) => void;
}

export function Filter({ name, hint, text, change }: FilterProps) {
  return (
    <label class="filter">
      {name}
      <input
        type="search"
        placeholder={hint}
        autocomplete="off"
        spellcheck={false}
        value={text}
        onInput={({ currentTarget }) => change(currentTarget.value)}
      />
    </label>
  );
}

const COPIED_FOR_MS = 1_500;

interface CopyProps {
  /** In the accessible name: "Copy the command". */
  what: string;
  text: string;
  name?: string;
}

/** A button that copies a text and confirms it. */
export function Copy({ what, text, name = 'Copy' }: CopyProps) {
  const [word, setWord] = useState('');
  const copy = async () => {
    setWord((await copied(text)) ? 'Copied' : 'Not allowed');
    setTimeout(() => setWord(''), COPIED_FOR_MS);
  };
  return (
    <button type="button" class="quiet copy" onClick={() => void copy()}>
      <span aria-live="polite">{word || name}</span>
      <span class="unseen"> {what}</span>
    </button>
  );
}

/** Over HTTP from another machine a page has no clipboard API, but can copy a selection. */
async function copied(text: string): Promise<boolean> {
  if (navigator.clipboard !== undefined) {
    const writing = navigator.clipboard.writeText(text);
    return writing.then(
      () => true,
      () => false,
    );
  }
  const before = document.activeElement;
  const field = document.createElement('textarea');
  field.value = text;
  // A dialog lets nothing outside be selected.
  (before?.closest('dialog') ?? document.body).append(field);
  field.select();
  const isDone = document.execCommand('copy');
  field.remove();
  if (before instanceof HTMLElement) before.focus();
  return isDone;
}

/** An id to copy. */
export function Id({ id, what }: { id: string; what: string }) {
  return (
    <span class="inline id">
      <code>{id}</code>
      <Copy what={what} text={id} />
    </span>
  );
}

/** A text that may be longer than its box, which a keyboard can scroll. */
export function Code({ label, text }: { label: string; text: string }) {
  return (
    // biome-ignore lint/a11y/noNoninteractiveTabindex: it scrolls
    <section class="code" tabIndex={0} aria-label={label}>
      <code>{text}</code>
    </section>
  );
}

/** A text to copy, such as a command. */
export function Command({ label, what, text }: { label: string; what: string; text: string }) {
  return (
    <div class="command">
      <Code label={label} text={text} />
      <Copy what={what} text={text} />
    </div>
  );
}

interface FieldProps extends Omit<AllHTMLAttributes<HTMLInputElement>, 'label' | 'as'> {
  label: string;
  /** Default: an input. */
  as?: 'input' | 'textarea' | 'select';
  note?: string;
  /** '': there is none. */
  error?: string;
}

/** A label with its control, and a note or an error below. Values must go to no spell checker. */
export function Field({ label, as = 'input', note, error, ...rest }: FieldProps) {
  const made = useId();
  const id = String(rest.id ?? made);
  const Control = as as unknown as FunctionComponent<AllHTMLAttributes<HTMLInputElement>>;
  const below = [error !== undefined && `${id}-error`, note && `${id}-note`].filter(Boolean);
  return (
    <div class="field">
      <label for={id}>{label}</label>
      <Control
        spellcheck={false}
        autocomplete="off"
        aria-describedby={below.join(' ') || undefined}
        aria-invalid={error === undefined ? undefined : error !== ''}
        {...rest}
        id={id}
      />
      {error !== undefined && (
        <p class="error" id={`${id}-error`} role="alert">
          {error}
        </p>
      )}
      {note && (
        <p class="note" id={`${id}-note`}>
          {note}
        </p>
      )}
    </div>
  );
}

interface DialogProps {
  title: string;
  close: () => void;
  children: Children;
}

/** Open as long as it is rendered. */
export function Dialog({ title, close, children }: DialogProps) {
  const ref = useRef<HTMLDialogElement>(null);
  const id = useId();
  useEffect(() => ref.current!.showModal(), []);
  return (
    <dialog ref={ref} class="card" aria-labelledby={id} onClose={close}>
      <h2 id={id}>{title}</h2>
      {children}
    </dialog>
  );
}
