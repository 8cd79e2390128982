import { plural } from './format.ts';
import { Badge, Icon, RightMark, Table, Unseen } from './parts.tsx';
import { leavesOf } from './playground-data.ts';
import type { Right } from './protocol.ts';

/** More rows would make the page slow; the texts above have all fields. */
const MAX_ROWS = 200;
const MAX_PASSED = 20;

export type Kinds = ReadonlyMap<string, string>;

/** What is known of the fields, as parsed JSON; undefined: not asked. */
export interface Fields {
  readonly values?: unknown;
  readonly tokens: unknown;
  readonly restored?: unknown;
  /** By path; undefined: every field is replaced, as without a policy. */
  readonly kinds: Kinds | undefined;
  /** What the API key sees, by kind. */
  readonly rights?: ReadonlyMap<string, Right>;
  /** By path, why a token was left as it was sent. */
  readonly unapplied?: ReadonlyMap<string, string>;
}

type Values = ReadonlyMap<string, unknown>;

const byPath = (data: unknown) =>
  new Map(leavesOf(data ?? {}).map(({ path, value }) => [path, value]));

/** Value, token and restored value side by side, for each field that is replaced. */
export function FieldTable({ fields }: { fields: Fields }) {
  const { kinds } = fields;
  const [values, tokens, restored] = [fields.values, fields.tokens, fields.restored].map(byPath);
  const all = [...tokens!.keys()];
  const paths = kinds === undefined ? all : all.filter((path) => kinds.has(path));
  const passed = kinds === undefined ? [] : all.filter((path) => !kinds.has(path));
  const hidden = paths.length - MAX_ROWS;
  if (paths.length === 0) return null;
  const code = (of: Values) => (path: string) => (
    <code>{of.has(path) ? textOf(of.get(path)) : '–'}</code>
  );
  const restoredOf = (path: string) => {
    if (!restored!.has(path)) return code(restored!)(path);
    const reason = fields.unapplied?.get(path);
    if (reason !== undefined) return <span class="right">left: {reason}</span>;
    const right = fields.rights?.get(kinds?.get(path) ?? '');
    const isEqual = right !== 'masked' && restored!.get(path) === values!.get(path);
    return (
      <span class={isEqual ? 'inline equal' : 'inline'}>
        {code(restored!)(path)}
        {right === 'masked' && <RightMark right={right} />}
        {isEqual && <Icon level="good" />}
        {isEqual && <Unseen> equal to the value</Unseen>}
      </span>
    );
  };
  return (
    <section class="card fields">
      <h2>Field by field</h2>
      <Table
        rows={paths.slice(0, MAX_ROWS)}
        keyOf={(path) => path}
        columns={[
          ['Field', (path) => <code>{path}</code>],
          kinds !== undefined && ['Kind', (path) => <code>{kinds.get(path)}</code>],
          ['Value', code(values!)],
          ['Token', code(tokens!)],
          ['Restored', restoredOf],
        ]}
      />
      <p class="note">
        {hidden > 0 && `${plural(hidden, 'further field')} not shown here. `}
        {passed.length > 0 && <Passed paths={passed} values={tokens!} />}
      </p>
    </section>
  );
}

function Passed({ paths, values }: { paths: readonly string[]; values: Values }) {
  const others = paths.length - MAX_PASSED;
  const what = (value: unknown) => {
    if (typeof value === 'string' && value !== '') return <Badge level="warning">in clear</Badge>;
    return `(${value === null ? 'null' : value === '' ? 'blank' : typeof value})`;
  };
  return (
    <>
      Passed unchanged:{' '}
      {paths.slice(0, MAX_PASSED).map((path) => (
        <span key={path}>
          <code>{path}</code> {what(values.get(path))}{' '}
        </span>
      ))}
      {others > 0 && `and ${plural(others, 'other value')}`}
    </>
  );
}

function textOf(value: unknown): string {
  return typeof value === 'string' ? value : JSON.stringify(value);
}
