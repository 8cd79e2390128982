import { describe, expect, onTestFinished, test, vi } from 'vitest';
import { HISTORY_MS, SAMPLE_INTERVAL_MS } from '#console';
import { createMetrics } from '../../src/observe/metrics.ts';
import { countersOf } from '../../src/ops/console/counters.ts';
import { sharesOf } from '../../src/ops/console/current-state.ts';
import { latencyOf, Sampler, sampleBetween } from '../../src/ops/console/sampler.ts';

test.each([
  ['interpolated in a bucket', '.001:25 .002:50 .003:75 .004:100 Infinity:100', [2, 3.8, 3.96]],
  ['never beyond the last bound', '.001:0 5:0 Infinity:7', [5_000, 5_000, 5_000]],
  ['in the first bucket from 0', '.001:1 Infinity:1', [0.5, 0.95, 0.99]],
  ['not there without buckets', '', null],
  ['not there without requests', '1:0 Infinity:0', null],
])('quantiles are %s', (_, buckets, expected) => {
  const pairs = buckets
    .split(' ')
    .filter(Boolean)
    .map((one) => one.split(':').map(Number));
  const latency = latencyOf(pairs as [number, number][]);
  expect(latency && [latency.p50_ms, latency.p95_ms, latency.p99_ms]).toEqual(expected);
});

describe('a sample', () => {
  async function countedBy(count: (metrics: ReturnType<typeof createMetrics>) => void) {
    const metrics = createMetrics();
    count(metrics);
    return metrics.sampled();
  }

  test('is what was counted in between, by status, a second', async () => {
    const after = countersOf(
      await countedBy((metrics) => {
        for (const status of [200, 200, 400, 429, 500, 503])
          metrics.request('/api/v1/tokenize', status, 2);
        metrics.request('/health', 503, 1);
        metrics.shed('/api/v1/detokenize', 3);
        metrics.values('tokenize', 20);
        metrics.values('lookup', 7);
        metrics.rejection('unknown_tokens');
        metrics.rejection('lookup');
        metrics.batch('insert', 30);
        metrics.batch('insert', 10);
        metrics.observe({ standin_rate_limit_shared: () => true });
        metrics.observeClients(() => new Map([['a', { requests: 4, replaced: 2, passed: 1 }]]));
      }),
    );
    const before = countersOf(await countedBy(() => {}));
    expect(after.get('client.a')).toBe(4);
    expect([after.get('replaced.a'), after.get('passed.a')]).toEqual([2, 1]);
    expect([before.get('areLimitsShared'), after.get('areLimitsShared')]).toEqual([undefined, 1]);
    const none = { succeeded: 0, refused: 0, failed: 0, values: 0, latency: null };
    expect(sampleBetween(before, after, 1_000, 2)).toEqual({
      atMs: 1_000,
      tokenize: {
        ...{ succeeded: 1, refused: 1.5, failed: 0.5, values: 10 },
        latency: { p50_ms: expect.closeTo(2), p95_ms: expect.closeTo(2.45), p99_ms: 2.49 },
      },
      detokenize: { ...none, refused: 1.5 },
      limited: 0.5,
      shed: 1.5,
      batch: { insert: 20, find: null },
    });
    expect(sampleBetween(after, after, 2_000, 2)).toMatchObject({ tokenize: none, shed: 0 });
  });

  test('has values of every kind and space, by name only for the first thousand', async () => {
    const metrics = createMetrics();
    metrics.values('tokenize', 3, '', new Map(Object.entries({ card: 2, text: 1 })));
    for (let tenant = 0; tenant < 1_100; tenant++)
      metrics.values('tokenize', 1, `tenant${tenant}`, new Map([['card', 1]]));
    metrics.values('detokenize', 5, 'tenant7', new Map([['card', 5]]));
    const counters = countersOf(await metrics.sampled());
    expect([counters.get('tokenize.values'), counters.get('detokenize.values')]).toEqual([
      ...[1_103, 5],
    ]);
    const lines = (await metrics.text()).split('\n').filter((one) => one.includes('values_total{'));
    expect(lines).toHaveLength(1_002);
    expect(lines).toEqual(
      expect.arrayContaining([
        'standin_values_total{operation="tokenize",kind="card"} 2',
        'standin_values_total{operation="tokenize",space="tenant997",kind="card"} 1',
        'standin_values_total{operation="tokenize",space="_other",kind="_other"} 102',
        'standin_values_total{operation="detokenize",space="tenant7",kind="card"} 5',
      ]),
    );
  });
});

test.each([true, false, undefined])(
  'the sampler says whether limits are shared and the database is safe: %s',
  async (is) => {
    const metrics = createMetrics();
    const read = () => is!;
    if (is !== undefined)
      metrics.observe({ standin_rate_limit_shared: read, standin_postgres_safe: read });
    const sampler = new Sampler(() => metrics.sampled());
    sampler.start();
    onTestFinished(() => sampler.stop());
    const said = () => [sampler.is('areLimitsShared'), sampler.is('isDatabaseSafe')];
    await vi.waitFor(() => expect(said()).toEqual([is ?? null, is ?? null]));
  },
);

test('the sampler reads again after a reading that failed, and keeps the rates of 15 minutes', async () => {
  vi.useFakeTimers();
  onTestFinished(() => void vi.useRealTimers());
  const counts = [0, 10, undefined, 30, 4, 4];
  const sampler = new Sampler(async () => {
    const requests = counts.length > 1 ? counts.shift() : counts[0];
    if (requests === undefined) throw new Error('busy');
    const metrics = createMetrics();
    const ofClient = { requests, replaced: 0, passed: 0 };
    metrics.observeClients(() => new Map([['a', ofClient]]));
    return metrics.sampled();
  });
  let told = 0;
  onTestFinished(sampler.subscribe(() => told++));
  sampler.start();
  for (let i = 0; i < 5; i++) await vi.advanceTimersByTimeAsync(SAMPLE_INTERVAL_MS);
  const rates = () => sampler.ratesOf('a').map(({ requestsPerS }) => requestsPerS);
  // The failed reading is part of the next one. A counter that fell began again.
  expect([rates(), told, sampler.rateOf('a')]).toEqual([[5, 5, 2, 0], 4, 0.4]);
  expect([sampler.ratesOf('b'), sampler.rateOf('b')]).toEqual([[], 0]);
  await vi.advanceTimersByTimeAsync(HISTORY_MS + SAMPLE_INTERVAL_MS);
  const most = HISTORY_MS / SAMPLE_INTERVAL_MS;
  expect([rates().length, sampler.samples.length, sampler.rateOf('a')]).toEqual([most, most, 0]);
  sampler.stop();
  await vi.advanceTimersByTimeAsync(10 * SAMPLE_INTERVAL_MS);
  expect(told).toBe(most + 5);
});

describe('records of the key versions', () => {
  const shares = (records: number | null, ...counts: (number | null)[]) => {
    const version = { version: 1, created_at: '', isNewest: false };
    return sharesOf(
      counts.map((one) => ({ ...version, records: one })),
      records,
    ).map((one) => one.records);
  };

  test.each([
    [[169, 133], 302, [500, 395]],
    [[3, 4, 3], 10, [1, 1, 1]],
    [[3, 0], 3, [3, 0]],
    [[0, 0], 0, [0, 0]],
    // One of the counts is not known.
    [[null, null], null, [1, 2]],
    [[null], 5, [null]],
  ])('are %j of %s, however they were counted: %j', (expected, records, counts) => {
    expect(shares(records, ...counts)).toEqual(expected);
  });
});
