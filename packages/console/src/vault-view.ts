import { badge } from './badge.ts';
import { Chart } from './chart.ts';
import { el, setChildren, setText } from './dom.ts';
import type { Feed } from './feed.ts';
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
import { PolicyCard } from './policy-card.ts';
import type { KeysState, KeyVersionState, VaultState } from './protocol.ts';
import { ShareBar } from './share-bar.ts';
import { countedText, Tiles } from './tiles.ts';
import type { View } from './view.ts';

const HEADS = ['Version', 'Created', 'Records', 'Share', ''];

/** The size of the vault, and the key versions of its records. */
export class VaultView implements View {
  readonly route = 'vault';
  readonly title = 'Vault & keys';
  readonly element: HTMLElement;
  readonly #tiles = new Tiles(['Records', 'Size', 'Average record', 'Since the start']);
  readonly #chart = new Chart({
    title: 'Records',
    unit: 'since the start of this node',
    lines: [{ label: 'records', color: 1 }],
    format: si,
    group: 'growth',
    floor: (lowest) => lowest,
  });
  readonly #versions = el('tbody');
  readonly #reseal = new ShareBar('Encrypted with the newest key version');
  readonly #advice = el('p', { class: 'note' });
  readonly #keys = el('section', { class: 'card' }, el('h2', {}, 'Key versions'));
  readonly #policy = new PolicyCard();
  #hasGrowth = false;
  #knownMs: number | undefined;
  #drawn: unknown;

  constructor() {
    const head = HEADS.map((text) => (text ? el('th', { scope: 'col' }, text) : el('td')));
    this.element = el(
      'div',
      { class: 'view' },
      el('div', { class: 'bar' }, el('h1', {}, this.title)),
      this.#tiles.element,
      el('div', { class: 'halves' }, this.#chart.element, this.#keys),
      this.#policy.element,
    );
    this.#keys.append(
      this.#reseal.element,
      this.#advice,
      el('table', { class: 'rows' }, el('thead', {}, el('tr', {}, ...head)), this.#versions),
    );
  }

  update(feed: Feed): void {
    const { state, nowMs } = feed;
    if (state === null || document.hidden) return;
    this.#policy.update(feed);
    if (state === this.#drawn) return;
    this.#drawn = state;
    const { vault, keys } = state;
    this.#keys.classList.toggle('stale', keys === null);
    this.#chart.element.classList.toggle('stale', vault === null);
    this.#tiles.update(tilesOf(vault));
    if (vault !== null) this.#drawGrowth(vault);
    else if (!this.#hasGrowth) this.#drawNothing(nowMs / 1_000);
    if (keys === null) this.#showUnknownKeys();
    else this.#showKeys(keys, nowMs, vault?.isEstimate ?? true);
  }

  redraw(): void {
    this.#chart.redraw();
  }

  #drawNothing(nowS: number): void {
    this.#chart.draw([[], []], [nowS - 60, nowS], 'Not counted yet');
  }

  #drawGrowth({ growth }: VaultState): void {
    this.#hasGrowth = true;
    const times = growth.map(({ atMs }) => atMs / 1_000);
    const records = growth.map((point) => point.records);
    const endS = times.at(-1) ?? 1;
    const beginS = Math.min(times[0] ?? 0, endS - 60);
    const nothing = growth.length < 2 ? 'The line begins with the second count' : '';
    this.#chart.draw([times, records], [beginS, endS], nothing);
    const from = plural(records[0] ?? 0, 'record');
    const span = duration((endS - (times[0] ?? endS)) * 1_000);
    this.#chart.describe(`Records: from ${from} to ${whole(records.at(-1) ?? 0)} in ${span}`);
  }

  /** What was known last stays, with its time. */
  #showUnknownKeys(): void {
    const last = this.#knownMs === undefined ? '' : ` The table is of ${clock(this.#knownMs)}.`;
    this.#reseal.update(null, 'not known');
    setText(this.#advice, `Not known at the moment: the database does not answer.${last}`);
  }

  #showKeys(
    { versions, resealed, age_s: ageS }: KeysState,
    nowMs: number,
    isEstimate: boolean,
  ): void {
    this.#knownMs = nowMs;
    this.#reseal.update(resealed, resealed === null ? 'not known' : percent(resealed));
    const read = `This node read its keys ${duration(ageS * 1_000)} ago.`;
    setText(this.#advice, `${read} ${adviceOn(versions, resealed)}`);
    const all = versions.reduce((sum, { records }) => sum + (records ?? 0), 0);
    const rows = versions.toReversed().map((one) => versionRow(one, all, nowMs, isEstimate));
    setChildren(this.#versions, ...rows);
  }
}

function tilesOf(vault: VaultState | null): [string, string][] {
  if (vault === null) return Array.from({ length: 4 }, () => ['–', 'not known']);
  const { records, isEstimate, growth } = vault;
  const first = growth[0];
  const last = growth.at(-1);
  const more = first && last ? last.records - first.records : 0;
  const spanMs = first && last ? last.atMs - first.atMs : 0;
  const each = vault.bytes === null || records === 0 ? null : vault.bytes / records;
  return [
    [recordsText(records, isEstimate), countedText(vault)],
    [bytes(vault.bytes), 'table and indexes'],
    [bytes(each), 'with its indexes'],
    [`${more < 0 ? '−' : '+'}${si(Math.abs(more))}`, `records in ${duration(spanMs)}`],
  ];
}

function adviceOn(versions: readonly KeyVersionState[], resealed: number | null): string {
  if (versions.length === 1) return 'There is one key version.';
  if (resealed === null) return '';
  if (resealed >= 1)
    return 'No record needs the older versions. To destroy one: standin keyring retire VERSION';
  return 'To encrypt the rest with the newest key: standin keyring reseal';
}

/** @param isEstimate of `all`. Shares of it are estimates, too. */
function versionRow(
  key: KeyVersionState,
  all: number,
  nowMs: number,
  isEstimate: boolean,
): HTMLElement {
  const isShare = isEstimate || key.records !== all;
  const madeMs = Date.parse(key.created_at);
  const cells: [string, Node | string][] = [
    ['Created', el('span', { title: ago(nowMs - madeMs) }, date(madeMs))],
    ['Records', key.records === null ? '–' : recordsText(key.records, isShare)],
    ['Share', key.records === null || all === 0 ? '–' : percent(key.records / all)],
    ['', key.isNewest ? badge('good', 'encrypts new records') : 'decrypts only'],
  ];
  return el(
    'tr',
    {},
    el('th', { scope: 'row', 'data-head': 'Version' }, String(key.version)),
    ...cells.map(([head, content]) => el('td', { 'data-head': head }, content)),
  );
}
