import type { ChildProcess } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { query } from '../test/support/postgres.ts';
import { VALUES_PER_RECORD } from './bodies.ts';
import { type Standin, startStandin } from './contestants.ts';
import type { DatabaseServer } from './database.ts';
import type { Job, JobResult, Source } from './job.ts';
import type { Leftovers } from './leftovers.ts';
import { generate } from './measurements.ts';
import { makePairs, verify, writeTokens } from './prepare.ts';
import { minutes, type Progress } from './progress.ts';

/** The state of the vault at a number of rows. */
export interface Milestone {
  readonly rows: number;
  /** Figures of the fill since the previous stop. */
  readonly rowsPerS: number;
  readonly rssBytes: number;
  readonly tableBytes: number;
  readonly indexBytes: number;
}

/** The figures of a vault in one round. */
export interface Turn {
  readonly tokenize: JobResult;
  readonly detokenize: JobResult;
  /** Bytes of the server's WAL for each new row. */
  readonly walBytesPerRow: number;
}

export interface Growth {
  readonly rows: number;
  /** Length of one measurement. */
  readonly seconds: number;
  readonly milestones: readonly Milestone[];
  /** Measured in turns on one server, each turn after a checkpoint. */
  readonly rounds: readonly { readonly empty: Turn; readonly full: Turn }[];
  /** Requests without a correct 200. */
  readonly failures: number;
  /** Requests of the fill that got 500 or 503, and a retry. */
  readonly repeated: number;
  readonly verifiedTokens: number;
}

export interface GrowthPlan {
  readonly server: DatabaseServer;
  readonly rows: number;
  readonly seconds: number;
  readonly rounds: number;
}

export const FILL_CONNECTIONS = 4;
export const FILL_RECORDS = 1_000;
export const TOKENIZE_CONNECTIONS = 64;
/** 500 requests a second, far below the capacity, so that latencies contain no queueing. */
export const DETOKENIZE_INTERVAL_MS = 2;
const DETOKENIZE_CONNECTIONS = 64;
/** Size of the sample to detokenize, drawn from the whole vault. */
const KNOWN_RECORDS = 20_000;
export const MILESTONES = [100_000, 1_000_000];
const SLICE_ROWS = 500_000;
const SLICE_TIMEOUT_MS = 600_000;
const WARM_UP_RECORDS = 60_000;

/** Fills a vault through the service, and compares it with an empty vault. */
export async function measureGrowth(
  plan: GrowthPlan,
  generator: ChildProcess,
  progress: Progress,
  leftovers: Leftovers,
): Promise<Growth> {
  const folder = mkdtempSync(join(tmpdir(), 'standin-growth-'));
  leftovers.add(async () => rmSync(folder, { recursive: true, force: true }));
  const full = new Vault(await startStandin('server', plan.server, leftovers), generator, folder);
  const milestones: Milestone[] = [];
  const startedMs = performance.now();
  for (const rows of slices(plan.rows)) {
    milestones.push(await full.fillTo(rows));
    progress.note(fillText(milestones, plan.rows, performance.now() - startedMs));
  }
  await full.checkRows();
  const empty = new Vault(await startStandin('server', plan.server, leftovers), generator, folder);
  await empty.fillTo(WARM_UP_RECORDS * VALUES_PER_RECORD);
  const rounds = [];
  for (let round = 0; round <= plan.rounds; round++) {
    progress.note(`growth: ${round === 0 ? 'warm-up' : `round ${round} of ${plan.rounds}`}`);
    await empty.clear();
    const turns = { empty: await empty.turn(plan.seconds), full: await full.turn(plan.seconds) };
    if (round > 0) rounds.push(turns);
  }
  return {
    rows: plan.rows,
    seconds: plan.seconds,
    milestones,
    rounds,
    repeated: full.repeated,
    failures: full.failures + empty.failures,
    verifiedTokens: full.verifiedTokens + empty.verifiedTokens,
  };
}

/** Row counts at which the fill pauses. */
function slices(rows: number): number[] {
  const stops = [...MILESTONES];
  for (let stop = 2 * SLICE_ROWS; stop < rows; stop += SLICE_ROWS) stops.push(stop);
  return [...new Set(stops.filter((stop) => stop < rows)), rows];
}

function fillText(milestones: readonly Milestone[], rows: number, spentMs: number): string {
  const last = milestones.at(-1)!;
  const leftMs = (spentMs / last.rows) * (rows - last.rows);
  const [done, all, rate] = [last.rows, rows, last.rowsPerS].map((number) =>
    Math.round(number).toLocaleString('en-US'),
  );
  return `growth: ${done} of ${all} rows, ${rate} rows/s, ${minutes(leftMs)} left`;
}

/** A job with new values. */
type FreshJob = Pick<Job, 'connections' | 'duration_ms' | 'to' | 'isPatient'> & {
  readonly source: Extract<Source, { kind: 'fresh' }>;
};

