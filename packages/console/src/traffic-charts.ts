import { Chart, type Line } from './chart.ts';
import { el, setText } from './dom.ts';
import { ms, si, whole } from './format.ts';
import type { Latency, OperationSample, Sample } from './protocol.ts';
import { columnsOf, figuresOf, type Pick, requestsOf } from './sample-history.ts';

interface TrafficLine extends Line {
  readonly pick: Pick;
}

interface TrafficPlot {
  readonly title: string;
  readonly unit: string;
  readonly format: (value: number | null) => string;
  readonly lines: readonly TrafficLine[];
  /** Rates have a total; times and sizes do not. */
  readonly isRate: boolean;
  /** The text for a chart without data. */
  readonly nothing: string;
}

const DASHED = [6, 4];
const DOTTED = [2, 3];

/** @param color that of the operation in all charts */
const latency = (
  operation: (sample: Sample) => OperationSample,
  color: number,
): readonly TrafficLine[] => {
  const quantile = (name: keyof Latency) => (sample: Sample) =>
    operation(sample).latency?.[name] ?? null;
  return [
    { label: 'p50', color, dash: DOTTED, pick: quantile('p50_ms') },
    { label: 'p95', color, dash: DASHED, pick: quantile('p95_ms') },
    { label: 'p99', color, pick: quantile('p99_ms') },
  ];
};

const PLOTS: readonly TrafficPlot[] = [
  {
    title: 'Requests',
    unit: 'per second',
    format: si,
    isRate: true,
    nothing: 'No requests in this time',
    lines: [
      { label: 'tokenize', color: 1, pick: ({ tokenize }) => requestsOf(tokenize) },
      {
        label: 'detokenize',
        color: 2,
        dash: DASHED,
        pick: ({ detokenize }) => requestsOf(detokenize),
      },
    ],
  },
  {
    title: 'Values',
    unit: 'per second',
    format: si,
    isRate: true,
    nothing: 'No values in this time',
    lines: [
      { label: 'tokenized', color: 1, pick: ({ tokenize }) => tokenize.values },
      { label: 'restored', color: 2, dash: DASHED, pick: ({ detokenize }) => detokenize.values },
    ],
  },
  {
    title: 'Latency of tokenize',
    unit: '50, 95 and 99 % were faster',
    format: ms,
    isRate: false,
    nothing: 'No requests in this time',
    lines: latency(({ tokenize }) => tokenize, 1),
  },
  {
    title: 'Latency of detokenize',
    unit: '50, 95 and 99 % were faster',
    format: ms,
    isRate: false,
    nothing: 'No requests in this time',
    lines: latency(({ detokenize }) => detokenize, 2),
  },
  {
    title: 'Refused and failed',
    unit: 'requests per second',
    format: si,
    isRate: true,
    nothing: 'Nothing was refused, nothing failed',
    lines: [
      {
        label: 'refused',
        color: 5,
        pick: ({ tokenize, detokenize }) => tokenize.refused + detokenize.refused,
      },
      {
        label: 'failed',
        color: 4,
        pick: ({ tokenize, detokenize }) => tokenize.failed + detokenize.failed,
      },
      {
        label: 'by limit',
        color: 5,
        dash: DASHED,
        pick: ({ limited }) => limited.requests + limited.detokenize + limited.unknown_tokens,
      },
      { label: 'overload', color: 5, dash: DOTTED, pick: ({ shed }) => shed },
    ],
  },
  {
    title: 'Records per database statement',
    unit: 'requests share statements under load',
    format: si,
    isRate: false,
    nothing: 'No statements in this time',
    lines: [
      { label: 'insert', color: 1, pick: ({ batch }) => batch.insert },
      { label: 'find', color: 2, dash: DASHED, pick: ({ batch }) => batch.find },
    ],
  },
];

/** The charts of requests, over one window of time. */
export class TrafficCharts {
  readonly element: HTMLElement;
  readonly #charts = PLOTS.map((plot) => new TrafficChart(plot));

  constructor() {
    this.element = el('div', { class: 'charts' }, ...this.#charts.map(({ element }) => element));
  }

  draw(samples: readonly Sample[], windowMs: number): void {
    for (const chart of this.#charts) chart.draw(samples, windowMs);
  }

  redraw(): void {
    for (const chart of this.#charts) chart.redraw();
  }
}

class TrafficChart {
  readonly #plot: TrafficPlot;
  readonly #chart: Chart;
  /** For each line: now, mean, highest, and the total of a rate. */
  readonly #cells: readonly (readonly HTMLElement[])[];

  constructor(plot: TrafficPlot) {
    this.#plot = plot;
    const heads = ['Now', 'Mean', 'Highest', ...(plot.isRate ? ['In all'] : [])];
    const head = heads.map((text) => el('th', { scope: 'col' }, text));
    this.#cells = plot.lines.map(() => heads.map(() => el('td')));
    const rows = plot.lines.map(({ label }, i) =>
      el('tr', {}, el('th', { scope: 'row' }, label), ...this.#cells[i]!),
    );
    const numbers = el(
      'details',
      {},
      el('summary', {}, 'In numbers', el('span', { class: 'unseen' }, `: ${plot.title}`)),
      el('table', {}, el('thead', {}, el('tr', {}, el('td'), ...head)), el('tbody', {}, ...rows)),
    );
    this.#chart = new Chart({ ...plot, group: 'traffic' }, numbers);
  }

  get element(): HTMLElement {
    return this.#chart.element;
  }

  draw(samples: readonly Sample[], windowMs: number): void {
    const { title, lines, isRate, nothing, format } = this.#plot;
    const picks = lines.map(({ pick }) => pick);
    const figures = picks.map((pick) => figuresOf(samples, pick));
    const endS = (samples.at(-1)?.atMs ?? Date.now()) / 1_000;
    const isEmpty = figures.every(({ highest }) => !highest);
    this.#chart.draw(
      columnsOf(samples, picks),
      [endS - windowMs / 1_000, endS],
      isEmpty ? nothing : '',
    );
    const words = lines.map(
      ({ label }, i) =>
        `${label} ${format(figures[i]!.now)} now, ${format(figures[i]!.highest)} at most`,
    );
    this.#chart.describe(`${title}: ${isEmpty ? nothing.toLowerCase() : words.join('; ')}`);
    figures.forEach(({ now, mean, highest, total }, i) => {
      const texts = [now, mean, highest].map(format);
      if (isRate) texts.push(whole(total));
      texts.forEach((text, n) => {
        setText(this.#cells[i]![n]!, text);
      });
    });
  }

  redraw(): void {
    this.#chart.redraw();
  }
}
