import { afterEach, describe, expect, test } from 'vitest';
import { send } from '../support/http.ts';
import { freePort, PostgresCluster, postgresBin } from '../support/postgres.ts';
import {
  call,
  newPlace,
  type Service,
  startService,
  until,
  usualPlace,
} from '../support/service.ts';

const UUID = /^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/;
let service: Service;
afterEach(async () => {
  await service.stop();
  service.place.remove();
});

/** One request, and none more while a test runs, however slow the machine is. */
const ONE_REQUEST = '0.001';

async function start(env: Record<string, string>): Promise<void> {
  service = await startService(await usualPlace(), env);
}

async function fieldsOf(operation: 'tokenize' | 'detokenize', data: unknown) {
  const { status, body, headers } = await call(service, operation, data);
  expect(status).toBe(200);
  return { body, names: Object.keys(body).sort(), id: headers.get('x-request-id') };
}

describe('both versions of the interface', () => {
  test('1.0.5: lower-case names, client_id, user_limit', async () => {
    await start({ RATE_LIMIT: ONE_REQUEST });
    const { body, names, id } = await fieldsOf('tokenize', { Name: 'Ann Lee' });
    expect(names).toEqual(['client_id', 'data', 'request_id']);
    expect(body.request_id).toMatch(UUID);
    expect(body.request_id).toBe(id);
    expect(body.client_id).toBe(service.client_id);
    expect(Object.keys(body.data)).toEqual(['Name']);
    const restored = await fieldsOf('detokenize', body.data);
    expect(restored.names).toEqual(['client_id', 'data', 'request_id', 'status']);
    expect(restored.body.status).toBe('success');
    const { status, body: limited, headers } = await call(service, 'tokenize', {});
    const retryAfter = Number(headers.get('retry-after'));
    expect(retryAfter).toBeGreaterThan(0);
    expect([status, limited]).toEqual([429, { error: 'user_limit', retry_after: retryAfter }]);
    expect(JSON.parse((await send(service, '/health', undefined, {}, 'GET')).text).version).toBe(
      '1.0.5',
    );
  });

  test('1.0.4: capital letters, no client_id, rate_limit', async () => {
    await start({
      RATE_LIMIT: ONE_REQUEST,
      INTERFACE_VERSION: '1.0.4',
      CLIENT_PREFIX: 'Acme2',
      TOKEN_SUFFIX: 'T2f',
    });
    expect(service.client_id).toMatch(/^Acme2_[0-9a-f]{24}$/);
    const { body, names, id } = await fieldsOf('tokenize', { Name: 'Ann Lee', name: 'Bob Ray' });
    expect(names).toEqual(['Request_id', 'data']);
    expect(body.Request_id).toBe(id);
    expect(Object.keys(body.data)).toEqual(['Name', 'name']);
    expect(body.data.Name).toMatch(/^[a-z]{3} [a-z]{3}_T2f$/);
    const restored = await fieldsOf('detokenize', body.data);
    expect(restored.names).toEqual(['Request_id', 'Status', 'data']);
    expect(restored.body).toMatchObject({
      Status: 'success',
      data: { Name: 'Ann Lee', name: 'Bob Ray' },
    });
    const limited = await call(service, 'tokenize', {});
    const retryAfter = Number(limited.headers.get('retry-after'));
    expect(retryAfter).toBeGreaterThan(0);
    expect([limited.status, limited.body]).toEqual([
      429,
      { error: 'rate_limit', retry_after: retryAfter },
    ]);
    expect(JSON.parse((await send(service, '/health', undefined, {}, 'GET')).text).version).toBe(
      '1.0.4',
    );
  });
});