/** A service with its own vault. */
class Vault {
  failures = 0;
  repeated = 0;
  verifiedTokens = 0;
  readonly #standin: Standin;
  readonly #generator: ChildProcess;
  readonly #folder: string;
  /** All records with a lower number are stored. */
  #records = 0;
  /** Rows of failed requests. Nobody knows whether they are stored. */
  #unsureRows = 0;

  constructor(standin: Standin, generator: ChildProcess, folder: string) {
    this.#standin = standin;
    this.#generator = generator;
    this.#folder = folder;
  }

  /** Tokenizes new records in large requests, up to this number of rows. */
  async fillTo(rows: number): Promise<Milestone> {
    const to = Math.ceil(rows / VALUES_PER_RECORD);
    const stored = this.#records;
    const result = await this.#fresh({
      source: { kind: 'fresh', records: FILL_RECORDS },
      connections: FILL_CONNECTIONS,
      duration_ms: SLICE_TIMEOUT_MS,
      to,
      isPatient: true,
    });
    this.repeated += result.repeated;
    if (this.#records < to) throw new Error(`growth: ${SLICE_TIMEOUT_MS} ms were not enough`);
    return {
      rows: this.#rows,
      rowsPerS: ((this.#records - stored) * VALUES_PER_RECORD) / result.durationS,
      rssBytes: this.#standin.rssBytes() ?? 0,
      ...(await this.#sizes()),
    };
  }

  async clear(): Promise<void> {
    await this.#query('truncate standin.records');
    this.#records = 0;
    this.#unsureRows = 0;
  }

  /** Measures after a checkpoint, the worst case: each first write of a page logs the whole page. */
  async turn(seconds: number): Promise<Turn> {
    const durationMs = seconds * 1_000;
    await this.#query('checkpoint');
    const [startBytes, startRows] = [await this.#walBytes(), this.#rows];
    const tokenize = await this.#fresh({
      source: { kind: 'fresh', records: 1 },
      connections: TOKENIZE_CONNECTIONS,
      duration_ms: durationMs,
    });
    const walBytes = (await this.#walBytes()) - startBytes;
    await this.checkRows();
    const detokenize = await this.#generate({
      operation: 'detokenize',
      source: { kind: 'pairs', file: await this.#knownTokens() },
      connections: DETOKENIZE_CONNECTIONS,
      intervalMs: DETOKENIZE_INTERVAL_MS,
      duration_ms: durationMs,
    });
    return { tokenize, detokenize, walBytesPerRow: walBytes / (this.#rows - startRows) };
  }

  /** Checks that each acknowledged value has exactly one row. */
  async checkRows(): Promise<void> {
    const [found] = await this.#query('select count(*) as rows from standin.records');
    const missing = this.#rows - Number(found!.rows);
    if (missing >= 0 && missing <= this.#unsureRows) return;
    throw new Error(`growth: ${found!.rows} rows in the vault instead of ${this.#rows}`);
  }

  get #rows(): number {
    return this.#records * VALUES_PER_RECORD;
  }

  /** Runs a job with new values. Afterwards detokenizes a sample, and compares the values. */
  async #fresh(job: FreshJob): Promise<JobResult> {
    const result = await this.#generate({ operation: 'tokenize', ...job });
    this.#records = result.next;
    for (const count of Object.values(result.failures)) {
      this.#unsureRows += count * job.source.records * VALUES_PER_RECORD;
    }
    this.verifiedTokens += await verify(this.#standin, result.samples);
    return result;
  }

  async #generate(job: Omit<Job, 'url' | 'api_key' | 'from'>): Promise<JobResult> {
    const { url, api_key: apiKey } = this.#standin;
    const result = await generate(this.#generator, {
      ...job,
      url,
      api_key: apiKey,
      from: this.#records,
    });
    for (const count of Object.values(result.failures)) this.failures += count;
    return result;
  }

  /** Gets the tokens of stored values, by tokenizing the values again. */
  async #knownTokens(): Promise<string> {
    const numbers = Array.from({ length: KNOWN_RECORDS }, () =>
      Math.floor(Math.random() * this.#records),
    );
    const file = join(this.#folder, `${this.#records}-${performance.now()}.json`);
    writeTokens(file, await makePairs(this.#standin, numbers));
    return file;
  }

  async #sizes(): Promise<{ tableBytes: number; indexBytes: number }> {
    const [sizes] = await this.#query(
      "select pg_table_size('standin.records') as table, pg_indexes_size('standin.records') as index",
    );
    return { tableBytes: Number(sizes!.table), indexBytes: Number(sizes!.index) };
  }

  async #walBytes(): Promise<number> {
    const [log] = await this.#query("select pg_current_wal_insert_lsn() - '0/0' as bytes");
    return Number(log!.bytes);
  }

  #query(text: string): Promise<Record<string, any>[]> {
    return query(this.#standin.databaseUrl!, text);
  }
}
