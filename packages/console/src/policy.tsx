import { ApplyPolicy } from './acts.tsx';
import { usePolicy } from './answer.ts';
import { feed } from './feed.ts';
import { Code, Table } from './parts.tsx';
import type { FieldState, KindState, PolicyDetail } from './protocol.ts';

/** Paths of one kind; more would hide the other kinds. */
const MAX_PATHS = 20;

/** The policy of the node, with its kinds and fields. */
export function PolicyCard() {
  const policy = usePolicy();
  const problem = feed.state?.policy.problem ?? null;
  const isNone = feed.state?.policy.version === 0 && problem === null;
  return (
    <section class="card policy">
      <div class="bar">
        <h2>
          Policy
          {policy && <small>version {policy.version}</small>}
        </h2>
        <ApplyPolicy />
      </div>
      <p class="error" role="alert">
        {problem && `Requests fail. ${problem}`}
      </p>
      {isNone && (
        <p class="note">
          None: every string is tokenized as text. To apply one: standin policy apply FILE
        </p>
      )}
      {policy && <Kinds {...policy} />}
      {policy?.document && (
        <details>
          <summary>The document, with the rights of clients</summary>
          <Code label="Document of the policy" text={policy.document} />
        </details>
      )}
    </section>
  );
}

function Kinds({ kinds, fields, elsewhereWords }: PolicyDetail) {
  const others =
    fields === null
      ? 'It names no fields: every string is a text.'
      : `Strings at all other paths: they ${elsewhereWords}.`;
  const code = (textOf: (kind: KindState) => string) => (kind: KindState) => (
    <code>{textOf(kind)}</code>
  );
  return (
    <>
      <p class="note">{others} To count the records of each kind and space: standin verify</p>
      <Table
        rows={kinds}
        keyOf={({ name }) => name}
        columns={[
          ['Kind', code(({ name }) => name)],
          ['Options', ({ words }) => words],
          ['Fields', ({ name }) => <Paths fields={fields ?? []} kind={name} />],
          ['Example', code(({ example }) => example.value)],
          ['Token', code(({ example: one }) => ('token' in one ? one.token : one.refusal))],
          ['Masked', code(({ example: one }) => ('mask' in one ? one.mask : '–'))],
        ]}
      />
    </>
  );
}

function Paths({ fields, kind }: { fields: readonly FieldState[]; kind: string }) {
  const paths = fields.filter((field) => field.kind === kind).map(({ path }) => path);
  if (paths.length === 0) return <>–</>;
  const others = paths.length - MAX_PATHS;
  return (
    <span class="inline">
      {paths.slice(0, MAX_PATHS).map((path) => (
        <code key={path}>{path}</code>
      ))}
      {others > 0 && `and ${others} more`}
    </span>
  );
}
