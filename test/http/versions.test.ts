import { expect, test } from 'vitest';
import { send } from '../support/http.ts';
import { ownPlace, ownService } from '../support/own.ts';
import { linesOfLog } from '../support/secrecy.ts';
import { logged } from '../support/served.ts';
import { call, type Service, scrape, until } from '../support/service.ts';

const UUID = /^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/;

const get = (service: Service, path: string) => send(service, path, undefined, {}, 'GET');

/** The names of both versions. */
const VERSIONS = [
  {
    ...{ version: '1.0.5', env: {}, id: 'request_id', limit: 'user_limit', status: 'status' },
    ...{
      clientId: 'client_id',
      token: /^[a-z]{3} [a-z]{3}_tok$/,
      client: /^standin_[0-9a-f]{24}$/,
    },
  },
  {
    version: '1.0.4',
    env: { INTERFACE_VERSION: '1.0.4', CLIENT_PREFIX: 'Acme2', TOKEN_SUFFIX: 'T2f' },
    ...{ id: 'Request_id', limit: 'rate_limit', status: 'Status', clientId: undefined },
    ...{ token: /^[a-z]{3} [a-z]{3}_T2f$/, client: /^Acme2_[0-9a-f]{24}$/ },
  },
];

test.each(VERSIONS)(
  'interface $version has $id, $status and $limit, and keeps the names of the caller',
  async ({ version, env, id, limit, status, clientId, token, client }) => {
    // One request, and none more while the test runs, however slow the machine is.
    const service = await ownService(await ownPlace(), { RATE_LIMIT: '0.001', ...env });
    expect(service.client_id).toMatch(client);
    const data = { Name: 'Ann Lee', name: 'Bob Ray' };
    const tokenized = await call(service, 'tokenize', data);
    const about = {
      [id]: expect.stringMatching(UUID),
      ...(clientId && { [clientId]: service.client_id }),
    };
    expect(tokenized.body).toEqual({ data: expect.anything(), ...about });
    expect(tokenized.body[id]).toBe(tokenized.headers.get('x-request-id'));
    expect(Object.keys(tokenized.body.data)).toEqual(['Name', 'name']);
    expect(tokenized.body.data.Name).toMatch(token);
    const restored = await call(service, 'detokenize', tokenized.body.data);
    expect([tokenized.status, restored.status]).toEqual([200, 200]);
    expect(restored.body).toEqual({ data, [status]: 'success', ...about });
    const limited = await call(service, 'tokenize', {});
    const retryAfter = Number(limited.headers.get('retry-after'));
    expect(retryAfter).toBeGreaterThan(0);
    expect([limited.status, limited.body]).toEqual([
      ...[429, { error: limit, retry_after: retryAfter }],
    ]);
    expect(JSON.parse((await get(service, '/health')).text).version).toBe(version);
  },
);

test('A43, C02: one JSON line a request, with who and how much, and nothing of what', async () => {
  const service = await ownService(await ownPlace(), { LOG_LEVEL: 'trace' });
  const started = service.output().length;
  const secrets = ['Ann Lee', 'zqSecretName', '\n{"level":"fatal"}'];
  const tokenized = await call(service, 'tokenize', { zqSecretName: secrets });
  await call(service, 'detokenize', tokenized.body.data);
  await call(service, 'detokenize', { a: 'zqUnknown_tok' });
  await call(service, 'tokenize', { a: 'b' }, 'stk_wrong');
  await get(service, '/zqPath?zqQuery');
  const scraped = async () => (await fetch(`${service.opsUrl}/metrics`)).text();
  const metrics = await scraped();
  const requests = () => logged(service, '"status":');
  await until(() => requests().length === 5, 'five lines');
  const client = {
    client_id: service.client_id,
    api_key_id: expect.stringMatching(/^key_\w{12}$/),
  };
  const line = (route: string, status: number, values: number, more: object) =>
    expect.objectContaining({
      ...{ request_id: expect.stringMatching(UUID), duration_ms: expect.any(Number) },
      ...{ route, status, values, ...more },
    });
  expect(requests()).toEqual([
    line('/api/v1/tokenize', 200, 3, client),
    line('/api/v1/detokenize', 200, 3, client),
    line('/api/v1/detokenize', 400, 0, client),
    line('/api/v1/tokenize', 401, 0, {}),
    line('none', 404, 0, {}),
  ]);
  const log = service.output().slice(started);
  expect(linesOfLog(log)).toEqual(log.split('\n').filter(Boolean));
  const tokens: string[] = tokenized.body.data.zqSecretName;
  for (const text of [...tokens, 'Ann Lee', 'zq', 'fatal', 'stk_']) expect(log).not.toContain(text);

  for (const sample of [
    'requests_total{route="/api/v1/tokenize",status="200"} 1',
    'requests_total{route="/api/v1/tokenize",status="401"} 1',
    'request_duration_seconds_count{route="/api/v1/detokenize"} 2',
    'values_total{operation="tokenize"} 3',
    'values_total{operation="detokenize"} 3',
    'batch_records_sum{statement="insert"} 3',
    'rate_limit_rejections_total{limit="requests"} 0',
    'rate_limit_rejections_total{limit="detokenize"} 0',
    'rate_limit_rejections_total{limit="unknown_tokens"} 0',
    'unknown_tokens_total 1',
    'audit_failures_total 0',
    'damaged_records_total 0',
  ])
    expect(metrics).toContain(`standin_${sample}\n`);
  expect(metrics).toContain('nodejs_eventloop_lag_p99_seconds');
  const rows = async () => (await scrape(service.opsUrl, 'standin_vault_rows'))[''] === 3;
  await until(rows, 'the three records');
  expect((await get(service, '/metrics')).status).toBe(404);
});
