import type { Snapshot } from '../../observe/metrics.ts';

/** Sums of counters since the start of the service by names such as `tokenize.refused`. */
export type Counters = ReadonlyMap<string, number>;

type Labels = Readonly<Record<string, string | number>>;
interface Series {
  readonly value: number;
  readonly labels: Labels;
  readonly metricName?: string;
}

/** The name of the sum that a series belongs to; undefined: the console does not show it. */
const NAMES: Readonly<Record<string, (labels: Labels, part: string) => string | undefined>> = {
  standin_requests_total: ({ route, status }) => named(route, outcomeOf(Number(status))),
  standin_request_duration_seconds: ({ route, le }, part) =>
    part === '_bucket' ? named(route, `le.${le}`) : undefined,
  standin_values_total: ({ operation }) => `${operation}.values`,
  /** `insert_sum`, and `insert_count`. */
  standin_batch_records: ({ statement }, part) => `${statement}${part}`,
  /** The console shows no look-ups. */
  standin_rate_limit_rejections_total: ({ limit }) => (limit === 'lookup' ? undefined : 'limited'),
  standin_requests_shed_total: () => 'shed',
  standin_client_requests_total: ({ client_id: id }) => `client.${id}`,
  standin_client_strings_total: ({ client_id: id, outcome }) => `${outcome}.${id}`,
  standin_rate_limit_shared: () => 'areLimitsShared',
  standin_postgres_safe: () => 'isDatabaseSafe',
};

function named(route: string | number | undefined, what: string): string | undefined {
  const [, operation] = /^\/api\/v1\/(?:text\/)?((?:de)?tokenize)$/.exec(String(route)) ?? [];
  return operation && `${operation}.${what}`;
}

/** A 503 is a refusal, too: overloaded. */
function outcomeOf(status: number): string {
  if (status >= 500 && status !== 503) return 'failed';
  return status >= 400 ? 'refused' : 'succeeded';
}

export function countersOf(metrics: Snapshot): Counters {
  const sums = new Map<string, number>();
  for (const { name, values } of metrics) {
    // The types of prom-client lack `metricName` and the labels of histograms.
    for (const { labels, value, metricName = name } of values as Series[]) {
      const sum = NAMES[name]?.(labels, metricName.slice(name.length));
      if (sum !== undefined) sums.set(sum, (sums.get(sum) ?? 0) + value);
    }
  }
  return sums;
}
