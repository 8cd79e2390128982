import { useState } from 'preact/hooks';
import { MakeClient } from './acts.tsx';
import { useLatest } from './answer.ts';
import { feed } from './feed.ts';
import { ago, clientAddress, date, limitShown, plural, rightsOf, si, whole } from './format.ts';
import { arrange, ORDERS } from './lists.ts';
import { Badge, Bar, Choices, type Column, Filter, Id, Share, Table } from './parts.tsx';
import type { ClientState, ClientsState } from './protocol.ts';

const NAMES = Object.keys(ORDERS) as (keyof typeof ORDERS)[];

/** The clients, with their last use and their rate. */
export function Clients() {
  const [filter, setFilter] = useState('');
  const [order, setOrder] = useState(0);
  const { state } = feed;
  const { known } = useLatest(state?.clients);
  const shown = arrange(known?.shown ?? [], filter, NAMES[order]!);
  const isUnknown = state !== null && state.clients === null;
  const note = isUnknown
    ? 'Not known at the moment: the database does not answer.'
    : known && countOf(shown.length, known);
  return (
    <>
      <Bar title="Clients" note={note}>
        <MakeClient />
        <Choices legend="Order" names={NAMES} chosen={order} choose={setOrder} />
        <Filter name="Filter" hint="Name, client_id or space" text={filter} change={setFilter} />
      </Bar>
      <section class={isUnknown ? 'card stale' : 'card'} aria-label="Clients">
        <Table
          columns={columnsOf(known?.shown ?? [])}
          rows={shown}
          keyOf={({ client_id: id }) => id}
        />
      </section>
    </>
  );
}

function columnsOf(all: readonly ClientState[]): (Column<ClientState> | false)[] {
  const hasPolicy = feed.state?.policy.version !== 0;
  const hasSpaces = all.some(({ space }) => space !== '');
  return [
    ['Client', (one) => <ClientName {...one} />],
    hasSpaces && ['Space', ({ space }) => space || '–'],
    ['Allowed to', rightsOf],
    hasPolicy && ['In clear', ({ strings }) => (strings === null ? '–' : whole(strings.passed))],
    ['Tokens', ({ token_mode: mode }) => mode],
    ['API keys', ({ liveApiKeys }) => liveApiKeys],
    ['Last use', (one) => <LastUse {...one} />],
    ['Requests per second', (one) => <Rate {...one} />],
  ];
}

function ClientName({ client_id: id, name, isDisabled }: ClientState) {
  return (
    <>
      <span class="inline client-name">
        <a href={clientAddress(id)}>{name}</a>
        {isDisabled && <Badge level="bad">disabled</Badge>}
      </span>
      <Id id={id} of={`the client_id of ${name}`} />
    </>
  );
}

function LastUse({ last_used_at: usedAt }: ClientState) {
  if (usedAt === null) return 'never';
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
