import { useState } from 'preact/hooks';
import { useAnswer } from './answer.ts';
import { feed } from './feed.ts';
import { clientAddress, clock, date, ms, plural, whole } from './format.ts';
import type { Level } from './health.ts';
import { hasWords } from './lists.ts';
import { Badge, Bar, Check, Choices, Filter, Id, Table } from './parts.tsx';
import { PATHS, type RecentRequest, type RecentRequestsShown } from './protocol.ts';

/** The last requests that this node answered. */
export function Requests() {
  const [chosen, choose] = useState(0);
  const [filter, setFilter] = useState('');
  const [isPaused, setPaused] = useState(false);
  const { answer } = useAnswer<RecentRequestsShown>(isPaused ? null : PATHS.requests);
  const { all, refused } = answer ?? { all: [], refused: [] };
  const names = new Map(feed.state?.clients?.shown.map((one) => [one.client_id, one.name]));
  const nameOf = (id: string | null) => names.get(id ?? '') ?? id;
  const shown = [all, refused][chosen]!.filter(
    ({ client_id: id, request_id: requestId, route, status, why }) =>
      hasWords(filter, nameOf(id), id, requestId, route, status, why),
  );
  const kinds = ['All', 'Refused and failed'];
  return (
    <>
      <Bar title="Requests" note={countOf(shown.length, all.length)} />
      <div class="bar">
        <Choices legend="Requests shown" names={kinds} chosen={chosen} choose={choose} />
        <Filter name="Find" hint="Client, status, reason or id" text={filter} change={setFilter} />
        <Check name="Pause" isChecked={isPaused} check={setPaused} />
      </div>
      <section class="card requests" aria-label="Requests" hidden={shown.length === 0}>
        <RequestTable requests={shown} nameOf={nameOf} />
      </section>
    </>
  );
}

type Named = { requests: readonly RecentRequest[]; nameOf: (id: string | null) => string | null };

function RequestTable({ requests, nameOf }: Named) {
  const clientOf = ({ client_id: id }: RecentRequest) =>
    id === null ? 'no valid API key' : <a href={clientAddress(id)}>{nameOf(id)}</a>;
  return (
    <Table
      rows={requests}
      keyOf={({ request_id: id }) => id}
      columns={[
        ['Time', ({ atMs }) => <span title={date(atMs)}>{clock(atMs)}</span>],
        ['Client', clientOf],
        ['Request', ({ method, route }) => <code>{`${method} ${route}`}</code>],
        ['Result', (one) => <Result {...one} />],
        ['Values', (one) => <Values {...one} />],
        ['Took', ({ duration_ms: tookMs }) => ms(tookMs)],
        ['Request id', ({ request_id: id }) => <Id id={id} of={`the request id ${id}`} />],
      ]}
    />
  );
}

function Result({ status, why }: RecentRequest) {
  const isRefused = status < 500 || status === 503;
  const level: Level = status < 400 ? 'good' : isRefused ? 'warning' : 'bad';
  return (
    <span class="inline">
      <Badge level={level}>{status}</Badge>
      {why}
    </span>
  );
}

function Values({ values, passed }: RecentRequest) {
  return (
    <span class="inline">
      {whole(values)}
      {/* A request whose strings all passed is probably a mistake. */}
      {(passed ?? 0) > 0 && (
        <Badge level={values === 0 ? 'warning' : 'neutral'}>{whole(passed!)} in clear</Badge>
      )}
    </span>
  );
}

function countOf(shown: number, known: number): string {
  if (known === 0) return 'This node has answered no request yet.';
  if (shown === 0) return 'No such request among the last ones.';
  return `The last ${plural(shown, 'request')} of this node, newest first`;
}
