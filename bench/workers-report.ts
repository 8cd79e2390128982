import { cpu, latency, ratio, spread } from './cells.ts';
import { middle, rateRatio } from './figures.ts';
import { NONE, table } from './markdown.ts';
import { type Crew, type CrewRounds, LOAD } from './workers.ts';

const HEADINGS = [
  '',
  'requests/s (min–max)',
  'of as many echoes',
  'times one process',
  'p50 ms',
  'p99 ms',
  'CPU s per 1,000 requests: service',
  'database',
  'generator',
  'generator busy',
];

export function workersSection(all: readonly CrewRounds[]): string {
  const rows = all.map((one) => row(one, all));
  return [
    `## Workers: ${LOAD.title.toLowerCase()}, on PostgreSQL`,
    table(HEADINGS, rows),
    'An echo of several processes hands connections out as Standin does, with node:cluster. The load generator is one process on the same processors: where it is busy nearly all the time (1.0), it is what is measured. The rate limit never refuses: with several workers it costs a message to the primary process and back.',
    limitText(all),
  ].join('\n\n');
}

function row({ crew, rounds }: CrewRounds, all: readonly CrewRounds[]): string[] {
  const echo = find(all, { kind: 'echo', processes: crew.processes, is_limited: false });
  const one = find(all, { ...crew, processes: 1 });
  return [
    crew.title,
    spread(rounds.map(({ rate }) => rate)),
    ratio(rateRatio(rounds, echo)),
    ratio(rateRatio(rounds, one)),
    latency(rounds.map(({ result }) => result.p50_ms)),
    latency(rounds.map(({ result }) => result.p99_ms)),
    cpu(rounds, ({ service_cpu_s }) => service_cpu_s, 1_000),
    cpu(rounds, ({ database_cpu_s }) => database_cpu_s, 1_000),
    cpu(rounds, ({ result }) => result.cpu_s, 1_000),
    middle(rounds, ({ result }) => result.cpu_s / result.duration_s)?.toFixed(2) ?? NONE,
  ];
}

/** What the limit leaves of the rate, in one process and in two. */
function limitText(all: readonly CrewRounds[]): string {
  const left = (processes: number) => {
    const [on, off] = [true, false].map((is_limited) =>
      find(all, { kind: 'standin', processes, is_limited }),
    );
    return rateRatio(on!, off!)?.toFixed(2) ?? NONE;
  };
  return `With the rate limit on, one process does ${left(1)} of what it does without, two do ${left(2)}.`;
}

function find(all: readonly CrewRounds[], wanted: Omit<Crew, 'title'>): CrewRounds['rounds'] {
  const found = all.find(
    ({ crew }) =>
      crew.kind === wanted.kind &&
      crew.processes === wanted.processes &&
      crew.is_limited === wanted.is_limited,
  );
  return found?.rounds ?? [];
}