test.skipIf(postgresBin === undefined)(
  'A46: without its database it says so, and goes on when it is back',
  async () => {
    const cluster = await PostgresCluster.start();
    try {
      service = await startService(await newPlace('server', cluster.url('postgres')));
      const { token } = (await call(service, 'tokenize', { token: 'Ann Lee' })).body.data;
      await cluster.crash();
      const down = { error: 'internal_error', message: 'database unavailable' };
      for (const operation of ['tokenize', 'detokenize'] as const) {
        const { status, body } = await call(service, operation, { token });
        expect([status, body]).toEqual([500, down]);
      }
      const health = await send(service, '/health', undefined, { authorization: null }, 'GET');
      expect(health.status).toBe(503);
      expect(JSON.parse(health.text)).toEqual({
        status: 'error',
        timestamp: expect.stringMatching(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$/),
        postgres: 'error',
        version: '1.0.5',
      });
      expect((await send(service, '/health/live', undefined, {}, 'GET')).status).toBe(200);
      cluster.startAgain();
      await until(
        async () => (await fetch(`${service.url}/health`)).status === 200,
        'a 200 of /health',
      );
      expect((await call(service, 'detokenize', { token })).body.data).toEqual({
        token: 'Ann Lee',
      });
    } finally {
      cluster.stop();
    }
  },
);

test('A43, C02: one JSON line a request, with who and how much, and nothing of what', async () => {
  const opsPort = await freePort();
  await start({ LOG_LEVEL: 'trace', OPS_PORT: String(opsPort) });
  const started = service.output().length;
  const secrets = ['Ann Lee', 'zqSecretName', '\n{"level":"fatal"}'];
  const tokenized = await call(service, 'tokenize', { zqSecretName: secrets });
  await call(service, 'detokenize', tokenized.body.data);
  await call(service, 'detokenize', { a: 'zqUnknown_tok' });
  await call(service, 'tokenize', { a: 'b' }, 'stk_wrong');
  await send(service, '/zqPath?zqQuery', undefined, {}, 'GET');
  const metrics = await (await fetch(`http://127.0.0.1:${opsPort}/metrics`)).text();
  // Whole lines only: the last one may still be on its way.
  const lines = () => service.output().slice(started).split('\n').slice(0, -1).filter(Boolean);
  const requests = () =>
    lines()
      .map((line) => JSON.parse(line))
      .filter((line) => 'status' in line);
  await until(() => requests().length === 5, 'five lines');
  const { client_id: clientId } = service;
  expect(requests()).toMatchObject([
    { route: '/api/v1/tokenize', status: 200, values: 3, client_id: clientId },
    { route: '/api/v1/detokenize', status: 200, values: 3, client_id: clientId },
    { route: '/api/v1/detokenize', status: 400, values: 0, client_id: clientId },
    { route: '/api/v1/tokenize', status: 401, values: 0 },
    { route: 'none', status: 404, values: 0 },
  ]);
  for (const line of requests()) {
    expect(line.request_id).toMatch(UUID);
    expect(line.duration_ms).toBeGreaterThan(0);
  }
  expect(requests()[0].api_key_id).toMatch(/^key_[0-9a-f]{12}$/);
  const log = lines().join('\n');
  const tokens: string[] = tokenized.body.data.zqSecretName;
  for (const text of [...tokens, 'Ann Lee', 'zq', 'fatal', 'stk_']) expect(log).not.toContain(text);

  for (const sample of [
    'standin_requests_total{route="/api/v1/tokenize",status="200"} 1',
    'standin_requests_total{route="/api/v1/tokenize",status="401"} 1',
    'standin_request_duration_seconds_count{route="/api/v1/detokenize"} 2',
    'standin_values_total{operation="tokenize"} 3',
    'standin_values_total{operation="detokenize"} 3',
    'standin_batch_records_sum{statement="insert"} 3',
    'standin_rate_limit_rejections_total{limit="requests"} 0',
    'standin_rate_limit_rejections_total{limit="detokenize"} 0',
    'standin_rate_limit_rejections_total{limit="unknown_tokens"} 0',
    'standin_unknown_tokens_total 1',
    'standin_audit_failures_total 0',
    'standin_damaged_records_total 0',
  ]) {
    expect(metrics).toContain(`${sample}\n`);
  }
  const scraped = async () => (await fetch(`http://127.0.0.1:${opsPort}/metrics`)).text();
  await until(async () => /^standin_vault_rows 3$/m.test(await scraped()), 'the three records');
  expect(metrics).toContain('nodejs_eventloop_lag_p99_seconds');
  expect((await send(service, '/metrics', undefined, {}, 'GET')).status).toBe(404);
});
