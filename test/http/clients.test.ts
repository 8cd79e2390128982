import { expect, test } from 'vitest';
import { served } from '../support/served.ts';
import {
  call,
  createClient,
  leastPrivilegePlace,
  runJson,
  startService,
  until,
} from '../support/service.ts';

const service = served(async () => startService(await leastPrivilegePlace()));

/** Runs a command beside the service. */
const command = (...args: string[]) => runJson(service.place, ...args);

const status = async (apiKey: string) =>
  (await call(service, 'tokenize', { a: 'b' }, apiKey)).status;
const refused = (apiKey: string) =>
  until(async () => (await status(apiKey)) === 401, 'a 401', 10_000);

test('a client has several live API keys; each works at once, and ends alone', async () => {
  const { client_id: id, api_key: first } = await createClient(service.place);
  expect(await status(first)).toBe(200);
  const second = await command('api-key', 'issue', '--client', id);
  expect(await status(second.api_key)).toBe(200);
  await command('api-key', 'revoke', second.api_key_id);
  await refused(second.api_key);
  expect(await status(first)).toBe(200);
});

test('an API key ends when its time is over', async () => {
  const { client_id: id } = await createClient(service.place);
  const soon = new Date(Date.now() + 2_500).toISOString();
  const issued = await command('api-key', 'issue', '--client', id, '--expires', soon);
  expect(await status(issued.api_key)).toBe(200);
  await refused(issued.api_key);
  expect(Date.now()).toBeGreaterThanOrEqual(Date.parse(soon));
});
