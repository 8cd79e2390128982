import { inspect } from 'node:util';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { Standin, type StandinOptions } from '#client';
import { Front } from '../support/balancer.ts';
import {
  createClient,
  leastPrivilegePlace,
  type Place,
  type Service,
  startService,
} from '../support/service.ts';

const MANY = 50_000;

let place: Place;
let service: Service;
let front: Front;
beforeAll(async () => {
  place = await leastPrivilegePlace();
  service = await startService(place);
  front = await Front.start(service.url, '/standin');
});
afterAll(async () => {
  front.stop();
  await service.stop();
  place.remove();
});

/** Counts its requests: they go through a proxy, at an address with a path. */
function standin(options: Partial<StandinOptions> = {}): Standin {
  front.bodies.length = 0;
  front.mostOpen = 0;
  return new Standin({ url: `${front.url}/standin/`, apiKey: service.api_key, ...options });
}

test('a small input is one list of its values', async () => {
  const client = standin();
  const tokens = await client.tokenize({ name: 'Ann Lee', more: ['Bo Ray', { name: 'Ann Lee' }] });
  expect(front.bodies).toEqual(['{"data":{"values":["Ann Lee","Bo Ray"]}}']);
  expect(tokens.more[1]).toEqual({ name: tokens.name });
  expect(await client.health()).toMatchObject({ status: 'ok', postgres: 'ok', version: '1.0.5' });
});

test(`${MANY} values come back in their order, with at most four requests at once`, async () => {
  const values = Array.from({ length: MANY }, (_, i) => `Value no ${i}`);
  const client = standin();
  const tokens = await client.tokenizeValues(values);
  expect(front.bodies).toHaveLength(MANY / 2_000);
  expect(front.mostOpen).toBeLessThanOrEqual(4);
  expect(new Set(tokens).size).toBe(MANY);
  expect(await client.detokenizeValues(tokens)).toEqual(values);
});

test('many of the longest values fit the bodies that the service takes', async () => {
  const values = Array.from({ length: 40 }, (_, i) => `🙂 no ${i}`.padEnd(65_534, '"'));
  const client = standin();
  expect(await client.detokenizeValues(await client.tokenizeValues(values))).toEqual(values);
});

test('random mode: a value has one token in a call, and another in the next', async () => {
  const { api_key: apiKey } = await createClient(place, '--token-mode', 'random');
  const client = standin({ apiKey, maxValues: 2 });
  const values = ['Ann Lee', 'Bo Ray', 'Cy Day', 'Ann Lee'];
  const first = await client.tokenizeValues(values);
  const second = await client.tokenizeValues(values);
  expect(first[0]).toBe(first[3]);
  expect(first[0]).not.toBe(second[0]);
  expect(await client.detokenizeValues([...first, ...second])).toEqual([...values, ...values]);
});

const sent = (change: (init: RequestInit) => RequestInit) => (url: string, init: RequestInit) =>
  fetch(url, change(init));
test.each<[string, (url: string, init: RequestInit) => Promise<Response>, string]>([
  ['not_found', (url, init) => fetch(`${url}/x`, init), 'no such path; the paths are /api/v1/tok'],
  ['method_not_allowed', sent((init) => ({ ...init, method: 'PUT' })), 'this path takes POST'],
  [
    'payload_too_large',
    sent((init) => ({ ...init, body: 'a'.repeat(1_048_577) })),
    'the body has more than 1048576 bytes (BODY_LIMIT); ',
  ],
  [
    'unsupported_media_type',
    sent((init) => ({ ...init, headers: { ...init.headers, 'content-type': 'a/b' } })),
    'send one header Content-Type: application/json (UTF-8)',
  ],
])('%s: the error has the message of the service', async (code, send, message) => {
  const client = standin({ fetch: send as typeof fetch });
  const error = await client.tokenize({ a: 'Ann Lee' }).catch((one) => one);
  expect(error).toMatchObject({
    code,
    attempts: 1,
    requestId: expect.stringMatching(/^[\w-]{36}$/),
  });
  expect(error.detail).toContain(message);
  expect(error.message).toContain(`${error.status} ${code}: ${error.detail}`);
  expect(inspect(error)).not.toContain('Ann Lee');
});

test('the older interface: its answers and its limits are understood', async () => {
  const limited = await startService(place, { INTERFACE_VERSION: '1.0.4' });
  try {
    const { api_key: apiKey } = await createClient(place, '--rate-limit', '0.01');
    const client = new Standin({ url: limited.url, apiKey });
    const tokens = await client.tokenize({ a: 'Ann Lee' });
    const error = await client.tokenize({ a: 'Ann Lee' }).catch((one) => one);
    expect(error).toMatchObject({ name: 'LimitError', code: 'rate_limit', attempts: 1 });
    expect(error.retryAfterMs).toBeGreaterThan(30_000);
    expect((await client.health()).version).toBe('1.0.4');
    expect(await client.detokenize(tokens)).toEqual({ a: 'Ann Lee' });
  } finally {
    await limited.stop();
  }
});
