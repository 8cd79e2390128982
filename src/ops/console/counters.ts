import type { Snapshot } from '../../metrics.ts';

/** Counters since the start of the service. */
export interface Counters {
  readonly tokenize: OperationCounters;
  readonly detokenize: OperationCounters;
  limited: number;
  shed: number;
  readonly insert: BatchCounters;
  readonly find: BatchCounters;
  readonly clients: Map<string, number>;
  /** By client: only of those with requests under a policy with fields. */
  readonly strings: Map<string, { replaced: number; passed: number }>;
  /** null: REDIS_URL is not set. */
  areLimitsShared: boolean | null;
  /** null: not checked yet. */
  isDatabaseSafe: boolean | null;
}

export interface OperationCounters {
  succeeded: number;
  refused: number;
  failed: number;
  values: number;
  /** Requests by upper bound of their time in seconds, cumulative. The last bound is Infinity. */
  readonly buckets: Map<number, number>;
}

export interface BatchCounters {
  records: number;
  statements: number;
}

type Labels = Readonly<Record<string, string | number>>;
interface Series {
  readonly value: number;
  readonly labels: Labels;
  readonly metricName?: string;
}

const ROUTES: Readonly<Record<string, 'tokenize' | 'detokenize'>> = {
  '/api/v1/tokenize': 'tokenize',
  '/api/v1/detokenize': 'detokenize',
  '/api/v1/text/tokenize': 'tokenize',
  '/api/v1/text/detokenize': 'detokenize',
};

export function countersOf(metrics: Snapshot): Counters {
  const counters: Counters = {
    tokenize: noRequests(),
    detokenize: noRequests(),
    limited: 0,
    shed: 0,
    insert: { records: 0, statements: 0 },
    find: { records: 0, statements: 0 },
    clients: new Map(),
    strings: new Map(),
    areLimitsShared: null,
    isDatabaseSafe: null,
  };
  for (const { name, values } of metrics) {
    const add = ADD[name];
    // The types of prom-client lack `metricName` and the labels of histograms.
    if (add !== undefined) for (const series of values as Series[]) add(counters, series);
  }
  return counters;
}

const ADD: Readonly<Record<string, (counters: Counters, series: Series) => void>> = {
  standin_requests_total(counters, { labels, value }) {
    const operation = operationOf(counters, labels);
    if (operation === undefined) return;
    const status = Number(labels.status);
    // A 503 is a refusal, too: overloaded.
    const isFailed = status >= 500 && status !== 503;
    operation[isFailed ? 'failed' : status >= 400 ? 'refused' : 'succeeded'] += value;
  },
  standin_request_duration_seconds(counters, { labels, value, metricName }) {
    const buckets = operationOf(counters, labels)?.buckets;
    if (buckets === undefined || !metricName?.endsWith('_bucket')) return;
    const boundS = labels.le === '+Inf' ? Infinity : Number(labels.le);
    buckets.set(boundS, (buckets.get(boundS) ?? 0) + value);
  },
  standin_values_total(counters, { labels, value }) {
    const { operation } = labels;
    // The console shows no look-ups.
    if (operation === 'tokenize' || operation === 'detokenize') counters[operation].values += value;
  },
  standin_batch_records(counters, { labels, value, metricName }) {
    const batch = counters[labels.statement as 'insert' | 'find'];
    if (metricName?.endsWith('_sum')) batch.records += value;
    if (metricName?.endsWith('_count')) batch.statements += value;
  },
  standin_rate_limit_rejections_total(counters, { labels, value }) {
    // The console shows no look-ups.
    if (labels.limit !== 'lookup') counters.limited += value;
  },
  standin_requests_shed_total(counters, { value }) {
    counters.shed += value;
  },
  standin_client_requests_total({ clients }, { labels, value }) {
    const clientId = String(labels.client_id);
    clients.set(clientId, (clients.get(clientId) ?? 0) + value);
  },
  standin_client_strings_total({ strings }, { labels, value }) {
    const clientId = String(labels.client_id);
    const ofClient = strings.get(clientId) ?? { replaced: 0, passed: 0 };
    ofClient[labels.outcome as keyof typeof ofClient] += value;
    strings.set(clientId, ofClient);
  },
  standin_rate_limit_shared(counters, { value }) {
    counters.areLimitsShared = value === 1;
  },
  standin_postgres_safe(counters, { value }) {
    counters.isDatabaseSafe = value === 1;
  },
};

function operationOf(counters: Counters, { route }: Labels): OperationCounters | undefined {
  const operation = ROUTES[String(route)];
  return operation && counters[operation];
}

function noRequests(): OperationCounters {
  return { succeeded: 0, refused: 0, failed: 0, values: 0, buckets: new Map() };
}
