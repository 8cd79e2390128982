import type { Latency, OperationSample, Sample } from '#console';
import type { BatchTotals, OperationTotals, Totals } from './totals.ts';

/**
 * The rates between two readings of the totals.
 * @param atMs Unix time of the later reading
 * @param intervalS time between the readings, above 0
 */
export function sampleBetween(
  before: Totals,
  after: Totals,
  atMs: number,
  intervalS: number,
): Sample {
  const rate = (earlier: number, later: number) => rounded(rise(earlier, later) / intervalS);
  const limited = (limit: keyof Totals['limited']) =>
    rate(before.limited[limit], after.limited[limit]);
  return {
    atMs,
    tokenize: operationBetween(before.tokenize, after.tokenize, rate),
    detokenize: operationBetween(before.detokenize, after.detokenize, rate),
    limited: {
      requests: limited('requests'),
      detokenize: limited('detokenize'),
      unknown_tokens: limited('unknown_tokens'),
    },
    shed: rate(before.shed, after.shed),
    batch: {
      insert: sizeBetween(before.insert, after.insert),
      find: sizeBetween(before.find, after.find),
    },
  };
}

/** The rise of a counter. A counter that fell was reset to 0 in between. */
export function rise(before: number, after: number): number {
  return after < before ? after : after - before;
}

export function rounded(number: number): number {
  return Math.round(number * 1000) / 1000;
}

function operationBetween(
  before: OperationTotals,
  after: OperationTotals,
  rate: (earlier: number, later: number) => number,
): OperationSample {
  const requests = [...after.buckets].map(
    ([boundS, count]) => [boundS, rise(before.buckets.get(boundS) ?? 0, count)] as const,
  );
  return {
    succeeded: rate(before.succeeded, after.succeeded),
    refused: rate(before.refused, after.refused),
    failed: rate(before.failed, after.failed),
    values: rate(before.values, after.values),
    latency: latencyOf(requests.toSorted(([a], [b]) => a - b)),
  };
}

function sizeBetween(before: BatchTotals, after: BatchTotals): number | null {
  const statements = rise(before.statements, after.statements);
  return statements === 0 ? null : rounded(rise(before.records, after.records) / statements);
}

/** @param buckets cumulative: [bound in seconds, requests up to it], by rising bound */
export function latencyOf(buckets: readonly (readonly [number, number])[]): Latency | null {
  const requests = buckets.at(-1)?.[1] ?? 0;
  if (requests === 0) return null;
  const quantile = (share: number) => rounded(1000 * quantileOf(buckets, share * requests));
  return { p50_ms: quantile(0.5), p95_ms: quantile(0.95), p99_ms: quantile(0.99) };
}

/** Interpolates within a bucket as histogram_quantile of Prometheus does, up to the last bound. */
function quantileOf(buckets: readonly (readonly [number, number])[], rank: number): number {
  let lowerS = 0;
  let below = 0;
  for (const [boundS, count] of buckets) {
    if (boundS === Infinity) break;
    if (count >= rank) return lowerS + (boundS - lowerS) * ((rank - below) / (count - below));
    lowerS = boundS;
    below = count;
  }
  return lowerS;
}
