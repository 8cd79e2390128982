import { query } from '../test/support/postgres.ts';
import { type Bench, type Contestant, type Prepared, TITLES } from './contestants.ts';
import { VALUES_PER_RECORD } from './interfaces.ts';
import { GROWTH_LOADS, type Load, MOST_RECORDS } from './loads.ts';
import { prepare } from './prepare.ts';
import { rssMib } from './processes.ts';
import { type Figures, whole } from './results.ts';
import { compete, measure } from './turns.ts';

const FILL: Load = { name: 'tokenize', title: 'filling', connections: 4, records: MOST_RECORDS };
const FILL_TIMEOUT_S = 7_200;
const MILESTONES = [100_000, 1_000_000];

/** The cell that the summary needs. */
export const SIZES = 'Growth: rows and their bytes';
export const MORE_RSS = 'MiB more of the service';

/** The row of a filled vault. */
export function filledTitle(title: string, rows: number): string {
  return `${title}, ${whole(rows)} rows`;
}

/** A small vault and a filled one take turns. */
export async function grow(bench: Bench): Promise<void> {
  const small = { name: 'postgres', title: TITLES.postgres, isWide: false } as const;
  const filled = { ...small, title: filledTitle(small.title, bench.flags.rows) };
  await compete(bench, [small, filled], GROWTH_LOADS, (contestant) =>
    contestant.title === filled.title ? fill(bench, contestant) : prepare(contestant),
  );
}

/** Fills a vault through the service. The prepared requests are of the whole vault. */
async function fill(bench: Bench, contestant: Contestant): Promise<Prepared> {
  const { rows } = bench.flags;
  const first = bench.nextRecord;
  let leastMib: number | undefined;
  for (const stop of [...MILESTONES.filter((one) => one < rows), rows]) {
    const to = first + Math.ceil(stop / VALUES_PER_RECORD);
    const { rate } = await measure(bench, contestant, FILL, FILL_TIMEOUT_S, { to });
    const nowMib = await rssMib(contestant.pid);
    leastMib ??= nowMib;
    bench.results.add(SIZES, filledTitle(TITLES.postgres, stop), 1, {
      'filled at rows/s': rate * MOST_RECORDS * VALUES_PER_RECORD,
      ...(await sizes(contestant.databaseUrl!, (bench.nextRecord - first) * VALUES_PER_RECORD)),
      [MORE_RSS]: nowMib - leastMib,
    });
  }
  const all = bench.nextRecord - first;
  return prepare(contestant, () => first + Math.floor(Math.random() * all));
}

/** @throws Error unless each value has exactly one row */
async function sizes(databaseUrl: string, rows: number): Promise<Figures> {
  const table = 'standin.records';
  const sql = `select count(*) as rows, pg_table_size('${table}') as table, pg_indexes_size('${table}') as indexes from ${table}`;
  const [found] = await query(databaseUrl, sql);
  if (Number(found!.rows) !== rows) throw new Error(`${found!.rows} rows instead of ${rows}`);
  const [own, indexes] = [found!.table / rows, found!.indexes / rows];
  return { 'bytes a row': own, 'of its index': indexes, 'of both': own + indexes };
}
