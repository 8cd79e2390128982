import { plural } from './format.ts';
import { Badge, RightMark, Table } from './parts.tsx';
import { leavesOf } from './playground-data.ts';
import type { Right } from './protocol.ts';

/** More rows would make the page slow; the texts above have all fields. */
const MAX_ROWS = 200;
const MAX_PASSED = 20;

/** What is known of the fields, as parsed JSON; undefined: not asked. */
export interface Fields {
  readonly values?: unknown;
  readonly tokens: unknown;
  readonly restored?: unknown;
  /** By path; undefined: every field is replaced, as without a policy. */
  readonly kinds: ReadonlyMap<string, string> | undefined;
  /** What the API key sees, by kind. */
  readonly rights?: ReadonlyMap<string, Right>;
  /** By path, why a token was left as it was sent. */
  readonly unapplied?: ReadonlyMap<string, string>;
}

type Values = ReadonlyMap<string, unknown>;

const byPath = (data: unknown): Values =>
  new Map(leavesOf(data ?? {}).map(({ path, value }) => [path, value]));

/** Value, token and restored value side by side, for each field that is replaced. */
export function FieldTable({ fields }: { fields: Fields }) {
  const { kinds, rights, unapplied } = fields;
  const [values, tokens, restored] = [fields.values, fields.tokens, fields.restored].map(byPath);
  const all = [...tokens!.keys()];
  const paths = kinds ? all.filter((path) => kinds.has(path)) : all;
  const passed = kinds ? all.filter((path) => !kinds.has(path)) : [];
  const hidden = paths.length - MAX_ROWS;
  const code = (of: Values) => (path: string) => (
    <code>{of.has(path) ? String(of.get(path)) : '–'}</code>
  );
  const restoredOf = (path: string) => {
    const reason = unapplied?.get(path);
    if (reason !== undefined) return <span class="right">left: {reason}</span>;
    const isMasked = rights?.get(kinds?.get(path) ?? '') === 'masked' && restored!.has(path);
    return (
      <span class="inline">
        {code(restored!)(path)}
        {isMasked && <RightMark right="masked" />}
      </span>
    );
  };
  return (
    <section class="card fields" hidden={paths.length === 0}>
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
