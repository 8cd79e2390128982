import { once } from 'node:events';
import { mkdirSync, writeFileSync } from 'node:fs';
import { createServer, type ServerResponse } from 'node:http';
import { type AddressInfo, connect } from 'node:net';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { describe, expect, onTestFinished, test, vi } from 'vitest';
import { HISTORY_MS, SAMPLE_INTERVAL_MS, type Sample } from '#console';
import type { Client } from '../../src/client-settings.ts';
import { createMetrics } from '../../src/observe/metrics.ts';
import {
  byLastUse,
  type CurrentState,
  PolicyInForce,
} from '../../src/ops/console/current-state.ts';
import { EventStreams } from '../../src/ops/console/events.ts';
import { readAssets } from '../../src/ops/console/routes.ts';
import {
  addDetections,
  countersOf,
  latencyOf,
  SAMPLED,
  Sampler,
  sampleBetween,
} from '../../src/ops/console/sampler.ts';
import type { OpsContext } from '../../src/ops/web.ts';
import { parsePolicy } from '../../src/policy/parse.ts';
import { NO_POLICY } from '../../src/policy/policy.ts';
import {
  type PolicyFollower,
  type PolicySnapshot,
  UnreadablePolicy,
} from '../../src/policy/policy-follower.ts';
import { leaseMs } from '../../src/timeouts.ts';
import { newFolder } from '../support/folder.ts';

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
    return metrics.read(SAMPLED);
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
    metrics.values('tokenize', 3, '', new Map([['card', 2]]));
    for (let tenant = 0; tenant < 1_100; tenant++)
      metrics.values('tokenize', 1, `tenant${tenant}`, new Map([['card', 1]]));
    metrics.values('detokenize', 5, 'tenant7', new Map([['card', 5]]));
    const lines = (await metrics.text()).split('\n').filter((one) => one.includes('values_total{'));
    expect(lines).toHaveLength(1_002);
    expect(lines).toEqual(
      expect.arrayContaining([
        'standin_values_total{operation="tokenize",kind="card"} 2',
        'standin_values_total{operation="tokenize",space="tenant998",kind="card"} 1',
        'standin_values_total{operation="tokenize",space="_other",kind="_other"} 101',
        'standin_values_total{operation="detokenize",space="tenant7",kind="card"} 5',
      ]),
    );
  });
});

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
    metrics.observe({ standin_rate_limit_shared: () => true, standin_postgres_safe: () => false });
    return metrics.read(SAMPLED);
  });
  let told = 0;
  sampler.onSample = () => void told++;
  const said = () => [sampler.is('areLimitsShared'), sampler.is('isDatabaseSafe')];
  expect(said()).toEqual([null, null]);
  sampler.start();
  for (let i = 0; i < 5; i++) await vi.advanceTimersByTimeAsync(SAMPLE_INTERVAL_MS);
  const rates = () => sampler.ratesOf('a').map(({ requestsPerS }) => requestsPerS);
  expect(said()).toEqual([true, false]);
  // The failed reading is part of the next one. A counter that fell began again.
  expect([rates(), told, sampler.rateOf('a')]).toEqual([[5, 5, 2, 0], 4, 3]);
  expect([sampler.ratesOf('b'), sampler.rateOf('b')]).toEqual([[], 0]);
  await vi.advanceTimersByTimeAsync(2 * SAMPLE_INTERVAL_MS);
  expect([rates(), sampler.rateOf('a')]).toEqual([[5, 5, 2, 0, 0, 0], 1.4]);
  await vi.advanceTimersByTimeAsync(HISTORY_MS + SAMPLE_INTERVAL_MS);
  const most = HISTORY_MS / SAMPLE_INTERVAL_MS;
  expect([rates().length, sampler.samples.length, sampler.rateOf('a')]).toEqual([most, most, 0]);
  sampler.stop();
  await vi.advanceTimersByTimeAsync(10 * SAMPLE_INTERVAL_MS);
  expect(told).toBe(most + 7);
});

test('what was found in texts is counted by day in UTC, for seven days', () => {
  const days = new Map<string, Map<string, number>>();
  let before = new Map<string, number>();
  const add = (time: string, mail: number) => {
    const after = new Map(
      Object.entries({ 'found.mail': mail, 'found.constructor': 1, 'client.a': 9 }),
    );
    addDetections(days, before, after, new Date(time));
    before = after;
  };
  add('2026-11-22T23:59:59Z', 2);
  add('2026-11-23T00:00:01Z', 2);
  add('2026-11-23T00:00:03+01:00', 3);
  add('2026-11-23T00:00:03Z', 5);
  expect([...days].map(([day, kinds]) => [day, Object.fromEntries(kinds)])).toEqual([
    ['2026-11-22', { mail: 3, constructor: 1 }],
    ['2026-11-23', { mail: 2 }],
  ]);
  for (let day = 24; day < 31; day++) add(`2026-11-${day}`, day);
  expect([days.size, days.has('2026-11-23'), days.has('2026-11-24')]).toEqual([7, false, true]);
});

const MIB = 1_048_576;

