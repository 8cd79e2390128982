import { VALUES_PER_RECORD } from './bodies.ts';
import type { Job } from './job.ts';
import type { Prepared } from './prepare.ts';

export const LOADS = ['tokenize', 'detokenize', 'repeat', 'bulk', 'block'] as const;
/** Not among the others: it runs on demand only, takes minutes, and has its own section. */
export const GROWTH = 'growth';
export type LoadName = (typeof LOADS)[number];

const BULK_RECORDS = 1_000;
const BULK_CONNECTIONS = 8;
/** With three values a record, the most that one request may have. */
const LARGE_RECORDS = 3_333;
const PAUSE_MS = 250;
const PROBE_INTERVAL_MS = 5;
const PROBE_CONNECTIONS = 64;

/** One kind of requests, as every contestant gets it. */
export interface Load {
  readonly name: LoadName;
  readonly title: string;
  readonly values_per_request: number;
  /** Of `block`: with the large requests, or the same without. */
  readonly is_beside: boolean;
  job(
    prepared: Prepared,
  ): Pick<Job, 'operation' | 'source' | 'connections' | 'interval_ms' | 'beside'>;
}

/** The loads of a run, in their order. */
export function expandLoads(names: readonly LoadName[], connections: readonly number[]): Load[] {
  return names.flatMap((name) => {
    if (name === 'bulk') return [bulk()];
    if (name === 'block') return [block(false), block(true)];
    return connections.map((count) => small(name, count));
  });
}

const SMALL_TITLES = {
  tokenize: 'Tokenize 3 new values a request',
  detokenize: 'Detokenize 3 tokens a request',
  repeat: 'Tokenize 3 values a request that are stored already',
};

function small(name: keyof typeof SMALL_TITLES, connections: number): Load {
  return {
    name,
    title: `${SMALL_TITLES[name]}, ${connections} connections`,
    values_per_request: VALUES_PER_RECORD,
    is_beside: false,
    job: ({ tokens_file, repeated_file }) => {
      if (name === 'tokenize') {
        return { operation: 'tokenize', source: { kind: 'fresh', records: 1 }, connections };
      }
      const operation = name === 'repeat' ? 'tokenize' : 'detokenize';
      const file = name === 'repeat' ? repeated_file : tokens_file;
      return { operation, source: { kind: 'pairs', file }, connections };
    },
  };
}

function bulk(): Load {
  return {
    name: 'bulk',
    title: `Bulk: tokenize 1,000 new records of 3 values a request, ${BULK_CONNECTIONS} connections`,
    values_per_request: BULK_RECORDS * VALUES_PER_RECORD,
    is_beside: false,
    job: () => ({
      operation: 'tokenize',
      source: { kind: 'fresh', records: BULK_RECORDS },
      connections: BULK_CONNECTIONS,
    }),
  };
}

function block(is_beside: boolean): Load {
  const large = LARGE_RECORDS * VALUES_PER_RECORD;
  return {
    name: 'block',
    title: is_beside
      ? `Small requests beside large ones of ${large.toLocaleString('en-US')} values`
      : 'Small requests alone',
    values_per_request: VALUES_PER_RECORD,
    is_beside,
    job: () => ({
      operation: 'tokenize',
      source: { kind: 'fresh', records: 1 },
      connections: PROBE_CONNECTIONS,
      interval_ms: PROBE_INTERVAL_MS,
      ...(is_beside ? { beside: { records: LARGE_RECORDS, pause_ms: PAUSE_MS } } : {}),
    }),
  };
}
