import { query } from '../test/support/postgres.ts';
import { VALUES_PER_RECORD } from './bodies.ts';
import { type Contestant, TITLES } from './contestants.ts';
import { type Load, type SmallLoadName, STEADY_CONNECTIONS, small } from './loads.ts';
import { whole } from './numbers.ts';
import { MOST_RECORDS, type Prepared, prepare } from './prepare.ts';
import type { Figures } from './results.ts';
import { type Bench, measure } from './turns.ts';

const FILL = { title: 'filling', connections: 4, isWatched: false };
const FILL_TIMEOUT_S = 7_200;
export const MILESTONES = [100_000, 1_000_000] as const;

/** The cells that the summary needs. */
export const SIZES_TITLE = 'Growth: rows and their bytes';
export const RSS = 'RSS of the service, MiB';
export const RECORD_BYTES = 'bytes a row, with indexes';

/** The loads of small and filled vaults, which take turns. */
export const GROWTH_LOADS = (['tokenize', 'repeat', 'detokenize'] as const).map(growthLoad);

export function growthLoad(name: SmallLoadName): Load {
  const load = small(name, STEADY_CONNECTIONS);
  return { ...load, title: `Growth: ${load.title}`, isSteady: false };
}

/** The row of a filled vault. */
export function filledTitle(title: string, rows: number): string {
  return `${title}, ${whole(rows)} rows`;
}

/** Fills a vault through the service. The files for the generator are of the whole vault. */
export async function fill(
  bench: Bench,
  contestant: Contestant,
  rows: number,
  folder: string,
): Promise<Prepared> {
  const first = bench.nextRecord;
  for (const stop of [...MILESTONES.filter((one) => one < rows), rows]) {
    const { rate } = await measure(bench, contestant, FILL, FILL_TIMEOUT_S, {
      operation: 'tokenize',
      source: { kind: 'fresh', records: MOST_RECORDS },
      to: first + Math.ceil(stop / VALUES_PER_RECORD),
    });
    const stored = (bench.nextRecord - first) * VALUES_PER_RECORD;
    const row = filledTitle(TITLES[contestant.name], stop);
    bench.results.add(SIZES_TITLE, row, 1, {
      'filled at rows/s': rate * MOST_RECORDS * VALUES_PER_RECORD,
      ...(await sizes(contestant, stored)),
    });
  }
  const all = bench.nextRecord - first;
  return prepare(contestant, folder, () => first + Math.floor(Math.random() * all));
}

/** @throws Error unless each value has exactly one row */
async function sizes({ vault, rssMib }: Contestant, rows: number): Promise<Figures> {
  const { databaseUrl, table } = vault!;
  const [found] = await query(
    databaseUrl,
    `select count(*) as rows, pg_table_size('${table}') as table, pg_indexes_size('${table}') as indexes from ${table}`,
  );
  if (Number(found!.rows) !== rows) {
    throw new Error(`growth: ${found!.rows} rows in ${table} instead of ${rows}`);
  }
  const [tableBytes, indexBytes] = [Number(found!.table), Number(found!.indexes)];
  return {
    'bytes a row: table': tableBytes / rows,
    'its indexes': indexBytes / rows,
    [RECORD_BYTES]: (tableBytes + indexBytes) / rows,
    [RSS]: rssMib(),
  };
}
