import { VALUES_PER_RECORD } from './bodies.ts';
import type { Job } from './job.ts';
import type { Prepared } from './prepare.ts';

export const LOADS = ['tokenize', 'detokenize', 'repeat', 'bulk', 'block'] as const;
/** Loads with their own contestants and sections. growth takes minutes, so it is optional. */
export const OTHERS = ['nodes', 'overload', 'start', 'growth'] as const;
export type LoadName = (typeof LOADS)[number];
export type OtherName = (typeof OTHERS)[number];
type SmallLoadName = 'tokenize' | 'detokenize' | 'repeat';

const BULK_RECORDS = 1_000;
const BULK_CONNECTIONS = 8;
/** The most records in one request, with three values each. */
const LARGE_RECORDS = 3_333;
const PAUSE_MS = 250;
const PROBE_INTERVAL_MS = 5;
const PROBE_CONNECTIONS = 64;
/** Share of the rate that the contestant has just reached. */
export const STEADY_SHARE = 0.7;
const STEADY_CONNECTIONS = 64;

/** One kind of requests, the same for every contestant. */
export interface Load {
  readonly name: LoadName;
  readonly title: string;
  readonly valuesPerRequest: number;
  readonly connections: number;
  /** For `block`: whether large requests run beside the small requests. */
  readonly isBeside: boolean;
  /** Whether to time the answers of GET /health/live during the load. */
  readonly isWatched: boolean;
  /** A fixed rate below the peak. Without this, the load is as fast as the answers. */
  readonly isSteady: boolean;
  /** The same load at STEADY_SHARE of the contestant's rate, directly after the full load. */
  readonly steady?: Load;
  job(
    prepared: Prepared,
  ): Pick<Job, 'operation' | 'source' | 'connections' | 'intervalMs' | 'beside'>;
}

/** The loads of a run, in order. */
export function expandLoads(names: readonly LoadName[], connections: readonly number[]): Load[] {
  return names.flatMap((name) => {
    if (name === 'bulk') return [bulk()];
    if (name === 'block') return [block(false), block(true)];
    return connections.map((count) => small(name, count));
  });
}

const PLAIN = { isBeside: false, isWatched: false, isSteady: false };

const SMALL_TITLES: Record<SmallLoadName, string> = {
  tokenize: 'Tokenize 3 new values a request',
  detokenize: 'Detokenize 3 tokens a request',
  repeat: 'Tokenize 3 values a request that are stored already',
};

export function small(name: SmallLoadName, connections: number): Load {
  const load: Load = {
    ...PLAIN,
    name,
    connections,
    title: `${SMALL_TITLES[name]}, ${connections} connections`,
    valuesPerRequest: VALUES_PER_RECORD,
    job: ({ tokensFile, repeatedFile }) => {
      if (name === 'tokenize') {
        return { operation: 'tokenize', source: { kind: 'fresh', records: 1 }, connections };
      }
      const operation = name === 'repeat' ? 'tokenize' : 'detokenize';
      const file = name === 'repeat' ? repeatedFile : tokensFile;
      return { operation, source: { kind: 'pairs', file }, connections };
    },
  };
  if (name === 'repeat' || connections !== STEADY_CONNECTIONS) return load;
  const title = `${load.title}, at ${100 * STEADY_SHARE} % of the rate just reached`;
  return { ...load, steady: { ...load, title, isSteady: true } };
}

function bulk(): Load {
  return {
    ...PLAIN,
    name: 'bulk',
    connections: BULK_CONNECTIONS,
    title: `Bulk: tokenize 1,000 new records of 3 values a request, ${BULK_CONNECTIONS} connections`,
    valuesPerRequest: BULK_RECORDS * VALUES_PER_RECORD,
    job: () => ({
      operation: 'tokenize',
      source: { kind: 'fresh', records: BULK_RECORDS },
      connections: BULK_CONNECTIONS,
    }),
  };
}

function block(isBeside: boolean): Load {
  const large = LARGE_RECORDS * VALUES_PER_RECORD;
  return {
    ...PLAIN,
    name: 'block',
    connections: PROBE_CONNECTIONS,
    title: isBeside
      ? `Small requests beside large ones of ${large.toLocaleString('en-US')} values`
      : 'Small requests alone',
    valuesPerRequest: VALUES_PER_RECORD,
    isBeside,
    isWatched: true,
    job: () => ({
      operation: 'tokenize',
      source: { kind: 'fresh', records: 1 },
      connections: PROBE_CONNECTIONS,
      intervalMs: PROBE_INTERVAL_MS,
      ...(isBeside ? { beside: { records: LARGE_RECORDS, pauseMs: PAUSE_MS } } : {}),
    }),
  };
}
