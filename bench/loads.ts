import { VALUES_PER_RECORD } from './bodies.ts';
import type { Job } from './load.ts';
import { MOST_RECORDS, type Prepared } from './prepare.ts';
import type { Figures } from './results.ts';
import type { Turn } from './turns.ts';

export const LOADS = ['tokenize', 'detokenize', 'repeat', 'bulk'] as const;
/** Loads with their own contestants. growth takes minutes, so it runs only if it is named. */
export const OTHERS = ['policy', 'start', 'growth'] as const;
export type LoadName = (typeof LOADS)[number];
export type OtherName = (typeof OTHERS)[number];
export type SmallLoadName = 'tokenize' | 'detokenize' | 'repeat';

const BULK_CONNECTIONS = 8;
/** Loads of small requests have so many connections. */
export const CONNECTIONS = [64, 256] as const;
export const STEADY_CONNECTIONS = 64;

/** One kind of requests, the same for every contestant. */
export interface Load {
  readonly name: LoadName;
  /** The heading of the table. */
  readonly title: string;
  readonly connections: number;
  /** Whether to time the answers of GET /health/live during the load. */
  readonly isWatched: boolean;
  /** Whether the same load follows at one rate for all, with its latencies. */
  readonly isSteady: boolean;
  job(prepared: Prepared): Pick<Job, 'operation' | 'source'>;
  /** The columns of the table. */
  figures(turn: Turn): Figures;
}

/** The loads of a run, in order. */
export function expandLoads(names: readonly LoadName[]): Load[] {
  return names.flatMap((name) =>
    name === 'bulk' ? [BULK] : CONNECTIONS.map((count) => small(name, count)),
  );
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
        ? { operation: 'tokenize', source: { kind: 'file', file: repeatedFile } }
        : { operation: 'detokenize', source: { kind: 'file', file: tokensFile } };
    },
    figures: (turn) => costs('request', turn, 1),
  };
}

export const BULK: Load = {
  name: 'bulk',
  connections: BULK_CONNECTIONS,
  title: `Bulk: tokenize ${MOST_RECORDS.toLocaleString('en-US')} new records of 3 values a request, ${BULK_CONNECTIONS} connections`,
  isWatched: true,
  isSteady: false,
  job: () => ({ operation: 'tokenize', source: { kind: 'fresh', records: MOST_RECORDS } }),
  figures: (turn) => ({
    ...costs('value', turn, MOST_RECORDS * VALUES_PER_RECORD),
    [LONGEST]: turn.heldUpMs,
  }),
};

/** @param unit what counts, and how many of it a request has */
function costs(unit: 'request' | 'value', turn: Turn, count: number): Figures {
  const { rate, result, serviceCpuS, databaseCpuS, walBytes } = turn;
  const each = (total: number) => total / (result.count * count);
  return {
    [`${unit}s/s`]: rate * count,
    'p99 ms': result.p99Ms,
    [unit === 'request' ? CPU : 'CPU of the service, µs a value']: each(1e6 * serviceCpuS),
    'CPU of the database': each(1e6 * databaseCpuS),
    [`WAL bytes a ${unit}`]: each(walBytes),
  };
}
