import { useRef, useState } from 'preact/hooks';
import { MakeClient } from './acts.tsx';
import { arrange, clicked, isSortable, type Order } from './client-order.ts';
import { feed } from './feed.ts';
import { ago, clientAddress, date, limitShown, plural, rightsOf, si, whole } from './format.ts';
import { Badge, Bar, Filter, Id, RightMark, Share, Table } from './parts.tsx';
import type { ClientState, ClientsState, Right, SeenKinds } from './protocol.ts';

/** The clients, with their last use and their rate. */
export function Clients() {
  const [filter, setFilter] = useState('');
  const [order, setOrder] = useState<Order>({ column: 'Last use', isDescending: true });
  const { state } = feed;
  /** What was known last stays. */
  const latest = useRef<ClientsState | null>(null);
  latest.current = state?.clients ?? latest.current;
  const known = latest.current;
  const shown = arrange(known?.shown ?? [], filter, order);
  const isUnknown = state !== null && state.clients === null;
  return (
    <>
      <Bar title="Clients">
        <p class="note" role="status">
          {isUnknown
            ? 'Not known at the moment: the database does not answer.'
            : known && countOf(shown.length, known)}
        </p>
        <MakeClient />
        <Filter name="Filter" hint="Name, client_id or space" text={filter} change={setFilter} />
      </Bar>
      <section class={isUnknown ? 'card stale' : 'card'} aria-label="Clients">
        <ClientTable all={known?.shown ?? []} shown={shown} order={order} setOrder={setOrder} />
      </section>
    </>
  );
}

interface ClientTableProps {
  all: readonly ClientState[];
  shown: readonly ClientState[];
  order: Order;
  setOrder: (order: Order) => void;
}

function ClientTable({ all, shown, order, setOrder }: ClientTableProps) {
  const hasPolicy = feed.state?.policy.version !== 0;
  const hasSpaces = all.some(({ space }) => space !== '');
  const columns = [
    { head: 'Client', cell: (one: ClientState) => <ClientName {...one} /> },
    hasSpaces && { head: 'Space', cell: ({ space }: ClientState) => space || '–' },
    { head: 'Allowed to', cell: rightsOf },
    hasPolicy && {
      head: 'Sees',
      cell: ({ sees }: ClientState) => (sees ? <Seen sees={sees} /> : '–'),
    },
    hasPolicy && {
      head: 'In clear',
      cell: ({ strings }: ClientState) => (strings === null ? '–' : whole(strings.passed)),
    },
    { head: 'Tokens', cell: ({ token_mode: mode }: ClientState) => mode },
    { head: 'API keys', cell: ({ liveApiKeys }: ClientState) => liveApiKeys },
    { head: 'Last use', cell: (one: ClientState) => <LastUse {...one} /> },
    { head: 'Requests per second', cell: (one: ClientState) => <Rate {...one} /> },
  ];
  const sortable = columns.map((column) => {
    if (column === false) return false;
    const { head } = column;
    if (!isSortable(head)) return column;
    const title = (
      <button type="button" class="sort" onClick={() => setOrder(clicked(head, order))}>
        {head}
      </button>
    );
    const direction = order.isDescending ? ('descending' as const) : ('ascending' as const);
    return { ...column, title, order: head === order.column ? direction : undefined };
  });
  return <Table columns={sortable} rows={shown} keyOf={({ client_id: id }) => id} />;
}

function ClientName({ client_id: id, name, isDisabled }: ClientState) {
  return (
    <>
      <span class="inline client-name">
        <a href={clientAddress(id)}>{name}</a>
        {isDisabled && <Badge level="bad">disabled</Badge>}
      </span>
      <Id id={id} what={`the client_id of ${name}`} />
    </>
  );
}

const EVERYTHING: Record<Right, string> = {
  full: 'everything',
  masked: 'everything masked',
  none: 'nothing',
};

/** What a client sees of the kinds, each right on a line of its own. */
function Seen({ sees }: { sees: readonly SeenKinds[] }) {
  if (sees.length === 1) return <>{EVERYTHING[sees[0]!.right]}</>;
  return sees.map(({ right, kinds, others }) => (
    <span class="seen" key={right}>
      <RightMark right={right} />
      {` ${kinds.join(', ')}${others === 0 ? '' : ` and ${others} more`}`}
    </span>
  ));
}

function LastUse({ last_used_at: usedAt }: ClientState) {
  if (usedAt === null) return <>never</>;
  const usedMs = Date.parse(usedAt);
  return <span title={date(usedMs)}>{ago(feed.nowMs - usedMs)}</span>;
}

function Rate({ limitPerS, requestsPerS }: ClientState) {
  const limit = limitPerS === null ? ', no limit' : ` of ${limitShown(limitPerS)}`;
  const share = limitPerS === null ? null : (requestsPerS ?? 0) / Math.max(limitPerS, 1);
  return <Share share={share} text={si(requestsPerS) + limit} />;
}

function countOf(shown: number, { shown: known, others }: ClientsState): string {
  if (known.length === 0) return 'No client yet: standin client create';
  const more = others === 0 ? '' : `; ${plural(others, 'further client')} not shown`;
  const all = plural(known.length, 'client');
  return shown === known.length ? all + more : `${whole(shown)} of ${all}${more}`;
}
