import { useState } from 'preact/hooks';
import { Badge, type Children, Field, Quiet, Unseen } from './parts.tsx';
import { call, type Failure } from './playground-call.ts';

const EXAMPLE =
  'Hi, I am at ann@example.com or +44 20 7946 0958. Why was 4111 1111 1111 1111 charged twice?';

/** Offsets in code points. */
type Stretch = Readonly<Record<'start' | 'end', number>>;
type Found = Stretch & { readonly kind: string; readonly original: Stretch };

interface TextState {
  readonly text: string;
  readonly isAsking?: boolean;
  readonly error?: string;
  readonly read?: { readonly text: string; readonly spans: readonly Found[] };
}

/** Finds values in a text, and shows what a language model would read. Keeps nothing. */
export function TextDesk({ apiKey }: { apiKey: string }) {
  const [{ text, isAsking = false, error = '', read }, setState] = useState<TextState>({
    text: '',
  });
  const find = async () => {
    if (isAsking) return;
    if (text === '') return setState({ text, error: 'Type or paste a text, or take the example.' });
    setState({ text, isAsking: true });
    const sent = call<NonNullable<typeof read>>('text/tokenize', apiKey, JSON.stringify({ text }));
    const asked = await sent.then(
      ({ body }) => ({ text, read: body.data }),
      ({ message }: Failure) => ({ text, error: message }),
    );
    // Not an answer for an earlier text.
    setState((now) => (now.text === text ? asked : { text: now.text }));
  };
  return (
    <section class="card text" aria-label="Text for a language model">
      <h2>
        Text for a language model<small>the service finds the values by itself</small>
      </h2>
      <Field
        {...{ id: 'text', label: 'Text', as: 'textarea', rows: 5, error, value: text }}
        note="Find stores the values in the vault, as each tokenize does."
        onInput={({ currentTarget }) => setState({ text: currentTarget.value })}
      />
      <div class="actions">
        <button type="button" class="primary" aria-disabled={isAsking} onClick={() => void find()}>
          Find
        </button>
        <Quiet name="Example" of="of a text" click={() => setState({ text: EXAMPLE })} />
        <span role="status">{read && <Counts found={read.spans} />}</span>
      </div>
      {read && (
        <div class="halves">
          <Marked
            title="What was found"
            text={text}
            found={read.spans}
            at={(one) => one.original}
          />
          <Marked title="What the model reads" {...read} found={read.spans} at={(one) => one} />
        </div>
      )}
    </section>
  );
}

/** `2 email, 1 card` */
function Counts({ found }: { found: readonly Found[] }) {
  if (found.length === 0)
    return <Badge level="warning">Nothing was found: the model reads the text in clear</Badge>;
  const counts = new Map<string, number>();
  for (const { kind } of found) counts.set(kind, (counts.get(kind) ?? 0) + 1);
  const words = [...counts].map(([kind, count]) => `${count} ${kind}`).join(', ');
  return <Badge level="good">{`Found ${words}`}</Badge>;
}

interface MarkedProps {
  title: string;
  text: string;
  found: readonly Found[];
  at: (one: Found) => Stretch;
}

/** A text in which what was found is marked with its kind. */
function Marked({ title, text, found, at }: MarkedProps) {
  const points = [...text];
  const parts: Children[] = [];
  let from = 0;
  for (const one of found) {
    const { start, end } = at(one);
    parts.push(points.slice(from, start).join(''));
    parts.push(
      <mark key={start}>
        {points.slice(start, end).join('')}
        <Unseen> is </Unseen>
        <small>{one.kind}</small>
      </mark>,
    );
    from = end;
  }
  return (
    <section aria-label={title}>
      <h3>{title}</h3>
      <p class="marked">
        {parts}
        {points.slice(from).join('')}
      </p>
    </section>
  );
}
