import { useMemo, useState } from 'preact/hooks';
import { Chart, type Line } from './chart.tsx';
import { feed } from './feed.ts';
import { duration, ms, si, whole } from './format.ts';
import { checksOf } from './health.ts';
import { Bar, Choices, Facts, Table, type Tile, Tiles, Unseen } from './parts.tsx';
import type { ConsoleState, DetectionsOfDay, Latency, Sample } from './protocol.ts';
import { columnsOf, type Figures, figuresOf, type Pick, requestsOf, windowOf } from './samples.ts';
import { recordsTile } from './vault.tsx';

const MINUTES = [1, 5, 15] as const;
const MINUTE_MS = 60_000;

/** The traffic of the last minutes, and the health of the service. */
export function Overview() {
  const [chosen, choose] = useState(1);
  const { samples, state, nowMs } = feed;
  const windowMs = MINUTES[chosen]! * MINUTE_MS;
  const shown = useMemo(() => windowOf(samples, windowMs), [samples, windowMs]);
  const names = MINUTES.map((minutes) => `${minutes} min`);
  return (
    <>
      <Bar title="Overview">
        <Choices legend="Time shown" names={names} chosen={chosen} choose={choose} />
      </Bar>
      <Tiles tiles={tilesOf(samples.at(-1), state)} />
      <div class="charts">
        {PLOTS.map((plot) => (
          <TrafficChart key={plot.title} plot={plot} samples={shown} windowMs={windowMs} />
        ))}
      </div>
      {state !== null && state.detections.length > 0 && <Found days={state.detections} />}
      <section class="card">
        <h2>Service</h2>
        {state && (
          <Facts
            facts={[
              ...checksOf(state, nowMs),
              ['Uptime', duration(nowMs - Date.parse(state.startedAt))],
              ['API version', state.interfaceVersion],
            ]}
          />
        )}
      </section>
    </>
  );
}

/** What was found in texts, by kind and day. */
function Found({ days }: { days: readonly DetectionsOfDay[] }) {
  const kinds = new Set(days.flatMap(({ counts }) => counts.map(({ kind }) => kind)));
  const countOf = (kind: string, { counts }: DetectionsOfDay) =>
    counts.find((one) => one.kind === kind)?.count ?? 0;
  return (
    <section class="card">
      <h2>
        Found in texts<small>by this node since its start, days in UTC</small>
      </h2>
      <Table
        rows={[...kinds].sort()}
        keyOf={(kind) => kind}
        columns={[
          ['Kind', (kind) => <code>{kind}</code>],
          ...days.map((one) => [one.day, (kind: string) => whole(countOf(kind, one))] as const),
        ]}
      />
    </section>
  );
}

function tilesOf(last: Sample | undefined, state: ConsoleState | null): Tile[] {
  type Figure = readonly [value: string, note: string];
  const tile = (label: string, figureOf: (of: Sample) => Figure): Tile =>
    last === undefined ? [label] : [label, ...figureOf(last)];
  const sum = (a: number, b: number, one = 'tokenize', other = 'detokenize'): Figure => [
    ...([si(a + b), `${one} ${si(a)} · ${other} ${si(b)}`] as const),
  ];
  return [
    tile('Requests per second', (of) => sum(requestsOf(of.tokenize), requestsOf(of.detokenize))),
    tile('Values per second', (of) => sum(of.tokenize.values, of.detokenize.values)),
    tile('Slowest 1 % of requests', ({ tokenize, detokenize }) => {
      const [a, b] = [tokenize.latency?.p99_ms, detokenize.latency?.p99_ms];
      const slowest = Math.max(a ?? -Infinity, b ?? -Infinity);
      return [ms(slowest), `tokenize ${ms(a)} · detokenize ${ms(b)}`];
    }),
    tile('Refused and failed per second', (of) =>
      sum(both(of, 'refused'), both(of, 'failed'), 'refused', 'failed'),
    ),
    recordsTile(state?.vault),
  ];
}

function both({ tokenize, detokenize }: Sample, count: 'refused' | 'failed'): number {
  return tokenize[count] + detokenize[count];
}

interface TrafficPlot {
  readonly title: string;
  readonly unit: string;
  readonly format: (value: number | null) => string;
  readonly lines: readonly (Line & { readonly pick: Pick })[];
  /** The text for a chart without data. */
  readonly nothing: string;
  /** Times and sizes have no total, rates have one. */
  readonly hasTotal?: boolean;
}