test('a reader that does not read is cut off, and another has every sample', async () => {
  // The sampler of a service would take hours for so much.
  const sampler = { samples: [] } as unknown as Sampler;
  const state = { read: async () => [] };
  const streams = new EventStreams(sampler, state as unknown as CurrentState);
  const responses: ServerResponse[] = [];
  const server = createServer((request, response) => {
    responses.push(response);
    const c = { env: { incoming: request, outgoing: response }, body: () => new Response() };
    void streams.open(c as unknown as OpsContext, () => true);
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  const open = async () => {
    const known = responses.length;
    const socket = connect(port, '127.0.0.1', () =>
      socket.write('GET / HTTP/1.1\r\nHost: a\r\n\r\n'),
    );
    while (responses.length === known) await new Promise((resolve) => setImmediate(resolve));
    return { socket, response: responses.at(-1)! };
  };
  const idle = await open();
  idle.socket.pause();
  const reading = await open();
  let got = 0;
  let head = '';
  reading.socket.on('data', (chunk: Buffer) => {
    if (head.length < 200) head += chunk.toString('latin1');
    // One of each sample, and nowhere else.
    got += chunk.toString('latin1').split('}').length - 1;
  });
  let sent = 0;
  for (; !idle.response.destroyed && sent < 640; sent++) {
    sampler.onSample({ filler: 'x'.repeat(MIB / 16) } as unknown as Sample);
    while (got <= sent) await new Promise((resolve) => setImmediate(resolve));
  }
  expect(idle.response.destroyed).toBe(true);
  expect([reading.response.destroyed, got]).toEqual([false, sent]);
  expect(head).toContain('y: 2000\n\nevent: history\ndata: []\n\n');
  streams.close();
  await once(reading.socket, 'end');
  for (const { socket } of [idle, reading]) socket.destroy();
  server.close();
});

function shown(latest: Partial<PolicySnapshot>): PolicyInForce {
  const snapshot = { policy: NO_POLICY, asOfMs: leaseMs(), problem: undefined, ...latest };
  return new PolicyInForce({ latest: snapshot } as unknown as PolicyFollower, 'tok');
}

function policyOf(version: number, document: string) {
  return { version, tag: 'x', ...parsePolicy(document).policy! };
}

test('a policy that requests cannot use is a problem, with what to do', () => {
  expect(shown({}).state).toEqual({ version: 0, tag: null, problem: null });
  const unreadable = shown({ problem: new UnreadablePolicy(4, 'line 1'), asOfMs: -Infinity });
  expect(unreadable.state.problem).toMatch(/^Version 4 of the policy .*standin policy apply FILE$/);
  const policy = policyOf(3, 'version: 1');
  expect(shown({ policy, problem: new Error('once') }).state.problem).toBeNull();
  const old = shown({ policy, problem: new Error('for long'), asOfMs: leaseMs() - 5_001 });
  expect(old.state).toEqual({ version: 3, tag: 'x', problem: 'The database does not answer.' });
});

test('clients are shown by their last use, then by their rate; those without one come last', () => {
  const of = (day: number | null, requestsPerS: number | null) => ({
    ...{ last_used_at: day === null ? null : `2026-11-${day}`, requestsPerS },
  });
  const sorted = [of(22, 3), of(22, 1), of(22, null), of(21, 5), of(null, null)];
  expect([3, 0, 4, 2, 1].map((i) => sorted[i]!).toSorted(byLastUse)).toEqual(sorted);
});

test('who may not detokenize sees no kind, and the examples of a version stay the same', () => {
  const inForce = shown({ policy: policyOf(3, 'version: 1') });
  const client = { client_id: 'c_1', name: 'support', can_detokenize: false } as Client;
  expect(inForce.seenBy(client)).toBeNull();
  expect(inForce.seenBy({ ...client, can_detokenize: true })).not.toBeNull();
  expect(inForce.detail).toBe(inForce.detail);
});

test('the files of the page are those that a browser uses, and of the packages that it uses', () => {
  const folder = newFolder('assets');
  for (const name of ['index.html', 'main.js', 'console.css', 'main.js.map', 'main.d.ts', 'key'])
    writeFileSync(join(folder, name), 'import { render } from "preact";');
  mkdirSync(join(folder, 'folder'));
  const assets = readAssets(pathToFileURL(`${folder}/`));
  const names = ['client/path.js', 'console.css', 'main.js', 'paths/json-text.js', 'preact.js'];
  names.push('preact/hooks.js', 'preact/jsx-runtime.js', 'uplot.css', 'uplot.js');
  expect([...assets.keys()].toSorted()).toEqual(['/', ...names.map((name) => `/assets/${name}`)]);
  const text = (name: string) => assets.get(`/assets/${name}`)!.body.toString();
  // A browser finds packages at paths only.
  expect(text('main.js')).toBe('import { render } from "/assets/preact.js";');
  expect(text('preact/hooks.js')).toContain('from "/assets/preact.js"');
});

test('without a page there is none', () => {
  expect(readAssets(new URL('nowhere/', import.meta.url)).size).toBe(0);
});
