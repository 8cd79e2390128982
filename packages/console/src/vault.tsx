import { useMemo } from 'preact/hooks';
import { useLatest } from './answer.ts';
import { Chart } from './chart.tsx';
import { feed } from './feed.ts';
import {
  ago,
  bytes,
  clock,
  date,
  duration,
  percent,
  plural,
  recordsText,
  si,
  whole,
} from './format.ts';
import { Badge, Bar, Share, Table, type Tile, Tiles } from './parts.tsx';
import { PolicyCard } from './policy.tsx';
import type { KeysState, KeyVersionState, VaultState } from './protocol.ts';

/** The size of the vault, and the key versions of its records. */
export function Vault() {
  const { keys, vault } = feed.state ?? {};
  return (
    <>
      <Bar title="Vault & keys" />
      <Tiles
        tiles={[
          recordsTile(vault),
          tile(vault, 'Size', bytes(vault?.bytes ?? null), 'table and indexes'),
        ]}
      />
      <div class="halves">
        <Growth vault={vault} />
        <Keys keys={keys} vault={vault} />
      </div>
      <PolicyCard />
    </>
  );
}

/** null: not known; undefined: nothing came yet. */
type Known = VaultState | null | undefined;

function tile(vault: Known, label: string, value: string, note: string): Tile {
  if (vault === undefined) return [label];
  return vault === null ? [label, '–', 'not known'] : [label, value, note];
}

/** How many records there are, and when they were counted. */
export function recordsTile(vault: Known): Tile {
  const { growth = [], records = 0, isEstimate = true } = vault ?? {};
  const last = growth.at(-1);
  const counted = last === undefined ? '' : `at ${clock(last.atMs)}`;
  return tile(vault, 'Records', recordsText(records, isEstimate), counted);
}

function Growth({ vault }: { vault: Known }) {
  const growth = useLatest(vault).known?.growth ?? [];
  const times = growth.map(({ atMs }) => atMs / 1_000);
  const records = growth.map((point) => point.records);
  const data = useMemo(() => [times, records] as [number[], number[]], [growth.at(-1)]);
  const endS = times.at(-1) ?? feed.nowMs / 1_000;
  const beginS = times[0] ?? endS;
  const from = plural(records[0] ?? 0, 'record');
  const span = duration((endS - beginS) * 1_000);
  return (
    <Chart
      {...{ title: 'Records', unit: 'since the start of this node' }}
      {...{ data, format: si, lines: [{ label: 'records', color: 1, style: 'solid' }] }}
      isFromZero={false}
      range={[Math.min(beginS, endS - 60), endS]}
      nothing={NO_GROWTH[growth.length] ?? ''}
      words={`Records: from ${from} to ${whole(records.at(-1) ?? 0)} in ${span}`}
      isStale={vault === null}
    />
  );
}

/** By number of counts. */
const NO_GROWTH = ['Not counted yet', 'The line begins with the second count'];

function Keys({ keys, vault }: { keys: KeysState | null | undefined; vault: Known }) {
  const { known, atMs } = useLatest(keys);
  const { versions = [], resealed = null, age_s: ageS = 0 } = known ?? {};
  const all = versions.reduce((sum, { records }) => sum + (records ?? 0), 0);
  const share = keys ? resealed : null;
  const ofWhen = atMs === undefined ? '' : ` The table is of ${clock(atMs)}.`;
  const advice = keys
    ? `This node read its keys ${duration(ageS * 1_000)} ago. ${adviceOn(versions, resealed)}`
    : `Not known at the moment: the database does not answer.${ofWhen}`;
  // The page shows one number of records: both counts are of different times and methods.
  const recordsOf = ({ records }: KeyVersionState) => {
    if (records === null || !vault) return '–';
    const shown = all === 0 ? 0 : Math.round((vault.records * records) / all);
    return recordsText(shown, vault.isEstimate || records !== all);
  };
  return (
    <section class={keys === null ? 'card stale' : 'card'}>
      <h2>Key versions</h2>
      <p>Encrypted with the newest key version</p>
      <Share share={share} text={share === null ? 'not known' : percent(share)} />
      {keys !== undefined && <p class="note">{advice}</p>}
      <Table
        rows={versions.toReversed()}
        keyOf={({ version }) => version}
        columns={[
          ['Version', ({ version }) => version],
          ['Created', ({ created_at: at }) => <Created atMs={Date.parse(at)} />],
          ['Records', recordsOf],
          ['Share', ({ records }) => (records && all ? percent(records / all) : '–')],
          ['', ({ isNewest }) => (isNewest ? NEWEST : 'decrypts only')],
        ]}
      />
    </section>
  );
}

const NEWEST = <Badge level="good">encrypts new records</Badge>;

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
