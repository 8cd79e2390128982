import { useEffect, useRef, useState } from 'preact/hooks';
import uPlot from 'uplot';
import { feed } from './feed.ts';
import { clock } from './format.ts';
import type { Children } from './parts.tsx';

/** A line. `color` is its number among the stylesheet's colors (--series-1 and so on). */
export interface Line {
  readonly label: string;
  readonly color: number;
  /** For readers who cannot tell the colors apart. */
  readonly style: keyof typeof DASHES;
}

/** Lengths of dashes and gaps in px. */
const DASHES = { solid: [], dashed: [6, 4], dotted: [2, 3] };

interface ChartProps {
  readonly title: string;
  /** Unit of the numbers, for the title: "a second", "ms". */
  readonly unit: string;
  readonly lines: readonly Line[];
  readonly format: (value: number | null) => string;
  /** Whether the vertical axis begins at 0. Default: yes. */
  readonly isFromZero?: boolean;
  /** Unix times in s, then a column for each line. The chart is drawn again if this is another. */
  readonly data: uPlot.AlignedData;
  /** Unix times in s of the left and the right edge. */
  readonly range: [number, number];
  /** Shown instead of an empty chart; '' if there is data. */
  readonly nothing: string;
  /** For screen readers. */
  readonly words: string;
  readonly isStale?: boolean;
  readonly children?: Children;
}

/** The colors follow the system. A canvas does not follow the stylesheet by itself. */
const isDark = matchMedia('(prefers-color-scheme: dark)');
isDark.addEventListener('change', () => feed.changed());
const probe = document.createElement('i');
probe.hidden = true;
document.body.append(probe);

/** A color of the stylesheet. */
function color(name: string): string {
  probe.style.color = `var(${name})`;
  return getComputedStyle(probe).color;
}

const HEIGHT_PX = 176;
const FONT = '11px system-ui, sans-serif';
/** Room for a time, in the widest of the usual fonts 51 px: labels neither touch nor are cut. */
const TIME_PX = 64;

/** A live chart with its legend. */
export function Chart(props: ChartProps) {
  const { title, unit, lines, format, data, nothing, words, isStale, children } = props;
  const canvas = useRef<HTMLDivElement>(null);
  const latest = useRef(props);
  latest.current = props;
  const drawn = useRef<uPlot | undefined>(undefined);
  /** The index under the cursor. */
  const [index, setIndex] = useState<number | null>(null);
  useEffect(() => {
    const element = canvas.current!;
    const fit = () => {
      const width = Math.floor(element.clientWidth);
      if (width === 0) return;
      if (drawn.current) drawn.current.setSize({ width, height: HEIGHT_PX });
      else drawn.current = plot(element, width, latest, setIndex);
    };
    const observer = new ResizeObserver(fit);
    observer.observe(element);
    return () => {
      observer.disconnect();
      drawn.current?.destroy();
    };
  }, []);
  useEffect(() => drawn.current?.setData(data), [data, isDark.matches]);
  const at = index ?? data[0].length - 1;
  const timeS = index === null ? undefined : data[0][index];
  return (
    <section class={isStale ? 'card chart stale' : 'card chart'} aria-label={title}>
      <header>
        <h2>
          {title}
          <small>{unit}</small>
        </h2>
        <span class="chart-time">{timeS === undefined ? '' : clock(timeS * 1_000)}</span>
        <ul class="legend">
          {lines.map((line, i) => (
            <li key={line.label}>
              <i style={{ borderTop: `3px ${line.style} var(--series-${line.color})` }} />
              {line.label}
              <b>{format(data[i + 1]?.[at] ?? null)}</b>
            </li>
          ))}
        </ul>
      </header>
      <div class="plot">
        <div class="canvas" role="img" aria-label={words} ref={canvas} />
        {nothing && <p class="nothing">{nothing}</p>}
      </div>
      {children}
    </section>
  );
}

function plot(
  element: HTMLElement,
  width: number,
  latest: { readonly current: ChartProps },
  setIndex: (index: number | null) => void,
): uPlot {
  const { lines, format, data } = latest.current;
  const options: uPlot.Options = {
    width,
    height: HEIGHT_PX,
    // Room for half of a time label beyond the edge.
    padding: [8, TIME_PX / 2, 0, 0],
    legend: { show: false },
    // All charts share the cursor.
    cursor: { sync: { key: 'time' }, y: false, drag: { x: false, y: false }, points: POINTS },
    hooks: { setCursor: [({ cursor }) => setIndex(cursor.idx ?? null)] },
    scales: {
      x: { range: () => latest.current.range },
      y: { range: (_, low, high) => rise(low, high, latest.current.isFromZero) },
    },
    axes: [timeAxis(), valueAxis(format)],
    series: [{}, ...lines.map(seriesOf)],
  };
  return new uPlot(options, data, element);
}

/** Range of the vertical axis: some room above the highest value, and never empty. */
function rise(lowest: number | null, highest: number | null, isFromZero = true): [number, number] {
  const floor = isFromZero ? 0 : (lowest ?? 0);
  const top = highest === null || highest <= floor ? floor + 1 : highest;
  return [floor, top + (top - floor) * 0.1];
}

const POINTS = { size: 7, fill: () => color('--surface') };

/** Tints the area of the first line, which is the subject of the chart. */
function seriesOf(line: Line, i: number): uPlot.Series {
  const stroke = () => color(`--series-${line.color}`);
  return {
    label: line.label,
    width: 1.75,
    stroke,
    ...(i === 0 && { fill: () => stroke().replace(')', ', 0.1)') }),
    dash: DASHES[line.style],
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

const AXIS = { stroke: () => color('--muted'), font: FONT };

function timeAxis(): uPlot.Axis {
  return {
    ...{ ...AXIS, size: 28, gap: 4, space: TIME_PX, grid: { show: false } },
    ticks: { stroke: () => color('--border'), width: 1, size: 4 },
    values: (_, times) => times.map((timeS) => clock(timeS * 1_000)),
  };
}

function valueAxis(format: (value: number) => string): uPlot.Axis {
  return {
    ...{ ...AXIS, size: 58, gap: 6, space: 30, ticks: { show: false } },
    grid: { stroke: () => color('--border'), width: 1 },
    values: (_, values) => values.map((value) => format(value)),
  };
}
