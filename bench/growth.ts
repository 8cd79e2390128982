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

/** How the vault was when it had so many rows. */
export interface Milestone {
  readonly rows: number;
  /** Of the fill since the one before. */
  readonly rowsPerS: number;
  readonly rssBytes: number;
  readonly tableBytes: number;
  readonly indexBytes: number;
}

/** What a vault could do in one round. */
export interface Turn {
  readonly tokenize: JobResult;
  readonly detokenize: JobResult;
  /** Write-ahead log of the server for each new row. */
  readonly walBytesPerRow: number;
}

export interface Growth {
  readonly rows: number;
  /** Of one measurement. */
  readonly seconds: number;
  readonly milestones: readonly Milestone[];
  /** In turns on one server, each after a checkpoint. */
  readonly rounds: readonly { readonly empty: Turn; readonly full: Turn }[];
  /** Requests that were not answered with 200 and what they should be. */
  readonly failures: number;
  /** Requests of the fill that were answered with 500 or 503 and sent again. */
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
/** 500 requests a second: far below what the service can do, so that latency is not that of a queue. */
export const DETOKENIZE_INTERVAL_MS = 2;
const DETOKENIZE_CONNECTIONS = 64;
/** Records whose tokens are detokenized, drawn from the whole vault. */
const KNOWN_RECORDS = 20_000;
export const MILESTONES = [100_000, 1_000_000];
const SLICE_ROWS = 500_000;
const SLICE_TIMEOUT_MS = 600_000;
const WARM_UP_RECORDS = 60_000;

/** Fills a vault through the service, and compares it with an empty one. */
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

/** Row counts to stop at on the way. */
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

/** A job of new values. */
type FreshJob = Pick<Job, 'connections' | 'duration_ms' | 'to' | 'isPatient'> & {
  readonly source: Extract<Source, { kind: 'fresh' }>;
};

/** A service with a vault of its own. */
class Vault {
  failures = 0;
  repeated = 0;
  verifiedTokens = 0;
  readonly #standin: Standin;
  readonly #generator: ChildProcess;
  readonly #folder: string;
  /** Records of three values that are stored: the numbers below it. */
  #records = 0;
  /** Of these, rows of requests that failed: whether they were stored is not known. */
  #unsureRows = 0;

  constructor(standin: Standin, generator: ChildProcess, folder: string) {
    this.#standin = standin;
    this.#generator = generator;
    this.#folder = folder;
  }

  /** Tokenizes new records until there are so many rows, in the bulk way. */
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

  /** The worst moment for it: every page that is written for the first time goes to the log whole. */
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

  /** Every value of an answer with 200 has one row: nothing was lost, nothing is there twice. */
  async checkRows(): Promise<void> {
    const [found] = await this.#query('select count(*) as rows from standin.records');
    const missing = this.#rows - Number(found!.rows);
    if (missing >= 0 && missing <= this.#unsureRows) return;
    throw new Error(`growth: ${found!.rows} rows in the vault instead of ${this.#rows}`);
  }

  get #rows(): number {
    return this.#records * VALUES_PER_RECORD;
  }

  /** A job of new values, whose sampled tokens are detokenized and compared after it. */
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

  /** Tokenizes stored values again, which gives their tokens. */
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
