import { VALUES_PER_RECORD } from './bodies.ts';
import {
  DETOKENIZE_INTERVAL_MS,
  FILL_RECORDS,
  type Growth,
  MILESTONES,
  type Milestone,
  TOKENIZE_CONNECTIONS,
  type Turn,
} from './growth.ts';
import { NONE, table, whole } from './markdown.ts';
import { median } from './measure.ts';

/** The section about a filled vault. */
export function growthSection(growth: Growth): string {
  const { rows, rounds, milestones } = growth;
  const shown = milestones.filter(
    (one, i) => i === milestones.length - 1 || MILESTONES.some((stop) => isAt(stop, one.rows)),
  );
  return [
    `## Growth: a vault of ${whole(rows)} records`,
    table(
      ['', 'tokenize requests/s', 'p99 ms', 'WAL bytes a row', 'detokenize p99 ms'],
      [turnRow('empty', rounds, 'empty'), turnRow(whole(rows), rounds, 'full'), ratioRow(rounds)],
    ),
    table(
      ['rows', 'filled at rows/s', 'bytes a record: table', 'index', 'RSS of the service, MiB'],
      shown.map(milestoneRow),
    ),
    `Filled through the service with requests of ${whole(FILL_RECORDS)} records of 3 values. Tokenize: ${TOKENIZE_CONNECTIONS} connections. Detokenize: tokens of the whole vault, ${1_000 / DETOKENIZE_INTERVAL_MS} requests a second. The vaults take turns on one PostgreSQL, each after a checkpoint, in ${rounds.length} rounds of ${growth.seconds} s. All rows were counted, ${whole(growth.verifiedTokens)} new tokens compared; ${whole(growth.failures)} requests failed, ${whole(growth.repeated)} of the fill were sent again.`,
  ].join('\n\n');
}

/** The fill stops with the request that reaches this number. */
function isAt(stop: number, rows: number): boolean {
  return rows >= stop && rows < stop + FILL_RECORDS * VALUES_PER_RECORD;
}

type Rounds = Growth['rounds'];

/** Figures of one turn, in the order of the columns. */
const FIGURES: readonly ((turn: Turn) => number)[] = [
  ({ tokenize }) => tokenize.right / tokenize.durationS,
  ({ tokenize }) => tokenize.p99_ms,
  ({ walBytesPerRow }) => walBytesPerRow,
  ({ detokenize }) => detokenize.p99_ms,
];

function turnRow(title: string, rounds: Rounds, vault: 'empty' | 'full'): string[] {
  const cells = FIGURES.map((figure) => {
    const middle = median(rounds.map((round) => figure(round[vault])))!;
    return middle < 100 ? middle.toFixed(1) : whole(middle);
  });
  return [title, ...cells];
}

function ratioRow(rounds: Rounds): string[] {
  const cells = FIGURES.map((figure) =>
    median(rounds.map(({ empty, full }) => figure(full) / figure(empty)))!.toFixed(2),
  );
  return ['ratio', ...cells];
}

function milestoneRow(one: Milestone): string[] {
  return [
    whole(one.rows),
    whole(one.rowsPerS),
    (one.tableBytes / one.rows).toFixed(1),
    (one.indexBytes / one.rows).toFixed(1),
    one.rssBytes === 0 ? NONE : (one.rssBytes / 2 ** 20).toFixed(0),
  ];
}
