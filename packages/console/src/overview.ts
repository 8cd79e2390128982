import { levelIcon } from './badge.ts';
import { choices } from './choices.ts';
import { el, setChildren } from './dom.ts';
import type { Feed } from './feed.ts';
import { FirstSteps } from './first-steps.ts';
import { duration, ms, recordsText, si } from './format.ts';
import { type Check, checksOf } from './health.ts';
import type { ConsoleState, Sample } from './protocol.ts';
import { hasRequests, requestsOf } from './sample-history.ts';
import { countedText, Tiles } from './tiles.ts';
import { TrafficCharts } from './traffic-charts.ts';
import type { View } from './view.ts';

const WINDOWS_MIN = [1, 5, 15] as const;
const MINUTE_MS = 60_000;

/** The traffic of the last minutes, and the health of the service. */
export class Overview implements View {
  readonly route = '';
  readonly title = 'Overview';
  readonly element: HTMLElement;
  readonly #tiles = new Tiles([
    ...['Requests per second', 'Values per second', 'Slowest 1 % of requests'],
    ...['Refused and failed per second', 'Records'],
  ]);
  readonly #firstSteps = new FirstSteps();
  readonly #charts = new TrafficCharts();
  readonly #service = el('dl', { class: 'checks' });
  #windowMs = WINDOWS_MIN[1] * MINUTE_MS;
  #drawn: string | undefined;
  #serviceShown: string | undefined;

  constructor() {
    const names = WINDOWS_MIN.map((minutes) => `${minutes} min`);
    const windows = choices('Time shown', names, 1, (chosen) => {
      this.#windowMs = WINDOWS_MIN[chosen]! * MINUTE_MS;
      this.element.dispatchEvent(new Event('refresh', { bubbles: true }));
    });
    this.element = el(
      'div',
      { class: 'view' },
      el('div', { class: 'bar' }, el('h1', {}, this.title), windows),
      this.#tiles.element,
      this.#firstSteps.element,
      this.#charts.element,
      el('section', { class: 'card' }, el('h2', {}, 'Service'), this.#service),
    );
  }

  update({ samples, state, nowMs }: Feed): void {
    const last = samples.last;
    this.#tiles.update(tilesOf(last, state));
    const isIdle = state !== null && !hasRequests(samples.window(15 * MINUTE_MS));
    this.#firstSteps.update(isIdle, state);
    if (state !== null) this.#showService(state, nowMs);
    const drawn = `${last?.atMs} ${this.#windowMs}`;
    if (drawn === this.#drawn || document.hidden) return;
    this.#drawn = drawn;
    this.#charts.draw(samples.window(this.#windowMs), this.#windowMs);
  }

  redraw(): void {
    this.#charts.redraw();
  }

  #showService(state: ConsoleState, nowMs: number): void {
    const checks = checksOf(state, nowMs);
    const runs = duration(nowMs - Date.parse(state.startedAt));
    // Keep unchanged elements, because replacing them disturbs selections and screen readers.
    const shown = JSON.stringify([checks, runs]);
    if (shown === this.#serviceShown) return;
    this.#serviceShown = shown;
    setChildren(
      this.#service,
      ...checks.map(checkRow),
      row('Uptime', runs),
      row('API version', state.interfaceVersion),
    );
  }
}

function tilesOf(last: Sample | undefined, state: ConsoleState | null) {
  const vault = state?.vault;
  const records: [string, string] = vault
    ? [recordsText(vault.records, vault.isEstimate), countedText(vault)]
    : ['–', 'not known'];
  if (last === undefined) return [null, null, null, null, state && records];
  const { tokenize, detokenize } = last;
  const quantiles = [tokenize.latency?.p99_ms, detokenize.latency?.p99_ms];
  const known = quantiles.filter((value) => value !== undefined);
  const refused = tokenize.refused + detokenize.refused;
  const failed = tokenize.failed + detokenize.failed;
  return [
    pair(requestsOf(tokenize), requestsOf(detokenize)),
    pair(tokenize.values, detokenize.values),
    [
      known.length === 0 ? '–' : ms(Math.max(...known)),
      // The larger of the two is the number above.
      `tokenize ${ms(quantiles[0])} · detokenize ${ms(quantiles[1])}`,
    ],
    [si(refused + failed), `refused ${si(refused)} · failed ${si(failed)}`],
    records,
  ] as const;
}

function pair(tokenized: number, restored: number): [string, string] {
  return [si(tokenized + restored), `tokenize ${si(tokenized)} · detokenize ${si(restored)}`];
}

function checkRow({ name, level, text }: Check): HTMLElement {
  const value = el('dd', { class: level }, levelIcon(level), text);
  return el('div', {}, el('dt', {}, name), value);
}

function row(name: string, text: string): HTMLElement {
  return el('div', {}, el('dt', {}, name), el('dd', {}, text));
}
