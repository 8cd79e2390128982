import { VALUES_PER_RECORD } from './bodies.ts';
import type { Job } from './job.ts';
import type { Prepared } from './prepare.ts';
import type { Figures } from './results.ts';
import type { Turn } from './turns.ts';

export const LOADS = ['tokenize', 'detokenize', 'repeat', 'batch', 'bulk'] as const;
/** Loads with their own contestants. growth takes minutes, so it runs only if it is named. */
export const OTHERS = ['nodes', 'policy', 'overload', 'start', 'growth'] as const;
export type LoadName = (typeof LOADS)[number];
export type OtherName = (typeof OTHERS)[number];
export type SmallLoadName = 'tokenize' | 'detokenize' | 'repeat';

/** Most values of a request that other products take by default: 100. */
const BATCH_RECORDS = 30;
const BULK_RECORDS = 1_000;
const LIST_CONNECTIONS = 8;
/** Share of the rate that the contestant has just reached. */
export const STEADY_SHARE = 0.7;
export const STEADY_CONNECTIONS = 64;

/** One kind of requests, the same for every contestant. */
export interface Load {
  readonly name: LoadName;
  /** The heading of the table. */
  readonly title: string;
  readonly connections: number;
  /** Whether to time the answers of GET /health/live during the load. */
  readonly isWatched: boolean;
  /** The worst case for PostgreSQL: each first write of a page logs the whole page. */
  readonly isAfterCheckpoint?: boolean;
  /** Whether the same load follows at STEADY_SHARE of the rate, with its latencies. */
  readonly isSteady: boolean;
  job(prepared: Prepared): Pick<Job, 'operation' | 'source'>;
  /** The columns of the table. */
  figures(turn: Turn): Figures;
}

/** The loads of a run, in order. */
export function expandLoads(names: readonly LoadName[], connections: readonly number[]): Load[] {
  return names.flatMap((name) => {
    if (name === 'batch') return [list('batch', BATCH_RECORDS)];
    if (name === 'bulk') return [list('bulk', BULK_RECORDS)];
    return connections.map((count) => small(name, count));
  });
}

/** The column of the aim in CPU. */
export const CPU = 'CPU of the service, µs a request';
/** The column of the longest answer of GET /health/live. */
export const LONGEST = 'longest /health/live ms';

const SMALL_TITLES: Record<SmallLoadName, string> = {
  tokenize: 'Tokenize 3 new values a request',
  detokenize: 'Detokenize 3 tokens a request',
  repeat: 'Tokenize 3 values a request that are stored already',
};

export function small(name: SmallLoadName, connections: number): Load {
  return {
    name,
    connections,
    title: `${SMALL_TITLES[name]}, ${connections} connections`,
    isWatched: false,
    isSteady: name !== 'repeat' && connections === STEADY_CONNECTIONS,
    job: ({ tokensFile, repeatedFile }) => {
      if (name === 'tokenize') {
        return { operation: 'tokenize', source: { kind: 'fresh', records: 1 } };
      }
      return name === 'repeat'
        ? { operation: 'tokenize', source: { kind: 'pairs', file: repeatedFile } }
        : { operation: 'detokenize', source: { kind: 'pairs', file: tokensFile } };
    },
    figures: (turn) => costs('request', turn, 1),
  };
}

function list(name: 'batch' | 'bulk', records: number): Load {
  const title = `tokenize ${records.toLocaleString('en-US')} new records of 3 values a request`;
  return {
    name,
    connections: LIST_CONNECTIONS,
    title: `${name === 'batch' ? 'Batch' : 'Bulk'}: ${title}, ${LIST_CONNECTIONS} connections`,
    isWatched: name === 'bulk',
    isSteady: false,
    job: () => ({ operation: 'tokenize', source: { kind: 'fresh', records } }),
    figures: (turn) => ({
      ...costs('value', turn, records * VALUES_PER_RECORD),
      [LONGEST]: turn.heldUpMs,
    }),
  };
}

/** @param unit what counts, and how many of it a request has */
function costs(unit: 'request' | 'value', turn: Turn, count: number): Figures {
  const { rate, result, serviceCpuS, databaseCpuS, walBytes } = turn;
  const each = (total: number) => total / (result.right.count * count);
  return {
    [`${unit}s/s`]: rate * count,
    'p99 ms': result.right.p99Ms,
    [unit === 'request' ? CPU : 'CPU of the service, µs a value']: each(1e6 * serviceCpuS),
    'CPU of the database': each(1e6 * databaseCpuS),
    [`WAL bytes a ${unit}`]: each(walBytes),
  };
}