const line = (label: string, color: number, pick: Pick, style: Line['style'] = 'solid') => ({
  ...{ label, color, pick, style },
});

const NO_REQUESTS = 'No requests in this time';

/** @param color that of the operation in all charts */
const latencyOf = (name: 'tokenize' | 'detokenize', color: number): TrafficPlot => {
  const quantile = (which: keyof Latency) => (sample: Sample) =>
    sample[name].latency?.[which] ?? null;
  return {
    title: `Latency of ${name}`,
    unit: '50, 95 and 99 % were faster',
    format: ms,
    nothing: NO_REQUESTS,
    lines: [
      line('p50', color, quantile('p50_ms'), 'dotted'),
      line('p95', color, quantile('p95_ms'), 'dashed'),
      line('p99', color, quantile('p99_ms')),
    ],
  };
};

const ratesOf = (title: string, nothing: string, ...lines: TrafficPlot['lines']): TrafficPlot => ({
  ...{ title, unit: 'per second', format: si, hasTotal: true, nothing, lines },
});

const PLOTS: readonly TrafficPlot[] = [
  ratesOf(
    'Requests',
    NO_REQUESTS,
    line('tokenize', 1, ({ tokenize }) => requestsOf(tokenize)),
    line('detokenize', 2, ({ detokenize }) => requestsOf(detokenize), 'dashed'),
  ),
  ratesOf(
    'Values',
    'No values in this time',
    line('tokenized', 1, ({ tokenize }) => tokenize.values),
    line('restored', 2, ({ detokenize }) => detokenize.values, 'dashed'),
  ),
  latencyOf('tokenize', 1),
  latencyOf('detokenize', 2),
  ratesOf(
    'Refused and failed',
    'Nothing was refused, nothing failed',
    line('refused', 5, (sample) => both(sample, 'refused')),
    line('failed', 4, (sample) => both(sample, 'failed')),
    line('by limit', 5, ({ limited }) => limited, 'dashed'),
    line('overload', 5, ({ shed }) => shed, 'dotted'),
  ),
  {
    ...{ title: 'Records per database statement', format: si },
    unit: 'requests share statements under load',
    nothing: 'No statements in this time',
    lines: [
      line('insert', 1, ({ batch }) => batch.insert),
      line('find', 2, ({ batch }) => batch.find, 'dashed'),
    ],
  },
];

type Traffic = { plot: TrafficPlot; samples: readonly Sample[]; windowMs: number };

function TrafficChart({ plot, samples, windowMs }: Traffic) {
  const { title, lines, format, nothing } = plot;
  const picks = lines.map(({ pick }) => pick);
  const data = useMemo(() => columnsOf(samples, picks), [samples]);
  const figures = useMemo(() => picks.map((pick) => figuresOf(samples, pick)), [samples]);
  const endS = (samples.at(-1)?.atMs ?? Date.now()) / 1_000;
  const isEmpty = figures.every(({ highest }) => !highest);
  const words = lines.map(({ label }, i) => {
    const { now, highest } = figures[i]!;
    return `${label} ${format(now)} now, ${format(highest)} at most`;
  });
  return (
    <Chart
      {...plot}
      data={data}
      range={[endS - windowMs / 1_000, endS]}
      nothing={isEmpty ? nothing : ''}
      words={`${title}: ${isEmpty ? nothing.toLowerCase() : words.join('; ')}`}
    >
      <InNumbers plot={plot} figures={figures} />
    </Chart>
  );
}

function InNumbers({ plot, figures }: { plot: TrafficPlot; figures: readonly Figures[] }) {
  const { title, lines, format, hasTotal = false } = plot;
  const of = (head: string, textOf: (one: Figures) => string) =>
    [head, (i: number) => textOf(figures[i]!)] as const;
  const columns = [
    ['', (i: number) => lines[i]!.label] as const,
    of('Now', ({ now }) => format(now)),
    of('Mean', ({ mean }) => format(mean)),
    of('Highest', ({ highest }) => format(highest)),
    hasTotal && of('In all', ({ total }) => whole(total)),
  ];
  return (
    <details>
      <summary>
        In numbers<Unseen>: {title}</Unseen>
      </summary>
      <Table kind="" columns={columns} rows={[...lines.keys()]} keyOf={(i) => i} />
    </details>
  );
}
