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

export function Badge({ level, children }: { level: Level | 'live'; children: Children }) {
  return (
    <span class={`badge ${level}`}>
      <Icon level={level} />
      <span>{children}</span>
    </span>
  );
}

export function RightMark({ right }: { right: Right }) {
  return <span class={`right ${right}`}>{right}</span>;
}

/** Not for the eye. */
export function Unseen({ children }: { children: Children }) {
  return <span class="unseen">{children}</span>;
}

type BarProps = { title: string; note?: string | undefined; children?: Children };

/** The head of a view. */
export function Bar({ title, note, children }: BarProps) {
  return (
    <div class="bar">
      <h1>{title}</h1>
      <p class="note" role="status">
        {note}
      </p>
      {children}
    </div>
  );
}

/** Nothing came yet: there is no value. */
export type Tile = readonly [label: string, value?: string, note?: string];

/** A row of numbers, each with a note. */
export function Tiles({ tiles }: { tiles: readonly Tile[] }) {
  return (
    <dl class="tiles">
      {tiles.map(([label, value, note]) => (
        <div class="card tile" key={label}>
          <dt>{label}</dt>
          <dd class={value === undefined ? 'number skeleton' : 'number'}>{value}</dd>
          <dd>{note}</dd>
        </div>
      ))}
    </dl>
  );
}

export type Fact = readonly [name: string, value: Children, level?: Level];

export function Facts({ facts }: { facts: readonly (Fact | false)[] }) {
  return (
    <dl class="checks">
      {facts
        .filter((fact) => fact !== false)
        .map(([name, value, level]) => (
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

/** A head of '': the column needs none. */
export type Column<T> = readonly [head: string, cell: (row: T) => Children];

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
  return (
    <table class={kind}>
      <thead>
        <tr>
          {shown.map(([head]) => {
            const Head = head === '' ? 'td' : 'th';
            return (
              <Head key={head} scope={head === '' ? undefined : 'col'}>
                {head}
              </Head>
            );
          })}
        </tr>
      </thead>
      <tbody>
        {rows.map((row) => (
          <tr key={keyOf(row)}>
            {shown.map(([head, cell], i) => {
              const Cell = i === 0 ? 'th' : 'td';
              return (
                <Cell key={head} scope={i === 0 ? 'row' : undefined} data-head={head}>
                  <div>{cell(row)}</div>
                </Cell>
              );
            })}
          </tr>
        ))}
      </tbody>
    </table>
  );
}

/**
 * A bar that shows a share, with a text. The bar alone adds no information.
 * @param share 0 to 1, and more fills the bar; null: not known, or nothing to share
 */
export function Share({ share, text }: { share: number | null; text: string }) {
  return (
    <div class="share">
      {text}
      <progress aria-hidden="true" hidden={share === null} value={Math.min(1, share ?? 0)} />
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
    <fieldset class="inline">
      <legend class="unseen">{legend}</legend>
      {names.map((name, i) => (
        <label class="check" key={name}>
          <input type="radio" name={legend} checked={i === chosen} onChange={() => choose(i)} />
          {name}
        </label>
      ))}
    </fieldset>
  );
}

export function Check(props: { name: string; isChecked: boolean; check: (is: boolean) => void }) {
  const { name, isChecked, check } = props;
  return (
    <label class="check">
      <input type="checkbox" checked={isChecked} onChange={() => check(!isChecked)} />
      {name}
    </label>
  );
}

type FilterProps = Record<'name' | 'hint' | 'text', string> & { change: (text: string) => void };

export function Filter({ name, hint, text, change }: FilterProps) {
  return (
    <label class="filter">
      {name}
      <input
        {...{ type: 'search', placeholder: hint, size: 26, autocomplete: 'off', spellcheck: false }}
        value={text}
        onInput={({ currentTarget }) => change(currentTarget.value)}
      />
    </label>
  );
}

type QuietProps = { name: string; of?: string; click: () => unknown; class?: string };

/** In the accessible name, `of` follows the name. */
export function Quiet({ name, of, click, ...rest }: QuietProps) {
  return (
    <button type="button" {...rest} onClick={() => void click()}>
      <span aria-live="polite">{name}</span>
      {of && <Unseen> {of}</Unseen>}
    </button>
  );
}

const COPIED_FOR_MS = 1_500;

/** A button that copies a text and confirms it. */
export function Copy({ of, text, name = 'Copy' }: { of: string; text: string; name?: string }) {
  const [word, setWord] = useState('');
  const copy = async () => {
    setWord((await copied(text)) ? 'Copied' : 'Not allowed');
    setTimeout(() => setWord(''), COPIED_FOR_MS);
  };
  return <Quiet class="copy" name={word || name} of={of} click={copy} />;
}

/** Over HTTP from another machine a page has no clipboard API, but can copy a selection. */
async function copied(text: string): Promise<boolean> {
  const { clipboard } = navigator;
  if (clipboard !== undefined)
    return (await clipboard.writeText(text).catch(() => false)) !== false;
  const before = document.activeElement as HTMLElement | null;
  const field = Object.assign(document.createElement('textarea'), { value: text });
  // A dialog lets nothing outside be selected.
  (before?.closest('dialog') ?? document.body).append(field);
  field.select();
  const isDone = document.execCommand('copy');
  field.remove();
  before?.focus();
  return isDone;
}

/** An id to copy. */
export function Id({ id, of }: { id: string; of: string }) {
  return (
    <span class="inline id">
      <code>{id}</code>
      <Copy of={of} text={id} />
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
export function Command({ label, of, text }: { label: string; of: string; text: string }) {
  return (
    <div class="command">
      <Code label={label} text={text} />
      <Copy of={of} text={text} />
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
export function Field({ label, as = 'input', note, error = '', ...rest }: FieldProps) {
  const made = useId();
  const id = String(rest.id ?? made);
  const Control = as as unknown as FunctionComponent<AllHTMLAttributes<HTMLInputElement>>;
  return (
    <div class="field">
      <label for={id}>{label}</label>
      <Control
        {...{ spellcheck: false, autocomplete: 'off', ...rest, id }}
        aria-describedby={`${id}-error ${id}-note`}
        aria-invalid={error !== ''}
      />
      <p class="error" id={`${id}-error`} role="alert">
        {error}
      </p>
      <p class="note" id={`${id}-note`}>
        {note}
      </p>
    </div>
  );
}

/** Open as long as it is rendered. */
export function Dialog(props: { title: string; close: () => void; children: Children }) {
  const { title, close, children } = props;
  const ref = useRef<HTMLDialogElement>(null);
  const id = useId();
  useEffect(() => {
    const dialog = ref.current!;
    dialog.showModal();
    // In a hidden view, it would hold the page for nobody to see.
    const leave = () => dialog.close();
    addEventListener('hashchange', leave);
    return () => removeEventListener('hashchange', leave);
  }, []);
  return (
    <dialog ref={ref} class="card" aria-labelledby={id} onClose={close}>
      <h2 id={id}>{title}</h2>
      {children}
    </dialog>
  );
}
