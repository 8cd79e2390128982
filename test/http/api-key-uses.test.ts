import { beforeEach, expect, onTestFinished, test } from 'vitest';
import { startWithOps } from '../support/ops.ts';
import {
  call,
  createClient,
  leastPrivilegePlace,
  type Place,
  runCli,
  runJson,
  type Service,
  scrape,
  until,
} from '../support/service.ts';
import { sql } from '../support/vault.ts';

const MINUTE = /^\d{4}-\d\d-\d\dT\d\d:\d\d:00\.000Z$/;
const DATA = { a: 'b' };

let place: Place;
beforeEach(async ({ onTestFinished }) => {
  place = await leastPrivilegePlace();
  onTestFinished(() => place.remove());
});

async function start(): Promise<Service> {
  const service = await startWithOps(place);
  onTestFinished(() => service.stop());
  return service;
}

async function lastUse(clientId: string): Promise<string | null> {
  const [apiKey] = await runJson(place, 'api-key', 'list', '--client', clientId);
  return apiKey.last_used_at;
}

test('the last use of an API key is in the vault soon after it, whichever node it was', async () => {
  const nodes = [await start(), await start()];
  const unused = await createClient(place);
  for (const node of nodes) {
    const { client_id: clientId, api_key: apiKey } = await createClient(place);
    expect(await lastUse(clientId)).toBeNull();
    expect((await call(node, 'tokenize', DATA, apiKey)).status).toBe(200);
    await until(async () => (await lastUse(clientId)) !== null, 'the last use');
    expect(await lastUse(clientId)).toMatch(MINUTE);
    const clients = await runJson(place, 'client', 'list');
    const listed = clients.find((one: any) => one.client_id === clientId);
    expect(listed.last_used_at).toMatch(MINUTE);
    expect((await runCli(['client', 'list'], place)).stdout).toContain('LAST USED');
  }
  expect(await lastUse(unused.client_id)).toBeNull();
});

test('the last use is written when the service ends, and never goes back', async () => {
  const service = await start();
  const { client_id: clientId, api_key: apiKey } = await createClient(place);
  await call(service, 'tokenize', DATA, apiKey);
  await service.stop();
  expect(await lastUse(clientId)).toMatch(MINUTE);
  const again = await start();
  await sql(place, "update standin.api_key_uses set last_used_at = now() + interval '1 day'");
  const later = await lastUse(clientId);
  await call(again, 'tokenize', DATA, apiKey);
  await again.stop();
  expect(await lastUse(clientId)).toBe(later);
});

test('requests are counted by client, also those that are refused, and none fails when its use cannot be written', async () => {
  const service = await start();
  const { client_id: clientId, api_key: apiKey } = await createClient(place, '--can', 'tokenize');
  await sql(place, 'drop table standin.api_key_uses');
  for (let i = 0; i < 6; i++)
    expect((await call(service, 'tokenize', DATA, apiKey)).status).toBe(200);
  expect((await call(service, 'detokenize', DATA, apiKey)).status).toBe(403);
  await call(service, 'tokenize', DATA, 'stk_wrong');
  const counted = await scrape(service.opsUrl!, 'standin_client_requests_total');
  expect(counted).toEqual({ [`client_id="${clientId}"`]: 7 });
  const health = await (await fetch(`${service.url}/health`)).json();
  expect(health).toMatchObject({ status: 'ok' });
  await service.stop();
  expect(await service.exit).toBe(0);
  expect(service.output()).not.toContain('"level":"error"');
});
