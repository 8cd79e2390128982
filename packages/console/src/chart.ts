import uPlot from '/assets/uplot.js';
import { el, setText } from './dom.ts';
import { clock } from './format.ts';
import { color } from './theme.ts';

/** A line. `color` is its number among the stylesheet's colors (--series-1 and so on). */
export interface Line {
  readonly label: string;
  readonly color: number;
  /** Lengths of dashes and gaps in px, for readers who cannot tell the colors apart. */
  readonly dash?: readonly number[];
}

interface Plot {
  readonly title: string;
  /** Unit of the numbers, for the title: "a second", "ms". */
  readonly unit: string;
  readonly lines: readonly Line[];
  readonly format: (value: number | null) => string;
  /** Charts of one group share the cursor. */
  readonly group: string;
  /** Lower end of the vertical axis. Default: 0. */
  readonly floor?: (lowest: number) => number;
}

const HEIGHT_PX = 176;
const FONT = '11px system-ui, sans-serif';
/** Room for a label, in the widest of the usual fonts 51 px with seconds and 32 px without. */
const SECONDS_LABEL_PX = 64;
const MINUTES_LABEL_PX = 44;

/** A live chart with its legend. `describe` sets the text for screen readers. */
export class Chart {
  readonly element: HTMLElement;
  readonly #plot: Plot;
  readonly #canvas = el('div', { class: 'canvas', role: 'img' });
  readonly #values: HTMLElement[];
  readonly #time = el('span', { class: 'chart-time' });
  readonly #nothing = el('p', { class: 'nothing', hidden: true });
  #uplot: uPlot | undefined;
  #data: uPlot.AlignedData = [[]];
  #range: [number, number] = [0, 1];

  constructor(plot: Plot, ...further: HTMLElement[]) {
    this.#plot = plot;
    this.#values = plot.lines.map(() => el('b'));
    const keys = plot.lines.map((line, i) =>
      el('li', {}, swatch(line), line.label, this.#values[i]!),
    );
    this.element = el(
      'section',
      { class: 'card chart', 'aria-label': plot.title },
      el(
        'header',
        {},
        el('h2', {}, plot.title, el('small', {}, plot.unit)),
        this.#time,
        el('ul', { class: 'legend' }, ...keys),
      ),
      el('div', { class: 'plot' }, this.#canvas, this.#nothing),
      ...further,
    );
    this.describe(plot.title);
    new ResizeObserver(() => this.#fit()).observe(this.#canvas);
  }

  /**
   * @param range Unix times in s of the left and the right edge
   * @param nothing text to show instead of an empty chart; '' if there is data
   */
  draw(data: uPlot.AlignedData, range: [number, number], nothing: string): void {
    this.#data = data;
    this.#range = range;
    setText(this.#nothing, nothing);
    this.#nothing.hidden = nothing === '';
    if (this.#uplot === undefined) this.#fit();
    else this.#uplot.setData(data);
    this.#show();
  }

  describe(words: string): void {
    this.#canvas.setAttribute('aria-label', words);
  }

  /** Draws again with the current colors. */
  redraw(): void {
    this.#uplot?.redraw(false);
  }

  #fit(): void {
    const width = Math.floor(this.#canvas.clientWidth);
    if (width === 0) return;
    if (this.#uplot === undefined) this.#uplot = this.#make(width);
    else if (this.#uplot.width !== width) this.#uplot.setSize({ width, height: HEIGHT_PX });
  }

  #make(width: number): uPlot {
    const { group, lines, format } = this.#plot;
    return new uPlot(
      {
        width,
        height: HEIGHT_PX,
        // Room for half of a time label beyond the edge.
        padding: [8, SECONDS_LABEL_PX / 2, 0, 0],
        legend: { show: false },
        cursor: { sync: { key: group }, y: false, drag: { x: false, y: false }, points: POINTS },
        hooks: { setCursor: [() => this.#show()] },
        scales: {
          x: { range: () => this.#range },
          y: { range: (_, low, high) => this.#rise(low, high) },
        },
        axes: [timeAxis(), valueAxis(format)],
        series: [{}, ...lines.map(seriesOf)],
      },
      this.#data,
      this.#canvas,
    );
  }

  /** Range of the vertical axis: some room above the highest value, and never empty. */
  #rise(lowest: number | null, highest: number | null): [number, number] {
    const floor = this.#plot.floor?.(lowest ?? 0) ?? 0;
    const top = highest === null || highest <= floor ? floor + 1 : highest;
    return [floor, top + (top - floor) * 0.1];
  }

  /** Shows in the legend the values under the cursor, or else the newest values. */
  #show(): void {
    const index = this.#uplot?.cursor.idx ?? null;
    const at = index ?? this.#data[0].length - 1;
    this.#values.forEach((element, i) => {
      setText(element, this.#plot.format(this.#data[i + 1]?.[at] ?? null));
    });
    const timeS = index === null ? undefined : this.#data[0][index];
    setText(this.#time, timeS === undefined ? '' : clock(timeS * 1_000));
  }
}

const POINTS = { size: 7, fill: () => color('--surface') };

function swatch({ color, dash }: Line): HTMLElement {
  const style = dash === undefined ? '' : dash[0]! > 3 ? ' dashed' : ' dotted';
  return el('i', { class: `swatch series-${color}${style}` });
}

/** Tints the area of the first line, which is the subject of the chart. */
function seriesOf(line: Line, i: number): uPlot.Series {
  const stroke = () => color(`--series-${line.color}`);
  return {
    label: line.label,
    width: 1.75,
    stroke,
    ...(i === 0 && { fill: () => `${stroke()}1a` }),
    ...(line.dash && { dash: [...line.dash] }),
    points: { show: true, size: 5, fill: stroke, filter: alone },
    spanGaps: false,
  };
}

/** Values without a neighbor: no line would show them. */
function alone({ data }: uPlot, line: number): number[] {
  const values = data[line]!;
  const isThere = (at: number) => typeof values[at] === 'number';
  return [...values.keys()].filter((i) => isThere(i) && !isThere(i - 1) && !isThere(i + 1));
}

function timeAxis(): uPlot.Axis {
  return {
    stroke: () => color('--muted'),
    font: FONT,
    size: 28,
    gap: 4,
    space: (_, __, beginS, endS, widthPx) => timeSpace((30 * widthPx) / (endS - beginS)),
    grid: { show: false },
    ticks: { stroke: () => color('--grid'), width: 1, size: 4 },
    values: (_, times, __, ___, stepS) =>
      times.map((timeS) => clock(timeS * 1_000).slice(0, stepS < 60 ? 8 : 5)),
  };
}

/** Steps of 30 s, the longest with seconds in their labels, are used only if these have room. */
function timeSpace(halfMinutePx: number): number {
  if (halfMinutePx >= SECONDS_LABEL_PX) return SECONDS_LABEL_PX;
  return Math.max(MINUTES_LABEL_PX, halfMinutePx + 1);
}

function valueAxis(format: (value: number) => string): uPlot.Axis {
  return {
    stroke: () => color('--muted'),
    font: FONT,
    size: 58,
    gap: 6,
    space: 30,
    grid: { stroke: () => color('--grid'), width: 1 },
    ticks: { show: false },
    values: (_, values) => values.map((value) => format(value)),
  };
}
