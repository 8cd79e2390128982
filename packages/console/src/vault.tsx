import { useMemo, useRef } from 'preact/hooks';
import { Chart } from './chart.tsx';
import { feed } from './feed.ts';
import {
  ago,
  bytes,
  clock,
  countedText,
  date,
  duration,
  percent,
  plural,
  recordsText,
  si,
  whole,
} from './format.ts';
import { Badge, Bar, Share, Table, Tiles } from './parts.tsx';
import { PolicyCard } from './policy.tsx';
import type { KeysState, KeyVersionState, VaultState } from './protocol.ts';

/** The size of the vault, and the key versions of its records. */
export function Vault() {
  const { state } = feed;
  return (
    <>
      <Bar title="Vault & keys" />
      <Tiles tiles={tilesOf(state?.vault)} />
      <div class="halves">
        <Growth vault={state?.vault} />
        <Keys keys={state?.keys} isEstimate={state?.vault?.isEstimate ?? true} />
      </div>
      <PolicyCard />
    </>
  );
}

const TILES = ['Records', 'Size', 'Average record', 'Since the start'] as const;

/** @param vault null: not known; undefined: nothing came yet */
function tilesOf(vault: VaultState | null | undefined): [string, string?, string?][] {
  if (!vault) return TILES.map((name) => (vault === null ? [name, '–', 'not known'] : [name]));
  const { records, isEstimate, growth } = vault;
  const [first, last] = [growth[0], growth.at(-1)];
  const more = first && last ? last.records - first.records : 0;
  const spanMs = first && last ? last.atMs - first.atMs : 0;
  const each = vault.bytes === null || records === 0 ? null : vault.bytes / records;
  return [
    [TILES[0], recordsText(records, isEstimate), countedText(vault)],
    [TILES[1], bytes(vault.bytes), 'table and indexes'],
    [TILES[2], bytes(each), 'with its indexes'],
    [TILES[3], `${more < 0 ? '−' : '+'}${si(Math.abs(more))}`, `records in ${duration(spanMs)}`],
  ];
}

/** What was known last stays. */
function useLatest<T>(now: T | null | undefined): { current: T | undefined; sinceMs: number } {
  const latest = useRef<{ current: T | undefined; sinceMs: number }>({
    ...{ current: undefined, sinceMs: 0 },
  });
  if (now) latest.current = { current: now, sinceMs: feed.nowMs };
  return latest.current;
}

function Growth({ vault }: { vault: VaultState | null | undefined }) {
  const growth = useLatest(vault).current?.growth ?? [];
  const times = growth.map(({ atMs }) => atMs / 1_000);
  const records = growth.map((point) => point.records);
  const data = useMemo(() => [times, records] as [number[], number[]], [growth]);
  const endS = times.at(-1) ?? feed.nowMs / 1_000;
  const beginS = times[0] ?? endS;
  const nothing = growth.length < 2 && 'The line begins with the second count';
  const from = plural(records[0] ?? 0, 'record');
  const span = duration((endS - beginS) * 1_000);
  return (
    <Chart
      {...{ title: 'Records', unit: 'since the start of this node', group: 'growth', format: si }}
      lines={[{ label: 'records', color: 1 }]}
      data={data}
      isFromZero={false}
      range={[Math.min(beginS, endS - 60), endS]}
      nothing={growth.length === 0 ? 'Not counted yet' : nothing || ''}
      words={`Records: from ${from} to ${whole(records.at(-1) ?? 0)} in ${span}`}
      isStale={vault === null}
    />
  );
}

interface KeysProps {
  keys: KeysState | null | undefined;
  isEstimate: boolean;
}

function Keys({ keys, isEstimate }: KeysProps) {
  const { current: { versions = [], resealed = null, age_s: ageS = 0 } = {}, sinceMs } =
    useLatest(keys);
  const all = versions.reduce((sum, { records }) => sum + (records ?? 0), 0);
  const share = keys ? resealed : null;
  const ofWhen = sinceMs === 0 ? '' : ` The table is of ${clock(sinceMs)}.`;
  const advice = keys
    ? `This node read its keys ${duration(ageS * 1_000)} ago. ${adviceOn(versions, resealed)}`
    : `Not known at the moment: the database does not answer.${ofWhen}`;
  return (
    <section class={keys === null ? 'card stale' : 'card'}>
      <h2>Key versions</h2>
      <Share
        label="Encrypted with the newest key version"
        share={share}
        text={share === null ? 'not known' : percent(share)}
      />
      {keys !== undefined && <p class="note">{advice}</p>}
      <Table
        rows={versions.toReversed()}
        keyOf={({ version }) => version}
        columns={[
          { head: 'Version', cell: ({ version }) => version },
          { head: 'Created', cell: ({ created_at: at }) => <Created atMs={Date.parse(at)} /> },
          {
            head: 'Records',
            cell: ({ records }) =>
              // Shares of an estimate are estimates, too.
              records === null ? '–' : recordsText(records, isEstimate || records !== all),
          },
          {
            head: 'Share',
            cell: ({ records }) => (records === null || all === 0 ? '–' : percent(records / all)),
          },
          {
            head: '',
            cell: ({ isNewest }) =>
              isNewest ? <Badge level="good">encrypts new records</Badge> : 'decrypts only',
          },
        ]}
      />
    </section>
  );
}

function Created({ atMs }: { atMs: number }) {
  return <span title={ago(feed.nowMs - atMs)}>{date(atMs)}</span>;
}

function adviceOn(versions: readonly KeyVersionState[], resealed: number | null): string {
  if (versions.length === 1) return 'There is one key version.';
  if (resealed === null) return '';
  if (resealed >= 1)
    return 'No record needs the older versions. To destroy one: standin keyring retire VERSION';
  return 'To encrypt the rest with the newest key: standin keyring reseal';
}
