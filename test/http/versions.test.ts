import { expect, test } from 'vitest';
import { send } from '../support/http.ts';
import { ownPlace, ownService } from '../support/own.ts';
import { linesOfLog } from '../support/secrecy.ts';
import { logged } from '../support/served.ts';
import { call, type Service, scrape, until } from '../support/service.ts';

const UUID = /^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/;

const get = (service: Service, path: string) => send(service, path, undefined, {}, 'GET');

test('A43, C02: one JSON line a request, with who and how much, and nothing of what', async () => {
  const service = await ownService(await ownPlace(), { LOG_LEVEL: 'trace', TOKEN_SUFFIX: 'T2f' });
  const started = service.output().length;
  const secrets = ['Ann Lee', 'zqSecretName', '\n{"level":"fatal"}'];
  const tokenized = await call(service, 'tokenize', { zqSecretName: secrets });
  await call(service, 'detokenize', tokenized.body.data);
  await call(service, 'detokenize', { a: 'zqUnknown_T2f' });
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
  for (const token of tokens) expect(token).toMatch(/_T2f$/);
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
