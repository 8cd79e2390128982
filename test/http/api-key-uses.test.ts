import { afterEach, describe, expect, test } from 'vitest';
import { freePort } from '../support/processes.ts';
import {
  call,
  createClient,
  leastPrivilegePlace,
  type Place,
  runCli,
  runJson,
  type Service,
  scrape,
  startService,
  until,
  usualPlace,
} from '../support/service.ts';
import { sql } from '../support/vault.ts';

const services: Service[] = [];
let place: Place;
afterEach(async () => {
  for (const service of services.splice(0)) await service.stop();
  place.remove();
});

async function start(env: Record<string, string> = {}): Promise<Service> {
  const service = await startService(place, { OPS_PORT: String(await freePort()), ...env });
  services.push(service);
  return service;
}

const MINUTE = /^\d{4}-\d\d-\d\dT\d\d:\d\d:00\.000Z$/;

async function lastUse(clientId: string): Promise<string | null> {
  const [apiKey] = await runJson(place, 'api-key', 'list', '--client', clientId);
  return apiKey.last_used_at;
}

describe('the last use of an API key', () => {
  test('is in the vault soon after it, whichever node it was, with the rights of the service', async () => {
    place = await leastPrivilegePlace();
    const nodes = [await start(), await start()];
    const unused = await createClient(place);
    for (const node of nodes) {
      const { client_id: clientId, api_key: apiKey } = await createClient(place);
      expect(await lastUse(clientId)).toBeNull();
      expect((await call(node, 'tokenize', { a: 'b' }, apiKey)).status).toBe(200);
      await until(async () => (await lastUse(clientId)) !== null, 'the last use');
      expect(await lastUse(clientId)).toMatch(MINUTE);
      const clients = await runJson(place, 'client', 'list');
      const listed = clients.find((one: any) => one.client_id === clientId);
      expect(listed.last_used_at).toMatch(MINUTE);
      expect((await runCli(['client', 'list'], place)).stdout).toContain('LAST USED');
    }
    expect(await lastUse(unused.client_id)).toBeNull();
  });

  test('is written when the service ends, and never goes back', async () => {
    place = await usualPlace();
    const service = await start();
    const { client_id: clientId, api_key: apiKey } = await createClient(place);
    await call(service, 'tokenize', { a: 'b' }, apiKey);
    await service.stop();
    const first = await lastUse(clientId);
    expect(first).toMatch(MINUTE);
    const again = await start();
    await sql(place, "update standin.api_key_uses set last_used_at = now() + interval '1 day'");
    const later = await lastUse(clientId);
    await call(again, 'tokenize', { a: 'b' }, apiKey);
    await again.stop();
    expect(await lastUse(clientId)).toBe(later);
  });

  test('fails no request when it cannot be written', async () => {
    place = await usualPlace();
    const service = await start();
    const { api_key: apiKey } = service;
    await sql(place, 'drop table standin.api_key_uses');
    expect((await call(service, 'tokenize', { a: 'b' }, apiKey)).status).toBe(200);
    const health = await (await fetch(`${service.url}/health`)).json();
    expect(health).toMatchObject({ status: 'ok' });
    await service.stop();
    expect(await service.exit).toBe(0);
    expect(service.output()).not.toContain('"level":"error"');
  });
});

test('requests are counted by client, also those that are refused', async () => {
  place = await usualPlace();
  const service = await start();
  const { client_id: clientId, api_key: apiKey } = await createClient(place, '--can', 'tokenize');
  for (let i = 0; i < 6; i++) await call(service, 'tokenize', { a: 'b' }, apiKey);
  expect((await call(service, 'detokenize', { a: 'b' }, apiKey)).status).toBe(403);
  await call(service, 'tokenize', { a: 'b' }, 'stk_wrong');
  const counted = await scrape(service.opsUrl!, 'standin_client_requests_total');
  expect(counted).toEqual({ [`client_id="${clientId}"`]: 7 });
});
