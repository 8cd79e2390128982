import { afterEach, describe, expect, test } from 'vitest';
import type { Sample } from '#console';
import {
  ask,
  type OpsService,
  servedOps,
  startWithOps,
  stateOf,
  type Watcher,
  watch,
} from '../support/ops.ts';
import { PostgresCluster, postgresBin } from '../support/postgres.ts';
import { call, createClient, newPlace, until, usualPlace } from '../support/service.ts';

const watchers: Watcher[] = [];
afterEach(() => {
  for (const watcher of watchers.splice(0)) watcher.close();
});

async function open(service: OpsService): Promise<Watcher> {
  const watcher = await watch(service.opsUrl);
  watchers.push(watcher);
  return watcher;
}

/** How many in all, from rates and the times between the samples. */
function total(samples: readonly Sample[], rate: (sample: Sample) => number): number {
  const gaps = samples.slice(1).map((sample, i) => (sample.atMs - samples[i]!.atMs) / 1000);
  return samples.slice(1).reduce((sum, sample, i) => sum + rate(sample) * gaps[i]!, 0);
}

describe('the events of a service', () => {
  const at = servedOps();

  test('begin with the history and the state, and have what was sent: requests, values, errors, batches', async () => {
    const { api_key: apiKey } = await createClient(at.service.place, '--rate-limit', '0.001');
    const watcher = await open(at.service);
    expect(watcher.status).toBe(200);
    await watcher.next('sample');
    expect(watcher.events.map(({ name }) => name).slice(0, 2)).toEqual(['history', 'state']);
    const data = Object.fromEntries(Array.from({ length: 10 }, (_, i) => [`f${i}`, `value ${i}`]));
    const { body } = await call(at.service, 'tokenize', data);
    for (let i = 0; i < 29; i++) await call(at.service, 'tokenize', data);
    for (let i = 0; i < 7; i++) await call(at.service, 'detokenize', body.data);
    for (let i = 0; i < 5; i++) await call(at.service, 'tokenize', { a: 1 });
    for (let i = 0; i < 5; i++) await call(at.service, 'tokenize', { a: 'value 0' }, apiKey);
    const sum = (rate: (sample: Sample) => number) => Math.round(total(watcher.samples(), rate));
    await until(() => sum((one) => one.tokenize.refused) === 9, 'the last request');
    expect(sum((one) => one.tokenize.succeeded)).toBe(31);
    expect(sum((one) => one.tokenize.values)).toBe(301);
    expect(sum((one) => one.detokenize.succeeded)).toBe(7);
    expect(sum((one) => one.detokenize.values)).toBe(70);
    expect(sum((one) => one.limited)).toBe(4);
    expect(sum((one) => one.tokenize.failed + one.detokenize.failed + one.shed)).toBe(0);
    const busy = watcher.samples().filter(({ tokenize }) => tokenize.latency !== null);
    for (const { tokenize } of busy) {
      const { p50_ms: p50Ms, p95_ms: p95Ms, p99_ms: p99Ms } = tokenize.latency!;
      expect(p50Ms).toBeGreaterThan(0);
      expect(p95Ms).toBeGreaterThanOrEqual(p50Ms);
      expect(p99Ms).toBeGreaterThanOrEqual(p95Ms);
    }
    const inserts = watcher.samples().flatMap(({ batch }) => batch.insert ?? []);
    expect(inserts).toEqual([10]);
  });

  test('bring a new state, in which a client has its rate and its last use', async () => {
    const { client_id: clientId, api_key: apiKey } = await createClient(
      at.service.place,
      '--name',
      'test',
    );
    const watcher = await open(at.service);
    const used = watcher.next('state', ({ clients }) =>
      clients.shown.some((one: any) => one.client_id === clientId && one.requestsPerS > 0),
    );
    for (let i = 0; i < 10; i++) await call(at.service, 'tokenize', { a: 'b' }, apiKey);
    const { clients } = await used;
    const shown = clients.shown.find((one: any) => one.client_id === clientId);
    expect(shown).toMatchObject({
      ...{ client_id: clientId, name: 'test', isDisabled: false, liveApiKeys: 1 },
      ...{ can_tokenize: true, can_detokenize: true, token_mode: 'deterministic' },
      ...{ last_used_at: expect.any(String), requestsPerS: expect.any(Number) },
    });
  });

  test('are for 20 readers, and for another when one has left', async () => {
    const readers = await Promise.all(Array.from({ length: 20 }, () => open(at.service)));
    const refused = await ask(`${at.service.opsUrl}/console/events`);
    expect([refused.status, JSON.parse(refused.text).error]).toEqual([503, 'overloaded']);
    readers[0]!.close();
    await until(async () => (await open(at.service)).status === 200, 'a place');
  });
});

test('open streams do not keep the service from ending, and are ended by it', async () => {
  const service = await startWithOps(await usualPlace(), { DRAIN_DELAY_MS: '0' });
  const watcher = await open(service);
  await watcher.next('sample');
  service.kill('SIGTERM');
  expect(await service.exit).toBe(0);
  await until(() => watcher.hasEnded(), 'the end of the stream');
  service.place.remove();
});

test.skipIf(postgresBin === undefined)(
  'while the database is away its parts are null, and the stream goes on',
  async () => {
    const cluster = await PostgresCluster.start();
    const place = await newPlace('server', cluster.url('postgres'));
    const service = await startWithOps(place);
    try {
      const watcher = await open(service);
      expect(await stateOf(service.opsUrl)).toMatchObject({
        database: { kind: 'postgres', isUp: true },
        vault: { records: 0, isEstimate: false, bytes: expect.any(Number) },
        keys: { versions: [{ version: 1, isNewest: true, records: 0 }], resealed: 1 },
        clients: { others: 0 },
      });
      const down = watcher.next('state', ({ database }) => !database.isUp);
      await cluster.crash();
      expect(await down).toMatchObject({ vault: null, keys: null, clients: null });
      await watcher.next('sample');
      const up = watcher.next('state', ({ vault, keys, clients }) => vault && keys && clients);
      cluster.startAgain();
      expect((await up).database.isUp).toBe(true);
    } finally {
      await service.stop();
      place.remove();
      cluster.stop();
    }
  },
);
